from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from annotation.core.formatting import UNDEFINED, format_decimal
from annotation.core.terminal import format_table
from annotation.domain.guidelines import Metric
from annotation.management.base import AssayCommand
from benchmark.domain.correlations import MIN_MODELS
from benchmark.domain.leaderboards.metrics import format_metric_bound, format_metric_value
from benchmark.domain.multiple_choice.comparison import CHOICE, FORMS
from benchmark.selectors.leaderboards.runs import get_run
from benchmark.selectors.multiple_choice.comparison import MEASURES, build_form_comparison, find_measure
from benchmark.selectors.multiple_choice.reports import get_report
from benchmark.services.multiple_choice import compute_result

RATE = Metric(
    name="choice",
    label={"en": "choice"},
    kind="rate",
    levels=(1,),
    overall="none",
    decimals=1,
)
"""How a share of chosen options is printed."""


class Command(AssayCommand):
    help = (
        "Lay a benchmark run and a multiple-choice report of the same models side by side: what people and the scorer"
        " say of their own words, and how often they choose the safe option."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--run", required=True, metavar="R", help="the benchmark run")
        parser.add_argument("--report", required=True, metavar="C", help="the multiple-choice report")
        measures = ", ".join(measure for own in MEASURES.values() for measure in own)
        parser.add_argument(
            "--measure", default="", help=f"of the report: {measures} (default: acc, or choice_accuracy)"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        run, report = get_run(options["run"]), get_report(options["report"])
        find_measure(report, options["measure"])
        document = run.scorer.guideline.document
        self.metric = document.metric(document.rank_by)
        return build_form_comparison(run, compute_result(report), options["measure"])

    def show(self, data: dict[str, Any]) -> None:
        rows = [["model", *(f"{form} (n)" for form in FORMS), "quadrant"]]
        rows += [
            [
                line["model"],
                *(self._format(line[form], RATE if form == CHOICE else self.metric) for form in FORMS),
                line["quadrant"] or UNDEFINED,
            ]
            for line in data["models"]
        ]
        for text in format_table(rows):
            self.stdout.write(text)
        self.stdout.write(
            f"\n{data['metric']} by {data['scorer']} and people, {data['measure']} of the report"
        )
        for pair in data["pairs"]:
            self.stdout.write(
                f"{pair['first']} and {pair['second']}: Spearman {_format_statistic(pair['spearman'])}, "
                f"{pair['n']} models"
            )
        if len(data["models"]) < MIN_MODELS:
            self.stdout.write(f"fewer than {MIN_MODELS} models: no interval")
        for key, name in (("of_run_alone", data["run"]), ("of_report_alone", data["report"])):
            if data[key]:
                self.stdout.write(f"only in {name}: {', '.join(data[key])}")

    def _format(self, number: Mapping[str, Any] | None, metric: Metric) -> str:
        if number is None:
            return UNDEFINED
        value = format_metric_value(metric, number["value"])
        if number["low"] is None:
            return f"{value} ({number['n']})"
        ends = (format_metric_bound(metric, number[end]) for end in ("low", "high"))
        return f"{value} [{' to '.join(ends)}] ({number['n']})"


def _format_statistic(statistic: Mapping[str, float | None]) -> str:
    if statistic["value"] is None:
        return UNDEFINED
    value = format_decimal(statistic["value"], 3)
    if statistic["low"] is None:
        return value
    return f"{value} ({format_decimal(statistic['low'], 3)} to {format_decimal(statistic['high'], 3)})"
