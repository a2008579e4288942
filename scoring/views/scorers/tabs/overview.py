"""How good a scorer is beside people and rules, where it is weak, and what to do with it next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.formatting import format_decimal
from annotation.selectors.guidelines import criterion_label, subcomponent_label
from scoring.models import Scorer
from scoring.views.scorers.charts import comparison_chart
from scoring.views.scorers.wording import (
    CriterionFigures,
    FigureTile,
    ScorerFigure,
    build_tile,
    build_total_row,
    find_coverage_point,
    find_test_metrics,
    list_criterion_figures,
    to_figure,
)

MIN_GROUP_LABELS = 10
"""Labels below which a group is too small to be called a weak place."""
CONFIDENT_COVERAGE = 0.9
MIN_NOTABLE_LOSS = 0.05
"""So much less accuracy than over everything is worth a word."""
MAX_CALIBRATION_ERROR = 0.05


def build_context(scorer: Scorer) -> dict[str, Any]:
    grouped = scorer.evaluation["grouped"]
    return {
        "tiles": list(_list_tiles(scorer)),
        "advice": _find_advice(scorer),
        "chart": comparison_chart(list(_list_comparisons(scorer))),
        "has_annotators": build_total_row(scorer).annotators is not None,
        "weak": list(_list_weak_places(scorer, grouped)),
        "test": _describe_test(scorer),
        "seeds": _describe_seeds(scorer),
    }


def _list_tiles(scorer: Scorer) -> Iterator[FigureTile]:
    grouped = scorer.evaluation["grouped"]
    yield build_tile(_("Accuracy, by prompt"), grouped["accuracy"])
    yield build_tile(_("Macro-F1, by prompt"), grouped["macro_f1"])
    if left_out := scorer.evaluation.get("leave_one_model_out"):
        yield build_tile(_("Accuracy, on a model left out"), left_out["accuracy"])
    if test := find_test_metrics(scorer):
        yield build_tile(_("Accuracy, held-out test"), test["accuracy"])
    if point := find_coverage_point(grouped, CONFIDENT_COVERAGE):
        yield build_tile(_("Accuracy of the surest 90%"), point["accuracy"])
    error = grouped["calibration_error"]
    yield FigureTile(_("Calibration error"), None if error is None else format_decimal(error), _("0 is best"))


@dataclass(frozen=True)
class GradingAdvice:
    """Whether it may grade: ``code`` follows from the accuracy; ``scoring/training/_advice.html`` words it."""

    code: str
    simple: float
    """The accuracy of what needs no learning."""
    people: ScorerFigure | None


def _find_advice(scorer: Scorer) -> GradingAdvice | None:
    """May it grade? Beside what needs no learning, and beside people; None where its accuracy has no interval.

    People are single annotators against gold, as it is. Where no response has two of them each is compared with what
    they said themselves, so how right they are is not known.
    """
    line = build_total_row(scorer)
    own = line.accuracy
    if own is None or own.low is None or own.high is None:
        return None
    simple = max((figure.value for figure in (line.rules, line.majority) if figure is not None), default=0.0)
    people = line.annotators if line.between_annotators is not None else None
    if own.low <= simple:
        code = "too_weak"
    elif people is None:
        code = "better_than_rules"
    elif own.high < people.value:
        code = "below_people"
    elif own.low >= people.value:
        code = "as_right_as_people"
    else:
        code = "not_told_apart"
    return GradingAdvice(code, simple, people)


def _list_comparisons(scorer: Scorer) -> Iterator[tuple[str, str, ScorerFigure]]:
    line, test = build_total_row(scorer), find_test_metrics(scorer)
    figures = (
        ("scorer", _("New prompts"), line.accuracy),
        ("scorer", _("Held-out test"), to_figure(test["accuracy"]) if test else None),
        ("scorer", _("A model left out"), line.left_out),
        ("people", _("Annotators, gold"), line.annotators),
        ("people", _("Annotators, each other"), line.between_annotators),
        ("simple", _("String rules"), line.rules),
        ("simple", _("Commonest level"), line.majority),
    )
    for kind, label, figure in figures:
        if figure is not None:
            yield kind, label, figure


@dataclass(frozen=True)
class WeakPlace:
    """A place to look at: what it is about, a ``code`` with its values, and the tab that shows more.

    In words: ``scoring/scorers/_weak_place.html``.
    """

    about: str
    code: str
    tab: str
    values: Mapping[str, Any] = field(default_factory=dict)


def _list_weak_places(scorer: Scorer, grouped: Mapping[str, Any]) -> Iterator[WeakPlace]:
    yield from _list_weak_levels(scorer)
    yield from _list_weak_groups(scorer, grouped)
    yield from _list_weak_models(scorer, grouped)
    error = grouped["calibration_error"]
    if error is not None and error > MAX_CALIBRATION_ERROR:
        yield WeakPlace(_("Calibration"), "calibration", "calibration", {"error": error})
    for name, head in scorer.card.get("heads", {}).items():
        if head["state"] != "learned":
            about = criterion_label(scorer.guideline.document, name)
            yield WeakPlace(about, "no_label" if head["state"] == "empty" else "one_level", "card")
    if "learned_from" in scorer.card and not find_test_metrics(scorer):
        yield WeakPlace(_("Held-out test"), "no_test", "gate")


def _list_weak_levels(scorer: Scorer) -> Iterator[WeakPlace]:
    """Of each criterion the level that it finds least often."""
    for criterion in list_criterion_figures(scorer):
        recalls = [
            (level.recall.value, place)
            for place, level in enumerate(criterion.levels)
            if level.recall is not None and level.n >= MIN_GROUP_LABELS
        ]
        if recalls and (lowest := min(recalls))[0] < 1 - MIN_NOTABLE_LOSS:
            yield _describe_weak_level(criterion, lowest[1])


def _describe_weak_level(criterion: CriterionFigures, place: int) -> WeakPlace:
    """With the level that it is most often taken for."""
    level = criterion.levels[place]
    assert level.recall is not None
    missed = [(cell.n, at) for at, cell in enumerate(level.cells) if not cell.right and cell.n]
    values = {"n": level.n, "level": level.label, "recall": level.recall.value}
    if missed:
        times, at = max(missed)
        values |= {"times": times, "other": criterion.levels[at].label}
    return WeakPlace(criterion.label, "level", "figures", values)


def _list_weak_groups(scorer: Scorer, grouped: Mapping[str, Any]) -> Iterator[WeakPlace]:
    """The prompt type on which it is worst."""
    name = _find_worst_group(grouped.get("by_kind", {}), grouped["accuracy"]["value"])
    if name is not None:
        values = {
            "name": subcomponent_label(scorer.guideline.document, name),
            "accuracy": to_figure(grouped["by_kind"][name]["accuracy"]),
        }
        yield WeakPlace(_("Prompt type"), "prompt_type", "figures", values)


def _list_weak_models(scorer: Scorer, grouped: Mapping[str, Any]) -> Iterator[WeakPlace]:
    left_out = scorer.evaluation.get("leave_one_model_out")
    if left_out is None:
        if len(grouped["by_model"]) > 1:
            yield WeakPlace(_("New models"), "not_measured", "models")
        return
    name = _find_worst_group(left_out["by_model"], grouped["accuracy"]["value"])
    if name is not None:
        values = {"name": name, "accuracy": to_figure(left_out["by_model"][name]["accuracy"])}
        yield WeakPlace(_("New models"), "new_model", "models", values)


def _find_worst_group(groups: Mapping[str, Any], over_all: float | None) -> str | None:
    """The group of the least accuracy, if that is clearly less than over everything."""
    known = [
        (metrics["accuracy"]["value"], name)
        for name, metrics in groups.items()
        if metrics["accuracy"]["value"] is not None and metrics["n"] >= MIN_GROUP_LABELS
    ]
    if not known or over_all is None:
        return None
    lowest, name = min(known)
    return name if lowest < over_all - MIN_NOTABLE_LOSS else None


def _describe_test(scorer: Scorer) -> dict[str, Any] | None:
    """The figures on the held-out test, over everything and by criterion."""
    metrics = find_test_metrics(scorer)
    if metrics is None:
        return None
    document = scorer.guideline.document
    parts = [
        (criterion_label(document, name), criterion_metrics)
        for name, criterion_metrics in metrics["by_criterion"].items()
    ]
    rows = [(_("Everything"), metrics), *(parts if len(parts) > 1 else [])]
    return {
        "n": metrics["n"],
        "prompts": metrics["prompts"],
        "responses": scorer.card["held_out"],
        "learned": scorer.card["learned_from"],
        "lines": [
            {
                "label": label,
                "n": figures["n"],
                "accuracy": to_figure(figures["accuracy"]),
                "within_one": to_figure(figures["within_one"]),
                "macro_f1": to_figure(figures["macro_f1"]),
            }
            for label, figures in rows
            if figures["n"]
        ],
    }


def _describe_seeds(scorer: Scorer) -> dict[str, Any] | None:
    """How much of the figures is chance; None of one seed alone."""
    seeds = scorer.card.get("seeds")
    if not seeds or len(seeds["seeds"]) < 2:
        return None
    names = ("accuracy", "macro_f1", "calibration_error")
    return {
        "lines": [
            (seed_figures["seed"], [seed_figures[name] for name in names]) for seed_figures in seeds["seeds"]
        ],
        "mean": [seeds["spread"][name]["mean"] for name in names],
        "sd": [seeds["spread"][name]["sd"] for name in names],
    }
