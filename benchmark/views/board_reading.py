"""What may be said of a board: who leads and how surely, what it rests on, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.guidelines import GuidelineDocument, Metric
from benchmark.models import BenchmarkRun
from benchmark.selectors.runs import board_of, rows_of
from benchmark.views.board_columns import Column, Row
from benchmark.views.presenting import composition, headed, interval_text, metric_label, named, sentences

from ..figures.metrics import printed, scopes_of
from ..figures.withholding import NOT_RANKED


def finding(run: BenchmarkRun) -> str:
    """Who stands first by which number, whether that is sure, and who does by other numbers.

    Blank where nobody has the number that the board is ranked by.
    """
    column = headline(run)
    rows = [row for row in rows_of(run) if column.statistic(row)["value"] is not None]
    if not rows:
        return ""
    first = rows[0]
    words = {
        "number": headline_label(run, column),
        "model": first["model"],
        "value": printed(column.metric, column.statistic(first)["value"]),
        "interval": interval_text(column.metric, column.statistic(first)) or "-",
    }
    said = _highest(rows, column, words) if first["rank"] is None else _first(rows, words)
    return sentences([said, *_disagreement(run, first["model"], column)])


def _highest(rows: Sequence[Row], column: Column, words: Mapping[str, str]) -> str:
    """Where ranks are withheld: what is seen, without a claim."""
    highest = column.statistic(rows[0])["value"]
    models = named(row["model"] for row in rows if column.statistic(row)["value"] == highest)
    return _("{number}: the highest value is {value}, of {models}.").format(**words, models=models)


def _first(rows: Sequence[Row], words: Mapping[str, str]) -> str:
    if len(rows) == 1:
        return _("{number}: {model} has {value} ({interval}).").format(**words)
    others = sum(row["rank"]["low"] == 1 for row in rows[1:])
    # somebody is first, and all others are surely behind someone
    if rows[0]["rank"]["high"] == 1 or not others:
        return _("{number}: {model} leads with {value} ({interval}); no other model can be first.").format(
            **words
        )
    return ngettext(
        "{number}: {model} stands first with {value} ({interval}), but {n} other model may be first as well.",
        "{number}: {model} stands first with {value} ({interval}), but {n} other models may be first as well.",
        others,
    ).format(**words, n=others)


def headline(run: BenchmarkRun) -> Column:
    """The column that the board is ranked by."""
    document = run.scorer.guideline.document
    return _headline_of(document, document.metric(document.rank_by))


def standing_of(run: BenchmarkRun, row: Row) -> float | None:
    """The number that the board is ranked by."""
    return headline(run).statistic(row)["value"]


def _headline_of(document: GuidelineDocument, metric: Metric) -> Column:
    """Its overall number; without one, that of its first dimension."""
    return Column(None if metric.overall != "none" else scopes_of(document, metric)[0], metric)


def headline_label(run: BenchmarkRun, column: Column) -> str:
    """The metric, and of which dimension its number is where it has several and no overall."""
    document, metric = run.scorer.guideline.document, column.metric
    label = metric_label(metric)
    several = column.scope is not None and len(scopes_of(document, metric)) > 1
    return headed(label, column.label(document)) if several else label


def _disagreement(run: BenchmarkRun, first: str, lead: Column) -> list[str]:
    """The other headline numbers by which another model stands highest, in a sentence."""
    document = run.scorer.guideline.document
    found = []
    for metric in document.metrics:
        column = _headline_of(document, metric)
        values = {row["model"]: column.statistic(row)["value"] for row in rows_of(run)}
        highest = max((one for one in values.values() if one is not None), default=None)
        if column == lead or highest is None or values.get(first) == highest:
            continue
        others = named(model for model, value in values.items() if value == highest)
        found.append(
            _("{number} {model} ({value})").format(
                number=headline_label(run, column), model=others, value=printed(metric, highest)
            )
        )
    if not found:
        return []
    return [_("The headline numbers disagree on who is highest: by {others}.").format(others=named(found))]


def not_ranked(run: BenchmarkRun) -> str:
    """Why ranks are not given, or not in all columns; blank where they are in all."""
    return why_not_ranked() if board_of(run).get(NOT_RANKED) else ""


def why_not_ranked() -> str:
    return _(
        "Ranks are not given where predictions take part: the scorer's errors differ from model to model, and "
        "intervals of ranks and differences do not know of them yet."
    )


def reading(run: BenchmarkRun) -> list[str]:
    """What a reader should know before quoting a rank or a number."""
    rows = rows_of(run)
    ranked = [row for row in rows if row["rank"] is not None]
    said = []
    if len(ranked) > 1:
        own = sum(row["rank"]["low"] == row["rank"]["high"] for row in ranked)
        said.append(_of_their_own(own, len(ranked)))
    counts = basis_counts(rows)
    predicted, everything = counts.get("out_of_fold", 0) + counts.get("unseen", 0), sum(counts.values())
    if predicted:
        said.append(
            _(
                "{share} of the responses are judged by the scorer and not by people: "
                "what its errors do to the numbers stands under Estimates."
            ).format(share=_share(predicted, everything))
        )
    return said


def _of_their_own(own: int, everyone: int) -> str:
    if own == everyone:
        return _("Every model has a rank of its own.")
    if own == 0:
        return _("No model has a rank of its own: each has a range of ranks.")
    return _("{n} of {all} models have a rank of their own; each other one has a range of ranks.").format(
        n=own, all=everyone
    )


def _share(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f}%" if 1 <= share <= 99 or part == whole else f"{share:.2g}%"


def basis_counts(rows: Sequence[Row]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in rows:
        for cell in row["dimensions"].values():
            for basis, n in cell.get("composition", {}).items():
                summed[basis] = summed.get(basis, 0) + n
    return summed


def tiles(run: BenchmarkRun) -> list[dict[str, Any]]:
    rows = rows_of(run)
    counts = basis_counts(rows)
    found = [
        {"label": _("Models"), "value": f"{len(rows):,}", "note": ""},
        {
            "label": _("Responses"),
            "value": f"{sum(row['n'] for row in rows):,}",
            "note": composition(counts),
        },
    ]
    return found + cost_tiles(run.cost)


def cost_tiles(cost: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What scoring took; nothing of a run that predicted nothing."""
    each = cost.get("per_response")
    if each is None:
        return []
    took = _("{predicted} predicted in {seconds}, {processor} of a processor").format(
        predicted=f"{cost['predicted']:,}",
        seconds=spell(cost["seconds"]),
        processor=spell(cost["processor_seconds"]),
    )
    return [{"label": _("Cost of a response"), "value": spell(each), "note": took}]


def spell(seconds: float) -> str:
    """``12 ms``, ``3.4 s``, ``5 min``."""
    if seconds < 1:
        return _("{n} ms").format(n=f"{1000 * seconds:.3g}")
    if seconds < 120:
        return _("{n} s").format(n=f"{seconds:.3g}")
    return _("{n} min").format(n=f"{seconds / 60:.0f}")
