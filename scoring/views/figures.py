"""A scorer's figures as its page shows them: words in the reader's language, numbers as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.views.levels import criterion_label, label_text
from scoring.dataset import level_name
from scoring.models import Scorer


@dataclass(frozen=True)
class Figure:
    """A statistic: for reading, and on 0 to 100 for a whisker. The interval may be undefined."""

    value: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        return f"{self.value:.3f}"

    @property
    def interval(self) -> str:
        if self.low is None or self.high is None:
            return ""
        return _("{low} to {high}").format(low=f"{self.low:.3f}", high=f"{self.high:.3f}")

    @property
    def whisker(self) -> dict[str, float | None]:
        ends = {"low": self.low, "value": self.value, "high": self.high}
        return {name: None if end is None else 100 * end for name, end in ends.items()}


def statistic(one: Mapping[str, float | None] | None) -> Figure | None:
    """None where it is undefined."""
    if one is None or one["value"] is None:
        return None
    return Figure(one["value"], one["low"], one["high"])


@dataclass(frozen=True)
class Tile:
    label: str
    value: str | None
    note: str = ""


def headline(scorer: Scorer) -> list[Tile]:
    grouped = scorer.evaluation["grouped"]
    error = grouped["calibration_error"]
    found = [
        _tile(_("Accuracy, by prompt"), grouped["accuracy"]),
        _tile(_("Macro-F1, by prompt"), grouped["macro_f1"]),
        Tile(_("Calibration error"), None if error is None else f"{error:.3f}", _("0 is best")),
    ]
    if left_out := scorer.evaluation.get("leave_one_model_out"):
        found.append(_tile(_("Accuracy, on a model left out"), left_out["accuracy"]))
    return found


def _tile(label: str, one: Mapping[str, float | None]) -> Tile:
    figure = statistic(one)
    return Tile(label, figure.text, figure.interval) if figure else Tile(label, None)


@dataclass(frozen=True)
class Line:
    """One row of figures: everything, one criterion or one model; the scorer's, then what they stand beside."""

    kind: str
    label: str
    n: int
    accuracy: Figure | None
    macro_f1: Figure | None
    left_out: Figure | None
    left_out_f1: Figure | None
    majority: Figure | None
    annotators: Figure | None
    between_annotators: Figure | None


def lines(scorer: Scorer) -> list[Line]:
    """Everything, then the criteria and the models where there are several."""
    document = scorer.guideline.document
    grouped = scorer.evaluation["grouped"]
    found = [_line(scorer, "all", _("Everything"), ())]
    if len(grouped["by_criterion"]) > 1:
        found += [
            _line(scorer, "criterion", criterion_label(document, name), ("by_criterion", name))
            for name in grouped["by_criterion"]
        ]
    if len(grouped["by_model"]) > 1:
        found += [_line(scorer, "model", name, ("by_model", name)) for name in grouped["by_model"]]
    return found


def _line(scorer: Scorer, kind: str, label: str, path: tuple[str, ...]) -> Line:
    grouped = _at(scorer.evaluation["grouped"], path)
    left_out = _at(scorer.evaluation.get("leave_one_model_out"), path)
    beside = {
        name: statistic(_at(scorer.card["baselines"][name], path).get("accuracy"))
        for name in ("majority", "annotators", "between_annotators")
    }
    return Line(
        kind=kind,
        label=label,
        n=grouped["n"],
        accuracy=statistic(grouped["accuracy"]),
        macro_f1=statistic(grouped["macro_f1"]),
        left_out=statistic(left_out.get("accuracy")),
        left_out_f1=statistic(left_out.get("macro_f1")),
        **beside,
    )


def _at(metrics: Mapping[str, Any] | None, path: tuple[str, ...]) -> Mapping[str, Any]:
    """The figures of one group; nothing where the group was not measured."""
    found: Mapping[str, Any] = metrics or {}
    for name in path:
        found = found.get(name, {})
    return found


@dataclass(frozen=True)
class LevelLine:
    label: str
    n: int
    predicted: int
    precision: str | None
    recall: str | None
    f1: str | None
    confusion: list[tuple[int, bool]]
    """How many of this level were predicted as each level, and whether that was right."""


@dataclass(frozen=True)
class CriterionFigures:
    label: str
    kappa: str | None
    columns: list[str]
    levels: list[LevelLine]


def criteria(scorer: Scorer) -> list[CriterionFigures]:
    """By criterion: its levels, and which were taken for which."""
    return list(_criteria(scorer))


def _criteria(scorer: Scorer) -> Iterator[CriterionFigures]:
    document = scorer.guideline.document
    for name, metrics in scorer.evaluation["grouped"]["by_criterion"].items():
        values = metrics["confusion"]["levels"]
        counts = metrics["confusion"]["counts"]
        yield CriterionFigures(
            label=criterion_label(document, name),
            kappa=_number(metrics["quadratic_kappa"]),
            columns=[level_name(value) for value in values],
            levels=[
                _level(label_text(document, name, value), metrics["levels"][level_name(value)], row, place)
                for place, (value, row) in enumerate(zip(values, counts, strict=True))
            ],
        )


def _level(label: str, metrics: Mapping[str, Any], row: list[int], place: int) -> LevelLine:
    return LevelLine(
        label=label,
        n=metrics["n"],
        predicted=metrics["predicted"],
        precision=_number(metrics["precision"]),
        recall=_number(metrics["recall"]),
        f1=_number(metrics["f1"]),
        confusion=[(count, at == place) for at, count in enumerate(row)],
    )


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
