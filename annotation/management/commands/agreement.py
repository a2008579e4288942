from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.template.loader import render_to_string

from annotation.core.formatting import format_decimal
from annotation.core.names import split_name_lists
from annotation.core.terminal import format_table
from annotation.domain.agreement import STATISTICS
from annotation.management.base import AssayCommand
from annotation.models import Batch
from annotation.selectors.agreement import FACETS
from annotation.selectors.agreement.weights import list_weighings, summarize_weighings
from annotation.selectors.batches import get_batches
from annotation.selectors.reports import build_agreement

HEADINGS = {
    "percent_agreement": "agreement",
    "cohen_kappa": "kappa",
    "cohen_kappa_linear": "kappa lin.",
    "cohen_kappa_quadratic": "kappa quad.",
    "cohen_kappa_quadratic_observed": "kappa quad. obs.",
    "scott_pi": "pi",
    "fleiss_kappa": "Fleiss",
    "alpha_nominal": "alpha nom.",
    "alpha_ordinal": "alpha ord.",
    "alpha_interval": "alpha int.",
    "alpha_masi": "alpha MASI",
    "gwet_ac1": "AC1",
    "gwet_ac2": "AC2",
    "spearman": "Spearman",
    "icc_single": "ICC(2,1)",
    "icc_average": "ICC(2,k)",
    "pairwise_kappa": "kappa, pairs",
    "conger_kappa": "Conger",
}
HEADS = ("criterion", "group", "n", "disputed", "design effect")
POOL_KAPPAS = ("pairwise_kappa", "conger_kappa")
TEXTS = 2
"""The columns that are text and stand left; the others are numbers."""


class Command(AssayCommand):
    help = "Report how well annotators agree, with 95% intervals over prompts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--batch", nargs="+", help="only these batches, each response of them once (default: all)"
        )
        parser.add_argument(
            "--by", default="", help=f"a,b each grouping by itself, a*b crossed, of {', '.join(FACETS)}"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        named = options["batch"]
        batches: Iterable[Batch] = (
            Batch.objects.all() if named is None else get_batches(split_name_lists(named))
        )
        return build_agreement(batches, options["by"])

    def show(self, data: dict[str, Any]) -> None:
        rows = data["rows"]
        several = len({row["guideline"] for row in rows}) > 1
        # What no row has would only make the lines longer.
        statistics = [name for name in (*STATISTICS, *POOL_KAPPAS) if any(row[name] for row in rows)]
        heads = (*HEADS, *(HEADINGS.get(name, name) for name in statistics))
        lines = [_build_line(row, statistics, with_guideline=several) for row in rows]
        for line in format_table([heads, *lines], texts=TEXTS):
            self.stdout.write(line)
        self._show_weighing(rows)
        for row in data["not_applicable"]:
            self.stdout.write(_describe_applicability(row))
        for row in data["slates"]:
            self.stdout.write(_describe_slates(row))
        for row in data["intra_rater"]:
            self.stdout.write(_describe_intra_rater(row))
        self.stdout.write(_describe_coverage(data["coverage"]))
        for row in data["adjudicators"]["rows"]:
            share = _format_statistic(row["percent_agreement"])
            counts = f"of {row['n']} disputes that two adjudicators decided, {row['same']} alike"
            self.stdout.write(f"{row['criterion']}: {counts}: {share}")

    def _show_weighing(self, rows: Sequence[Mapping[str, Any]]) -> None:
        weighing = summarize_weighings(list_weighings(rows))
        if weighing is not None:
            text = render_to_string("annotation/agreement/_weighing.txt", {"weighing": weighing})
            self.stdout.write(" ".join(text.split()))


def _build_line(
    row: Mapping[str, Any], statistics: Sequence[str], *, with_guideline: bool
) -> tuple[str, ...]:
    criterion = row["criterion"] or "(pooled)"
    name = f"{row['guideline']} {criterion}" if with_guideline else criterion
    group = ", ".join(f"{facet}={value or '-'}" for facet, value in row["group"].items()) or "all"
    percent = row["percent_agreement"]
    effect = format_decimal(percent["design_effect"] if percent else None, 2)
    counts = str(row["n"]), str(row["disputed"]), effect
    return name, group, *counts, *(_format_statistic(row[name]) for name in statistics)


def _describe_applicability(row: Mapping[str, Any]) -> str:
    """Apart from the figures above, which are of numbers alone."""
    counts = f"not applicable in {row['not_applicable']} of {row['labels']} labels"
    pairs = f"n {row['n']}, differing {row['disputed']}"
    alpha = f"nominal alpha {_format_statistic(row['alpha_nominal'])}"
    return f"{row['criterion']}: {counts}; {pairs}, {alpha}"


def _describe_slates(row: Mapping[str, Any]) -> str:
    """Of entries of slates: the best of them with and without ties, or a ranking."""
    if "kendall_w" in row:
        w, chance = _format_statistic(row["kendall_w"]), format_decimal(row["chance"], 3)
        return f"{row['criterion']}: Kendall's W {w} over {row['n']} slates (by chance {chance})"
    parts = [
        f"{name} {row[part]['n']}: agreement {_format_statistic(row[part]['percent_agreement'])}, nominal alpha"
        f" {_format_statistic(row[part]['alpha_nominal'])}"
        for part, name in (("every", "all labels"), ("decided", "without ties and none"))
    ]
    return f"{row['criterion']}: {'; '.join(parts)}"


def _describe_intra_rater(row: Mapping[str, Any]) -> str:
    """Of one person who labelled the same responses in several rounds."""
    alpha = _format_statistic(row["alpha_nominal"])
    share = _format_statistic(row["percent_agreement"])
    counts = f"{row['n']} labelled in several rounds, {row['disputed']} otherwise"
    name = row["group"]["annotator"]
    return f"{name}, {row['criterion'] or '(pooled)'}: {counts}: agreement {share}, nominal alpha {alpha}"


def _describe_coverage(coverage: Mapping[str, Any]) -> str:
    """How many items have how many labels; and what still waits, for whoever reads the figures above as final."""
    parts = [
        f"{items} with {labels} label{'' if labels == '1' else 's'}"
        for labels, items in coverage["items_by_labels"].items()
    ]
    line = f"items: {', '.join(parts) or 'none'}"
    if coverage["waiting_for_labels"]:
        line += f"; {coverage['waiting_for_labels']} still wait for labels"
    if coverage["waiting_for_decision"]:
        line += f"; {coverage['waiting_for_decision']} for a decision"
    return line


def _format_statistic(statistic: Mapping[str, Any] | None) -> str:
    if statistic is None:
        return "-"
    low, high = statistic["low"], statistic["high"]
    interval = "[-]" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
    return f"{format_decimal(statistic['value'], 4)} {interval}"
