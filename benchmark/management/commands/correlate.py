from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.formatting import format_decimal
from annotation.core.terminal import format_table
from annotation.domain.formats import Source
from annotation.management.base import AssayCommand
from annotation.selectors.releases.releases import get_release
from benchmark.domain.correlations import NAMES
from benchmark.domain.metric_files import read_metrics
from benchmark.management.arguments import resolve_names
from benchmark.selectors.correlations import LEVELS, RESPONSE, build_correlations
from benchmark.selectors.judges.judges import get_judge
from scoring.selectors.scorers import get_ready_scorer

HEADS = ("criterion", "first", "second", "n", "Pearson", "Spearman", "Kendall", "kappa quad. obs.")
TEXTS = 3
"""The columns that are text and stand left; the others are numbers."""


class Command(AssayCommand):
    help = (
        "Correlate people's gold, judges, scorers and automatic metrics on one gold release, each two of them, with"
        " 95% intervals over prompts."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--release", required=True, help="the gold, and the responses that are compared")
        parser.add_argument(
            "--metrics",
            metavar="FILE.csv",
            help="automatic metrics: prompt_id, model (and collection) and a column for each; NAME.CRITERION is of that"
            " criterion alone",
        )
        parser.add_argument("--judges", nargs="*", help="only these (default: all that labelled any of it)")
        parser.add_argument(
            "--scorers", nargs="*", help="only these (default: the current and the release's own)"
        )
        parser.add_argument(
            "--level",
            default=RESPONSE,
            help="response, or model: the means of the models (default: %(default)s)",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        if options["level"] not in LEVELS:
            raise AssayError(N_("Write {levels} as the level."), levels=" or ".join(LEVELS))
        metrics = list(read_metrics(Source(options["metrics"]))) if options["metrics"] is not None else []
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:
            return build_correlations(
                get_release(options["release"]),
                metrics,
                judges=resolve_names(options["judges"], get_judge),
                scorers=resolve_names(options["scorers"], get_ready_scorer),
                level=options["level"],
                report=lambda done: bar.update(max(0.0, done - bar.n)),
            )

    def show(self, data: dict[str, Any]) -> None:
        lines = [
            (
                row["criterion"],
                _name_series(row["first"]),
                _name_series(row["second"]),
                str(row["n"]),
                *(_format_statistic(row.get(name)) for name in NAMES),
            )
            for row in data["rows"]
        ]
        for line in format_table([HEADS, *lines], texts=TEXTS):
            self.stdout.write(line)
        if not lines:
            self.stdout.write(
                "nothing to compare: give metrics, or judges or scorers with labels on this release"
            )


def _name_series(series: Mapping[str, str]) -> str:
    return f"{series['kind']} {series['name']}".strip()


def _format_statistic(statistic: Mapping[str, float | None] | None) -> str:
    if statistic is None or statistic["value"] is None:
        return "-"
    value = format_decimal(statistic["value"], 3)
    if statistic["low"] is None:
        return value
    return f"{value} ({format_decimal(statistic['low'], 3)} to {format_decimal(statistic['high'], 3)})"
