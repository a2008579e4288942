"""How good a scorer is beside people and rules, where it is weak, and what to do with it next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.views.levels import criterion_label, subcomponent_label
from scoring.models import Scorer
from scoring.views.charting import beside_chart
from scoring.views.figures import (
    CriterionFigures,
    Figure,
    Tile,
    at_coverage,
    criteria,
    everything,
    held_out,
    number,
    percent,
    statistic,
    tile,
)

FEWEST = 10
"""Labels below which a group is too small to be called a weak place."""
CONFIDENT = 0.9
MOST_LOST = 0.05
"""So much less accuracy than over everything is worth a word."""
BAD_CALIBRATION = 0.05


def context(scorer: Scorer) -> dict[str, Any]:
    grouped = scorer.evaluation["grouped"]
    return {
        "tiles": list(_tiles(scorer)),
        "reading": _reading(scorer),
        "chart": beside_chart(list(_beside(scorer))),
        "weak": list(_weak(scorer, grouped)),
        "test": _test(scorer),
        "seeds": _seeds(scorer),
    }


def _tiles(scorer: Scorer) -> Iterator[Tile]:
    grouped = scorer.evaluation["grouped"]
    yield tile(_("Accuracy, by prompt"), grouped["accuracy"])
    yield tile(_("Macro-F1, by prompt"), grouped["macro_f1"])
    if left_out := scorer.evaluation.get("leave_one_model_out"):
        yield tile(_("Accuracy, on a model left out"), left_out["accuracy"])
    if test := held_out(scorer):
        yield tile(_("Accuracy, held-out test"), test["accuracy"])
    if point := at_coverage(grouped, CONFIDENT):
        yield tile(_("Accuracy of the surest 90%"), point["accuracy"])
    yield Tile(_("Calibration error"), number(grouped["calibration_error"]), _("0 is best"))


@dataclass(frozen=True)
class Reading:
    """The figures in a sentence: a badge's class and word, and what follows for grading."""

    state: str
    word: str
    sentence: str


def _reading(scorer: Scorer) -> Reading | None:
    """May it grade? Beside what needs no learning, and beside people; None where its accuracy has no interval.

    People are single annotators against gold, as it is. Where no response has two of them each is compared with what
    they said themselves, so how right they are is not known.
    """
    line = everything(scorer)
    own = line.accuracy
    if own is None or own.low is None or own.high is None:
        return None
    simple = max((one.value for one in (line.rules, line.majority) if one is not None), default=0.0)
    people = line.annotators if line.between_annotators is not None else None
    if own.low <= simple:
        words = _(
            "It is not surely better than what needs no learning ({simple}): do not let it grade alone."
        )
        return Reading("error", _("too weak"), words.format(simple=f"{simple:.3f}"))
    if people is None:
        words = _(
            "It is surely better than what needs no learning ({simple}). How right people are is not known here."
        )
        return Reading("info", _("better than rules"), words.format(simple=f"{simple:.3f}"))
    if own.high < people.value:
        words = _(
            "It is less right than people ({people}). Let it grade what it is sure of, and people the rest."
        )
        return Reading("warning", _("below people"), words.format(people=people.text))
    if own.low >= people.value:
        words = _("On new prompts it is as right as people are ({people}), as far as these labels tell.")
        return Reading("success", _("as right as people"), words.format(people=people.text))
    words = _(
        "So few labels do not tell it apart from people ({people}): it may be less right than they are."
    )
    return Reading("info", _("not told apart from people"), words.format(people=people.text))


def _beside(scorer: Scorer) -> Iterator[tuple[str, str, Figure]]:
    line, test = everything(scorer), held_out(scorer)
    found = (
        ("scorer", _("New prompts"), line.accuracy),
        ("scorer", _("Held-out test"), statistic(test["accuracy"]) if test else None),
        ("scorer", _("A model left out"), line.left_out),
        ("people", _("Annotators, gold"), line.annotators),
        ("people", _("Annotators, each other"), line.between_annotators),
        ("simple", _("String rules"), line.rules),
        ("simple", _("Commonest level"), line.majority),
    )
    for kind, label, figure in found:
        if figure is not None:
            yield kind, label, figure


@dataclass(frozen=True)
class Weak:
    """A place to look at: what it is about, in a sentence, and the tab that shows more."""

    about: str
    sentence: str
    view: str


def _weak(scorer: Scorer, grouped: Mapping[str, Any]) -> Iterator[Weak]:
    yield from _levels(scorer)
    yield from _groups(scorer, grouped)
    yield from _models(scorer, grouped)
    error = grouped["calibration_error"]
    if error is not None and error > BAD_CALIBRATION:
        words = _("How sure it is misses how often it is right by {error} on average.")
        yield Weak(_("Calibration"), words.format(error=f"{error:.3f}"), "calibration")
    for name, head in scorer.card.get("heads", {}).items():
        if head["state"] != "learned":
            about = criterion_label(scorer.guideline.document, name)
            words = (
                _("It learned from no label of this: it predicts nothing here.")
                if head["state"] == "empty"
                else _("It learned from labels of one level only, and always says this one.")
            )
            yield Weak(about, words, "card")
    if "learned_from" in scorer.card and not held_out(scorer):
        words = _("The release is too small for a held-out test: the gate has nothing to compare it on.")
        yield Weak(_("Held-out test"), words, "gate")


def _levels(scorer: Scorer) -> Iterator[Weak]:
    """Of each criterion the level that it finds least often."""
    for one in criteria(scorer):
        found = [
            (level.recall.value, place)
            for place, level in enumerate(one.levels)
            if level.recall is not None and level.n >= FEWEST
        ]
        if found and (least := min(found))[0] < 1 - MOST_LOST:
            yield _level(one, least[1])


def _level(one: CriterionFigures, place: int) -> Weak:
    level = one.levels[place]
    assert level.recall is not None
    words = _("Of {n} responses labelled {level} it finds {share}.")
    sentence = words.format(n=level.n, level=level.label, share=percent(level.recall.value, 0))
    missed = [(cell.n, at) for at, cell in enumerate(level.cells) if not cell.right and cell.n]
    if missed:
        times, at = max(missed)
        more = _("It takes {times} of them for {other}.")
        sentence += " " + more.format(times=times, other=one.levels[at].label)
    return Weak(one.label, sentence, "figures")


def _groups(scorer: Scorer, grouped: Mapping[str, Any]) -> Iterator[Weak]:
    """The prompt type on which it is worst."""
    name = _worst(grouped.get("by_kind", {}), grouped["accuracy"]["value"])
    if name is not None:
        figure = statistic(grouped["by_kind"][name]["accuracy"])
        assert figure is not None
        words = _("On prompts of the type {name} its accuracy is {value} ({interval}).")
        label = subcomponent_label(scorer.guideline.document, name)
        yield Weak(
            _("Prompt type"),
            words.format(name=label, value=figure.text, interval=figure.interval or "-"),
            "figures",
        )


def _models(scorer: Scorer, grouped: Mapping[str, Any]) -> Iterator[Weak]:
    left_out = scorer.evaluation.get("leave_one_model_out")
    if left_out is None:
        if len(grouped["by_model"]) > 1:
            words = _("Not measured: train with one model left out to know what it is worth on a new one.")
            yield Weak(_("New models"), words, "models")
        return
    name = _worst(left_out["by_model"], grouped["accuracy"]["value"])
    if name is not None:
        figure = statistic(left_out["by_model"][name]["accuracy"])
        assert figure is not None
        words = _("Without a label of {name} its accuracy there is {value} ({interval}).")
        yield Weak(
            _("New models"),
            words.format(name=name, value=figure.text, interval=figure.interval or "-"),
            "models",
        )


def _worst(groups: Mapping[str, Any], over_all: float | None) -> str | None:
    """The group of the least accuracy, if that is clearly less than over everything."""
    known = [
        (one["accuracy"]["value"], name)
        for name, one in groups.items()
        if one["accuracy"]["value"] is not None and one["n"] >= FEWEST
    ]
    if not known or over_all is None:
        return None
    least, name = min(known)
    return name if least < over_all - MOST_LOST else None


def _test(scorer: Scorer) -> dict[str, Any] | None:
    """The figures on the held-out test, over everything and by criterion."""
    found = held_out(scorer)
    if found is None:
        return None
    document = scorer.guideline.document
    parts = [(criterion_label(document, name), one) for name, one in found["by_criterion"].items()]
    shown = [(_("Everything"), found), *(parts if len(parts) > 1 else [])]
    return {
        "n": found["n"],
        "prompts": found["prompts"],
        "responses": scorer.card["held_out"],
        "learned": scorer.card["learned_from"],
        "lines": [
            {
                "label": label,
                "n": one["n"],
                "accuracy": statistic(one["accuracy"]),
                "within_one": statistic(one["within_one"]),
                "macro_f1": statistic(one["macro_f1"]),
            }
            for label, one in shown
            if one["n"]
        ],
    }


def _seeds(scorer: Scorer) -> dict[str, Any] | None:
    """How much of the figures is chance; None of one seed alone."""
    found = scorer.card.get("seeds")
    if not found or len(found["seeds"]) < 2:
        return None
    names = ("accuracy", "macro_f1", "calibration_error")
    return {
        "lines": [(one["seed"], [number(one[name]) for name in names]) for one in found["seeds"]],
        "mean": [number(found["spread"][name]["mean"]) for name in names],
        "sd": [number(found["spread"][name]["sd"]) for name in names],
    }
