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
        "", table([HEADS, *(_row(candidate, document["guideline"]) for candidate in document["candidates"])])
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


def title_of(candidate: Mapping[str, Any]) -> str:
    if candidate["kind"] == "people":
        return "annotators, all"
    return f"{candidate['kind']} {candidate['name']}"


def _row(candidate: Mapping[str, Any], gold_by: str) -> tuple[str, ...]:
    version = candidate.get("guideline", gold_by)
    return (
        title_of(candidate) if version == gold_by else f"{title_of(candidate)} (by {version})",
        str(candidate["n"]),
        _percent(candidate["coverage"]),
        str(candidate["off_scale"]),
        _value(candidate["accuracy"]),
        _interval(candidate["accuracy"]),
        _value(candidate["macro_f1"]),
        _value(candidate["cohen_kappa"]),
        _value(candidate["quadratic_kappa"]),
        _value(candidate["calibration_error"]),
    )


def _others(document: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            title_of(candidate),
            str(candidate["against_others"]["n"]),
            _value(candidate["against_others"]["accuracy"]),
            _interval(candidate["against_others"]["accuracy"]),
            _value(candidate["against_others"]["macro_f1"]),
            _percent(candidate["rests_on_own"]),
        )
        for candidate in document["candidates"]
        if "against_others" in candidate
    ]
    heads = ("", "n", "accuracy", "95%", "macro-F1", "gold rests on own word")
    return table([heads, *rows]) if rows else []


def _by_model(document: Mapping[str, Any]) -> list[str]:
    heads = ("", "model", "n", "accuracy", "95%", "macro-F1", "in training")
    rows = [
        (
            title_of(candidate),
            model,
            str(figures["n"]),
            _value(figures["accuracy"]),
            _interval(figures["accuracy"]),
            _value(figures["macro_f1"]),
            _seen(candidate, model),
        )
        for candidate in document["candidates"]
        if candidate["kind"] != "annotator"
        for model, figures in candidate["by_model"].items()
    ]
    return table([heads, *rows], texts=2) if rows else []


def _seen(candidate: Mapping[str, Any], model: str) -> str:
    if candidate.get("models_seen") is None:
        return ""
    return "seen" if model in candidate["models_seen"] else "unseen"


def _levels(document: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            title_of(candidate),
            name,
            criterion,
            level,
            str(statistics["n"]),
            str(statistics["said"]),
            *(_value(statistics[figure]) for figure in ("precision", "recall", "f1")),
        )
        for candidate in document["candidates"]
        if candidate["kind"] != "annotator"
        for grouping in ("by_criterion", "by_dimension")
        for name, part in candidate[grouping].items()
        for criterion, figures in part["criteria"].items()
        for level, statistics in figures["levels"].items()
    ]
    return table([LEVEL_HEADS, *rows], texts=4) if rows else []


def _tests(document: Mapping[str, Any]) -> list[str]:
    rows = []
    for candidate in document["candidates"]:
        if "alternative" in candidate:
            parts = {"all": candidate["alternative"]["pooled"], **candidate["alternative"]["by_criterion"]}
            rows += [(title_of(candidate), name, *_verdict(verdict)) for name, verdict in parts.items()]
    return table([TEST_HEADS, *rows], texts=2) if rows else []


def _verdict(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    tested = [person for person in verdict["people"] if person["p"] is not None]
    passes = {True: "yes", False: "no", None: "-"}[verdict["passes"]]
    return (
        _number(verdict["winning_rate"]),
        _number(verdict["advantage_probability"]),
        f"{passes} (fewer than 3 people)" if verdict["few_people"] else passes,
        str(len(tested)),
        " ".join(_number(person["p_adjusted"]) for person in tested) or "-",
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
