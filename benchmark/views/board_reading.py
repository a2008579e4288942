"""What may be said of a board: who leads and how surely, what it rests on, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from benchmark.models import BenchmarkRun
from benchmark.views.board_columns import Row, columns_of
from benchmark.views.presenting import composition, interval_text

from ..figures.metrics import printed


def finding(run: BenchmarkRun) -> str:
    """Who is first, and whether that is sure, in a sentence; blank where nothing is ranked."""
    document = run.scorer.guideline.document
    metric = document.metric(document.rank_by)
    ranked = [row for row in run.board.get("rows", []) if row["rank"] is not None]
    if not ranked:
        return ""
    first = ranked[0]
    column = next(one for one in columns_of(document, metric) if one.metric == metric)
    statistic = column.statistic(first)
    words = {
        "model": first["model"],
        "value": printed(metric, statistic["value"]),
        "interval": interval_text(metric, statistic) or "-",
    }
    if len(ranked) == 1:
        return _("{model} has {value} ({interval}).").format(**words)
    others = sum(row["rank"]["low"] == 1 for row in ranked[1:])
    if (
        first["rank"]["high"] == 1 or not others
    ):  # somebody is first, and all others are surely behind someone
        return _("{model} leads with {value} ({interval}): no other model can be first.").format(**words)
    return ngettext(
        "{model} stands first with {value} ({interval}), but {n} other model may be first as well.",
        "{model} stands first with {value} ({interval}), but {n} other models may be first as well.",
        others,
    ).format(**words, n=others)


def reading(run: BenchmarkRun) -> list[str]:
    """What a reader should know before quoting a rank or a number."""
    rows = run.board.get("rows", [])
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
    rows = run.board.get("rows", [])
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
