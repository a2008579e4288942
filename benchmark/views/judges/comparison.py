"""The comparison of judges, scorers and people in the words and numbers of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from annotation.core.charts import (
    BLUE,
    GOLD,
    INK,
    MUTED,
    PADDING,
    SCHEMA,
    Look,
    chart_url,
    draw_interval,
    draw_points,
    make_looks,
    make_quantity,
    make_rows,
)
from annotation.domain.guidelines import GuidelineDocument
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from scoring.views.scorers.weighing import weighing_context
from scoring.views.scorers.wording import ScorerFigure, to_figure

PANEL_WIDTH = 230
BAND = 28
JUDGING = ("scorer", "judge", "people")
"""Who stands in the tables by model and by level; single annotators stand in their own."""


@dataclass(frozen=True)
class CandidateName:
    """Whose figures these are. ``kind`` is a badge's ending."""

    kind: str
    word: str
    label: str
    url: str


@dataclass(frozen=True)
class CandidateRow:
    """``version`` is the guideline that the labels were made by, where gold is by another version of it."""

    name: CandidateName
    version: str | None
    n: int
    coverage: float | None
    off_scale: int
    accuracy: ScorerFigure | None
    within_one: ScorerFigure | None
    macro_f1: ScorerFigure | None
    cohen_kappa: ScorerFigure | None
    quadratic_kappa: ScorerFigure | None
    calibration_error: ScorerFigure | None


@dataclass(frozen=True)
class PersonRow:
    """A person against gold, and against what would have been settled without them."""

    label: str
    n: int
    accuracy: ScorerFigure | None
    rests_on_own: float | None
    others_n: int
    others_accuracy: ScorerFigure | None
    others_macro_f1: ScorerFigure | None
    others_kappa: ScorerFigure | None


def comparison_context(document: Mapping[str, Any], guideline: GuidelineDocument) -> dict[str, Any]:
    candidates = document["candidates"]
    lines = [_candidate_row(candidate, document["guideline"]) for candidate in candidates]
    return {
        "document": document,
        "lines": lines,
        "weighed_lines": [
            {"name": _candidate_name(candidate), **weighing_context(candidate, document.get("selection"))}
            for candidate in candidates
            if candidate.get("weighed")
        ],
        **weighing_context({}, document.get("selection")),
        "commonest": _commonest_row(document),
        "has_within_one": any(line.within_one for line in lines),
        "has_weighted": any(line.quadratic_kappa for line in lines),
        "has_calibration": any(line.calibration_error for line in lines),
        "chart": _comparison_chart(lines),
        "people": [_person_row(candidate) for candidate in candidates if "against_others" in candidate],
        "columns": [_candidate_name(candidate) for candidate in candidates if candidate["kind"] in JUDGING],
        "models": _model_rows(candidates),
        "seen": _seen_rows(candidates),
        "sections": _sections(candidates, guideline, document.get("commonest")),
        "tests": _test_rows(candidates, guideline),
    }


def _candidate_name(candidate: Mapping[str, Any]) -> CandidateName:
    words = {
        "scorer": _("scorer"),
        "judge": _("judge"),
        "people": _("people"),
        "annotator": _("annotator"),
        "commonest": "",
    }
    urls = {"scorer": "scorer", "judge": "judge"}
    kind = str(candidate["kind"])
    return CandidateName(
        kind=kind,
        word=words[kind],
        label=candidate["name"] or (_("Commonest level") if kind == "commonest" else _("All annotators")),
        url=reverse(urls[kind], args=[candidate["name"]]) if kind in urls else "",
    )


def _candidate_row(candidate: Mapping[str, Any], gold_by: str) -> CandidateRow:
    version = candidate.get("guideline", gold_by)
    return CandidateRow(
        name=_candidate_name(candidate),
        version=None if version == gold_by else version,
        n=candidate["n"],
        coverage=candidate["coverage"],
        off_scale=candidate["off_scale"],
        **{
            figure: to_figure(candidate.get(figure))
            for figure in (
                "accuracy",
                "within_one",
                "macro_f1",
                "cohen_kappa",
                "quadratic_kappa",
                "calibration_error",
            )
        },
    )


def _commonest_row(document: Mapping[str, Any]) -> CandidateRow | None:
    """What naming the commonest level is worth: no rater, but what every rater is to be better than."""
    if not document.get("commonest"):
        return None
    return _candidate_row({"kind": "commonest", "name": "", **document["commonest"]}, document["guideline"])


def _person_row(candidate: Mapping[str, Any]) -> PersonRow:
    other_annotators = candidate["against_others"]
    return PersonRow(
        label=candidate["name"] or _("All annotators"),
        n=candidate["n"],
        accuracy=to_figure(candidate["accuracy"]),
        rests_on_own=candidate["rests_on_own"],
        others_n=other_annotators["n"],
        others_accuracy=to_figure(other_annotators["accuracy"]),
        others_macro_f1=to_figure(other_annotators["macro_f1"]),
        others_kappa=to_figure(other_annotators["cohen_kappa"]),
    )


def _model_rows(candidates: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each model: of each candidate accuracy and macro-F1; of a scorer whether it learned from the model."""
    compared = [candidate for candidate in candidates if candidate["kind"] in JUDGING]
    names = sorted({model for candidate in compared for model in candidate["by_model"]})
    return [
        {"model": model, "cells": [_model_cell(candidate, model) for candidate in compared]}
        for model in names
    ]


def _model_cell(candidate: Mapping[str, Any], model: str) -> dict[str, Any]:
    figures = candidate["by_model"].get(model)
    seen = candidate.get("models_seen")
    left_out = ((candidate.get("left_out") or {}).get("by_model") or {}).get(model)
    return {
        "accuracy": to_figure(figures["accuracy"]) if figures else None,
        "macro_f1": to_figure(figures["macro_f1"]) if figures else None,
        "n": figures["n"] if figures else 0,
        "seen": None if seen is None else model in seen,
        "left_out": to_figure(left_out["accuracy"]) if left_out else None,
    }


def _seen_rows(candidates: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each scorer: models that it learned from, models that it did not, and each model left out in training."""
    rows = []
    for candidate in candidates:
        if candidate["kind"] == "scorer":
            parts = [
                (_("models seen in training"), candidate["by_seen"].get("seen")),
                (_("models unseen"), candidate["by_seen"].get("unseen")),
                (_("each model left out in training"), candidate["left_out"]),
            ]
            rows += [
                {
                    "name": _candidate_name(candidate),
                    "part": label,
                    "n": part["n"] if part else 0,
                    "accuracy": to_figure(part["accuracy"]) if part else None,
                    "macro_f1": to_figure(part["macro_f1"]) if part else None,
                }
                for label, part in parts
            ]
    return rows


def _sections(
    candidates: Sequence[Mapping[str, Any]], guideline: GuidelineDocument, commonest: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """By criterion; and by dimension, where that tells another story; the commonest level by each."""
    compared = [candidate for candidate in candidates if candidate["kind"] in JUDGING]
    baselines = [{"kind": "commonest", "name": "", **commonest}] if commonest else []
    sections = [
        _section(
            compared, baselines, guideline, ("by_criterion", name, name), criterion_label(guideline, name)
        )
        for name in _list_names(compared, "by_criterion")
    ]
    pairs = {
        (dimension, criterion)
        for candidate in compared
        for dimension, part in candidate["by_dimension"].items()
        for criterion in part["criteria"]
    }
    dimensions = [dimension for dimension, _criterion in pairs]
    criteria = [criterion for _dimension, criterion in pairs]
    if len(set(dimensions)) < len(dimensions) or len(set(criteria)) < len(criteria):
        for dimension, criterion in sorted(pairs):
            label = f"{dimension_label(guideline, dimension)}: {criterion_label(guideline, criterion)}"
            sections.append(
                _section(compared, baselines, guideline, ("by_dimension", dimension, criterion), label)
            )
    return sections


def _list_names(compared: Sequence[Mapping[str, Any]], grouping: str) -> list[str]:
    return list(dict.fromkeys(name for candidate in compared for name in candidate[grouping]))


def _section(
    compared: Sequence[Mapping[str, Any]],
    baselines: Sequence[Mapping[str, Any]],
    guideline: GuidelineDocument,
    part_of: tuple[str, str, str],
    label: str,
) -> dict[str, Any]:
    """``part_of``: by what the figures are apart, the part, and the criterion. ``baselines``: for the summary."""
    grouping, name, criterion = part_of
    tables = [
        candidate[grouping].get(name, {}).get("criteria", {}).get(criterion, {}).get("levels", {})
        for candidate in compared
    ]
    levels = list(dict.fromkeys(level for table in tables for level in table))
    return {
        "label": label,
        "summary": [
            {
                "name": _candidate_name(candidate),
                **{
                    figure: to_figure(part.get(figure))
                    for figure in ("accuracy", "within_one", "macro_f1", "cohen_kappa")
                },
            }
            for candidate in (*compared, *baselines)
            if (part := candidate[grouping].get(name)) is not None
        ],
        "rows": [
            {
                "label": label_text(guideline, criterion, float(level)),
                "cells": [_level_cell(table.get(level)) for table in tables],
            }
            for level in levels
        ],
    }


def _level_cell(figures: Mapping[str, Any] | None) -> dict[str, Any]:
    if figures is None:
        return {"n": None, "precision": None, "recall": None}
    return {
        "n": figures["n"],
        "said": figures["said"],
        "precision": to_figure(figures["precision"]),
        "recall": to_figure(figures["recall"]),
    }


def _test_rows(candidates: Sequence[Mapping[str, Any]], guideline: GuidelineDocument) -> list[dict[str, Any]]:
    rows = []
    for candidate in candidates:
        if "alternative" not in candidate:
            continue
        parts = list(candidate["alternative"]["by_criterion"].items())
        rows.append(_test_row(candidate, _("All criteria"), candidate["alternative"]["pooled"]))
        if len(parts) > 1:
            rows += [_test_row(candidate, criterion_label(guideline, name), part) for name, part in parts]
    return rows


def _test_row(candidate: Mapping[str, Any], label: str, outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": _candidate_name(candidate),
        "of": label,
        "passes": outcome["passes"],
        "few_people": outcome["few_people"],
        "winning_rate": outcome["winning_rate"],
        "advantage": outcome["advantage_probability"],
        "people": outcome["people"],
    }


def _comparison_chart(lines: Sequence[CandidateRow]) -> str | None:
    """Dots and whiskers, a panel for each figure; the figures stand in the table below it."""
    panels = [("accuracy", _("Accuracy")), ("macro_f1", _("Macro-F1")), ("cohen_kappa", _("Cohen's kappa"))]
    looks = {
        "scorer": Look(_("scorer"), GOLD, "circle"),
        "judge": Look(_("judge"), BLUE, "square"),
        "people": Look(_("people"), INK, "diamond"),
        "annotator": Look(_("annotator"), MUTED, "triangle-up"),
    }
    values = [
        {
            "label": line.name.label,
            "panel": panel,
            "kind": looks[line.name.kind].word,
            "value": figure.value,
            "low": figure.value if figure.low is None else figure.low,
            "high": figure.value if figure.high is None else figure.high,
        }
        for field, panel in panels
        for line in lines
        if (figure := getattr(line, field)) is not None
    ]
    if not values:
        return None
    kinds = [look for kind, look in looks.items() if any(line.name.kind == kind for line in lines)]
    colour, shape = make_looks("kind", kinds, {"orient": "top", "columnPadding": 40})
    y = make_rows("label", [line.name.label for line in lines])
    scale = {"zero": False, "nice": True}
    x = make_quantity("value", None, scale=scale, format=".1f", tickCount=5, labelOverlap=True)
    layer = [
        draw_interval(x, y, color=colour),
        draw_points(x, y, mark={"size": 70}, color=colour, shape=shape),
    ]
    panel_of = {"field": "panel", "type": "nominal", "title": None}
    return chart_url(
        {
            "$schema": SCHEMA,
            "data": {"values": values},
            "padding": PADDING,
            "spacing": 36,
            "facet": {"column": {**panel_of, "sort": [name for _field, name in panels]}},
            "spec": {"width": PANEL_WIDTH, "height": BAND * len(lines), "layer": layer},
        }
    )
