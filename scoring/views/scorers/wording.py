"""A scorer's figures as its page shows them: words in the reader's language, numbers as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.formatting import format_decimal, format_percent, format_range
from annotation.selectors.guidelines import criterion_label, label_text, subcomponent_label
from scoring.domain.evaluation import list_criteria_below_rates
from scoring.domain.training_data import level_name
from scoring.models import Scorer

SHADES = 5


@dataclass(frozen=True)
class ScorerFigure:
    """A statistic: for reading, and on 0 to 100 for a whisker. The interval may be undefined."""

    value: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        return format_decimal(self.value)

    @property
    def interval(self) -> str:
        return format_range(format_decimal(self.low, undefined=""), format_decimal(self.high, undefined=""))

    @property
    def whisker(self) -> dict[str, float | None]:
        ends = {"low": self.low, "value": self.value, "high": self.high}
        return {name: None if end is None else 100 * end for name, end in ends.items()}


def to_figure(statistic: Mapping[str, float | None] | None) -> ScorerFigure | None:
    """None where it is undefined."""
    if statistic is None or statistic["value"] is None:
        return None
    return ScorerFigure(statistic["value"], statistic["low"], statistic["high"])


@dataclass(frozen=True)
class FigureTile:
    label: str
    value: str | None
    note: str = ""


def build_tile(label: str, figures: Mapping[str, float | None] | None) -> FigureTile:
    figure = to_figure(figures)
    return FigureTile(label, figure.text, figure.interval) if figure else FigureTile(label, None)


def list_below_commonest(scorer: Scorer) -> list[dict[str, Any]]:
    """The criteria on which it does not beat always naming the commonest level by log loss, with both."""
    grouped = scorer.evaluation["grouped"]
    return [
        {
            "label": criterion_label(scorer.guideline.document, name),
            "loss": grouped["by_criterion"][name]["log_loss"],
            "rates": grouped["by_criterion"][name]["commonest_log_loss"],
        }
        for name in list_criteria_below_rates(grouped)
    ]


def find_test_metrics(scorer: Scorer) -> Mapping[str, Any] | None:
    """The figures on the test split, which the kept scorer has not learned from; None where there is no label of it."""
    metrics: Mapping[str, Any] | None = scorer.card.get("test")
    return metrics if metrics and metrics["n"] else None


def find_coverage_point(metrics: Mapping[str, Any], coverage: float) -> Mapping[str, Any] | None:
    """The point of the accuracy-at-coverage curve, where the scorer has one."""
    curve = metrics.get("risk_coverage") or ()
    return next((point for point in curve if point["coverage"] == coverage), None)


@dataclass(frozen=True)
class FigureRow:
    """One row of figures: everything, one criterion, model or prompt type; what it stands beside follows.

    ``within_one`` is defined on ordered scales; ``calibration`` is the expected calibration error.
    """

    kind: str
    label: str
    n: int
    accuracy: ScorerFigure | None
    within_one: ScorerFigure | None
    macro_f1: ScorerFigure | None
    calibration: float | None
    left_out: ScorerFigure | None
    left_out_f1: ScorerFigure | None
    majority: ScorerFigure | None
    majority_within_one: ScorerFigure | None
    rules: ScorerFigure | None
    annotators: ScorerFigure | None
    between_annotators: ScorerFigure | None


BASELINE_NAMES = {
    "majority": "majority",
    "rules": "string_rules",
    "annotators": "annotators",
    "between_annotators": "between_annotators",
}
"""What stands beside, and what a card calls it."""


def build_total_row(scorer: Scorer) -> FigureRow:
    return _build_row(scorer, "all", _("Everything"), ())


def list_group_rows(scorer: Scorer, grouping: str) -> list[FigureRow]:
    """By ``by_criterion``, ``by_model`` or ``by_kind``; nothing where there is one group alone."""
    groups = scorer.evaluation["grouped"].get(grouping, {})
    if len(groups) < 2:
        return []
    return [
        _build_row(scorer, grouping, _group_label(scorer, grouping, name), (grouping, name))
        for name in groups
    ]


def _group_label(scorer: Scorer, grouping: str, name: str) -> str:
    document = scorer.guideline.document
    if grouping == "by_criterion":
        return criterion_label(document, name)
    return subcomponent_label(document, name) if grouping == "by_kind" else name


def _build_row(scorer: Scorer, kind: str, label: str, path: tuple[str, ...]) -> FigureRow:
    grouped = find_group_metrics(scorer.evaluation["grouped"], path)
    left_out = find_group_metrics(scorer.evaluation.get("leave_one_model_out"), path)
    baselines = scorer.card.get("baselines", {})
    baseline_figures = {
        name: to_figure(find_group_metrics(baselines.get(card_name), path).get("accuracy"))
        for name, card_name in BASELINE_NAMES.items()
    }
    return FigureRow(
        kind=kind,
        label=label,
        n=grouped["n"],
        accuracy=to_figure(grouped["accuracy"]),
        within_one=to_figure(grouped.get("within_one")),
        macro_f1=to_figure(grouped["macro_f1"]),
        calibration=grouped.get("calibration_error"),
        left_out=to_figure(left_out.get("accuracy")),
        left_out_f1=to_figure(left_out.get("macro_f1")),
        majority_within_one=to_figure(find_group_metrics(baselines.get("majority"), path).get("within_one")),
        **baseline_figures,
    )


def find_group_metrics(metrics: Mapping[str, Any] | None, path: tuple[str, ...]) -> Mapping[str, Any]:
    """The figures of one group; nothing where the group was not measured."""
    group_metrics: Mapping[str, Any] = metrics or {}
    for name in path:
        group_metrics = group_metrics.get(name, {})
    return group_metrics


@dataclass(frozen=True)
class ConfusionCell:
    """How many of a level were predicted as another, of all with that level; ``shade`` is a class's ending."""

    n: int
    share: str
    shade: str
    right: bool


@dataclass(frozen=True)
class LevelRow:
    label: str
    n: int
    predicted: int
    precision: ScorerFigure | None
    recall: ScorerFigure | None
    f1: ScorerFigure | None
    cells: list[ConfusionCell]


@dataclass(frozen=True)
class CriterionFigures:
    name: str
    label: str
    n: int
    accuracy: ScorerFigure | None
    within_one: ScorerFigure | None
    macro_f1: ScorerFigure | None
    kappa: ScorerFigure | None
    calibration: float | None
    columns: list[str]
    levels: list[LevelRow]


def list_criterion_figures(scorer: Scorer) -> list[CriterionFigures]:
    """By criterion that has labels: its levels, and which were taken for which."""
    by_criterion = scorer.evaluation["grouped"]["by_criterion"]
    return [
        _build_criterion_figures(scorer, name, metrics)
        for name, metrics in by_criterion.items()
        if metrics["n"]
    ]


def _build_criterion_figures(scorer: Scorer, name: str, metrics: Mapping[str, Any]) -> CriterionFigures:
    document = scorer.guideline.document
    values, counts = metrics["confusion"]["levels"], metrics["confusion"]["counts"]
    wrong = max((n for at, row in enumerate(counts) for to, n in enumerate(row) if at != to), default=0)
    return CriterionFigures(
        name=name,
        label=criterion_label(document, name),
        n=metrics["n"],
        accuracy=to_figure(metrics["accuracy"]),
        within_one=to_figure(metrics.get("within_one")),
        macro_f1=to_figure(metrics["macro_f1"]),
        kappa=_find_figure(metrics, "quadratic_kappa"),
        calibration=metrics.get("calibration_error"),
        columns=[level_name(value) for value in values],
        levels=[
            _build_level_row(
                label_text(document, name, value), metrics["levels"][level_name(value)], row, place, wrong
            )
            for place, (value, row) in enumerate(zip(values, counts, strict=True))
        ],
    )


def _build_level_row(
    label: str, metrics: Mapping[str, Any], row: list[int], place: int, wrong: int
) -> LevelRow:
    """Shades are measured by the largest count off the diagonal: what is to be found are the mistakes."""
    return LevelRow(
        label=label,
        n=metrics["n"],
        predicted=metrics["predicted"],
        precision=_find_figure(metrics, "precision"),
        recall=_find_figure(metrics, "recall"),
        f1=_find_figure(metrics, "f1"),
        cells=[_build_cell(n, sum(row), at == place, wrong) for at, n in enumerate(row)],
    )


def _build_cell(n: int, of: int, right: bool, wrong: int) -> ConfusionCell:
    shade = "same" if right else str(-(-SHADES * n // wrong)) if wrong else "0"
    return ConfusionCell(n, format_percent(n / of, 0) if n else "", shade, right)


def _find_figure(metrics: Mapping[str, Any], name: str) -> ScorerFigure | None:
    """A figure whose interval stands apart from it; scorers of the first version kept none."""
    value = metrics[name]
    if value is None:
        return None
    low, high = metrics.get("intervals", {}).get(name, (None, None))
    return ScorerFigure(value, low, high)
