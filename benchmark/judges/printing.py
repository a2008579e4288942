"""Judges beside scorers and people as tables of text, for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from annotation.terminal import table

HEADS = (
    "",
    "n",
    "coverage",
    "off scale",
    "accuracy",
    "95%",
    "macro-F1",
    "kappa",
    "weighted",
    "calibration error",
)
TEST_HEADS = ("", "criterion", "winning rate", "advantage", "passes", "people", "p, adjusted")
LEVEL_HEADS = ("", "of", "criterion", "level", "n", "said", "precision", "recall", "F1")


def comparison_lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{document['release']} ({document['guideline']}): {document['labels']} gold labels"
        f" of {document['responses']} responses"
    )
    if document["common"]:
        yield "only the labels that every judge and scorer said something of"
    yield from _section(
        "", table([HEADS, *(_row(one, document["guideline"]) for one in document["candidates"])])
    )
    yield from _section(
        "without the person's own word: against the other annotators alone", _others(document)
    )
    yield from _section("by model, accuracy and macro-F1", _by_model(document))
    yield from _section("by level", _levels(document))
    yield from _section("alternative annotator test", _tests(document))


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        if title:
            yield title
        yield from lines


def title_of(one: Mapping[str, Any]) -> str:
    if one["kind"] == "people":
        return "annotators, all"
    return f"{one['kind']} {one['name']}"


def _row(one: Mapping[str, Any], gold_by: str) -> tuple[str, ...]:
    version = one.get("guideline", gold_by)
    return (
        title_of(one) if version == gold_by else f"{title_of(one)} (by {version})",
        str(one["n"]),
        _percent(one["coverage"]),
        str(one["off_scale"]),
        _value(one["accuracy"]),
        _interval(one["accuracy"]),
        _value(one["macro_f1"]),
        _value(one["cohen_kappa"]),
        _value(one["quadratic_kappa"]),
        _value(one["calibration_error"]),
    )


def _others(document: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            title_of(one),
            str(one["against_others"]["n"]),
            _value(one["against_others"]["accuracy"]),
            _interval(one["against_others"]["accuracy"]),
            _value(one["against_others"]["macro_f1"]),
            _percent(one["rests_on_own"]),
        )
        for one in document["candidates"]
        if "against_others" in one
    ]
    heads = ("", "n", "accuracy", "95%", "macro-F1", "gold rests on own word")
    return table([heads, *rows]) if rows else []


def _by_model(document: Mapping[str, Any]) -> list[str]:
    heads = ("", "model", "n", "accuracy", "95%", "macro-F1", "in training")
    rows = [
        (
            title_of(one),
            model,
            str(found["n"]),
            _value(found["accuracy"]),
            _interval(found["accuracy"]),
            _value(found["macro_f1"]),
            _seen(one, model),
        )
        for one in document["candidates"]
        if one["kind"] != "annotator"
        for model, found in one["by_model"].items()
    ]
    return table([heads, *rows], texts=2) if rows else []


def _seen(one: Mapping[str, Any], model: str) -> str:
    if one.get("models_seen") is None:
        return ""
    return "seen" if model in one["models_seen"] else "unseen"


def _levels(document: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            title_of(one),
            name,
            criterion,
            level,
            str(found["n"]),
            str(found["said"]),
            *(_value(found[figure]) for figure in ("precision", "recall", "f1")),
        )
        for one in document["candidates"]
        if one["kind"] != "annotator"
        for grouping in ("by_criterion", "by_dimension")
        for name, part in one[grouping].items()
        for criterion, figures in part["criteria"].items()
        for level, found in figures["levels"].items()
    ]
    return table([LEVEL_HEADS, *rows], texts=4) if rows else []


def _tests(document: Mapping[str, Any]) -> list[str]:
    rows = []
    for one in document["candidates"]:
        if "alternative" in one:
            parts = {"all": one["alternative"]["pooled"], **one["alternative"]["by_criterion"]}
            rows += [(title_of(one), name, *_verdict(found)) for name, found in parts.items()]
    return table([TEST_HEADS, *rows], texts=2) if rows else []


def _verdict(found: Mapping[str, Any]) -> tuple[str, ...]:
    tested = [one for one in found["people"] if one["p"] is not None]
    passes = {True: "yes", False: "no", None: "-"}[found["passes"]]
    return (
        _number(found["winning_rate"]),
        _number(found["advantage_probability"]),
        f"{passes} (fewer than 3 people)" if found["few_people"] else passes,
        str(len(tested)),
        " ".join(_number(one["p_adjusted"]) for one in tested) or "-",
    )


def _value(statistic: Mapping[str, float | None]) -> str:
    return _number(statistic["value"])


def _interval(statistic: Mapping[str, float | None]) -> str:
    low, high = statistic["low"], statistic["high"]
    return "-" if low is None or high is None else f"{low:.3f}-{high:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
