"""Criteria that are no single level: choices of several options, texts, and questions about each turn."""

from __future__ import annotations

from typing import Any

import pytest

from annotation.core.errors import Unprocessable
from annotation.domain.adjudication import SettlementRules, settle
from annotation.domain.annotations import check_annotation
from annotation.domain.guidelines import NA, GuidelineDocument
from tests.annotation.domain.test_other_answers import ask, read, refusal
from tests.annotation.several_criteria import LEVELS, criterion, scale

OPTIONS = scale({1: "Violence", 2: "Privacy", 4: "Neither"})


def choose(name: str = "topics", **fields: Any) -> dict[str, Any]:
    return without_measurement(criterion(name, OPTIONS)) | {"kind": "choice", "several": True} | fields


def write(name: str = "why", **fields: Any) -> dict[str, Any]:
    return without_measurement(criterion(name, [])) | {"kind": "text"} | fields


def without_measurement(entry: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field != "measurement" and value != []}


DOCUMENT = read(
    ask("harm"),
    choose(na=True),
    write(max_length=20),
    write("hint", asked_if={"criterion": "harm", "at_most": 2}, optional=True),
    ask("empathy", per_turn="assistant", tolerance=1),
)
TURNS = [None, "Hello there", None, "Goodbye"]
ANSWERS = {"harm": 1, "topics": [4, 1], "why": " because ", "empathy@1": 3, "empathy@3": 2}


def check(answers: dict[str, Any], **work: Any) -> Any:
    entry = {"evidence": [], "rationale": "", "texts": lambda: TURNS} | work
    return check_annotation(DOCUMENT, "safe", answers, **entry)


def test_answers_are_stored_by_kind() -> None:
    checked = check(ANSWERS)
    assert checked.labels == {"harm": 1, "topics": 5, "empathy@1": 3, "empathy@3": 2}
    assert checked.texts == {"why": "because"}
    assert check(ANSWERS | {"topics": 5}).labels == checked.labels
    assert check(ANSWERS | {"topics": NA}).labels["topics"] == NA


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"topics": 8}, '"topics" cannot be 8; use one of 1, 2, 4, na.'),
        ({"topics": [1, 8]}, '"topics" cannot be […]; use one of 1, 2, 4, na.'),
        ({"topics": []}, '"topics" cannot be […]; use one of 1, 2, 4, na.'),
        ({"topics": 1.5}, '"topics" cannot be 1.5; use one of 1, 2, 4, na.'),
        ({"why": ""}, '"why" has no text; write one.'),
        ({"why": 3}, '"why" is answered by a text, not by 3.'),
        ({"why": "x" * 21}, 'The text of "why" has 21 characters; write at most 20.'),
        ({"why": "a\x00b"}, 'The text of "why" holds a control character; remove it.'),
        ({"harm": 3, "hint": "no"}, '"hint" is asked only where harm ≤ 2; leave it out here.'),
        ({"empathy@1": 9}, '"empathy@1" cannot be 9; use one of 1, 2, 3.'),
        ({"empathy": 3}, '"empathy" is not asked here, so 3 cannot be taken;'),
        ({"empathy@2": 3}, '"empathy@2" is not asked here, so 3 cannot be taken;'),
    ],
)
def test_what_does_not_fit_is_refused(answers: dict[str, Any], message: str) -> None:
    with pytest.raises(Unprocessable) as caught:
        check(ANSWERS | answers)
    assert str(caught.value).startswith(message)


def test_a_turn_without_label_is_refused() -> None:
    with pytest.raises(Unprocessable, match='"empathy@3" has no label'):
        check({name: answer for name, answer in ANSWERS.items() if name != "empathy@3"})


def test_evidence_of_a_text_has_no_level_and_that_of_options_names_one() -> None:
    span = {"turn": 1, "start": 0, "end": 5}
    marks = [
        span | {"criterion": "why"},
        span | {"criterion": "topics", "level": 4},
        span | {"criterion": "empathy@1"},
    ]
    assert [(mark["criterion"], mark["level"]) for mark in check(ANSWERS, evidence=marks).evidence] == [
        ("empathy@1", 3),
        ("topics", 4),
        ("why", None),
    ]
    for refused in (
        {"criterion": "why", "level": 1},
        {"criterion": "topics", "level": 5},
        {"criterion": "topics"},
    ):
        with pytest.raises(Unprocessable):
            check(ANSWERS, evidence=[span | refused])


def test_each_chosen_option_requires_its_evidence() -> None:
    options = [level | ({"requires": ["evidence"]} if level["value"] == 4 else {}) for level in OPTIONS]
    document = read(ask("harm"), choose(scale=options))
    with pytest.raises(Unprocessable, match='Level 4 of "topics" needs evidence'):
        check_annotation(
            document,
            "safe",
            {"harm": 1, "topics": [1, 4]},
            evidence=[],
            rationale="",
            texts=lambda: ["words"],
        )


def test_each_turn_settles_by_itself_and_sets_settle_when_they_are_equal() -> None:
    rules = SettlementRules.of(DOCUMENT, tolerance=0)
    first = {"harm": 1, "topics": 5, "empathy@1": 3, "empathy@3": 1}
    outcome = settle([first, {"harm": 1, "topics": 4, "empathy@1": 2, "empathy@3": 3}], rules)
    assert outcome.disputed == ("topics", "empathy@3")
    assert outcome.settled["empathy@1"].source == "within_tolerance"
    assert settle([first, first], rules).settled["topics"].value == 5


def test_only_what_is_one_level_is_counted_and_predicted() -> None:
    assert [c.name for c in DOCUMENT.countable_criteria] == ["harm"]
    assert [c.name for c in DOCUMENT.criteria_of(DOCUMENT.metric("top"), "safe")] == ["harm"]
    assert [c.name for c in DOCUMENT.criteria_for("safe")] == ["harm", "topics", "empathy"]
    assert DOCUMENT.criterion("empathy@3").label["en"].endswith("#4")


def test_a_plain_criterion_has_the_hash_that_it_had() -> None:
    plain = read(ask("harm"))
    assert "kind" not in plain.model_dump(mode="json", exclude_defaults=True)["criteria"][0]
    assert GuidelineDocument.from_json(DOCUMENT.to_json()).sha256 == DOCUMENT.sha256


@pytest.mark.parametrize(
    ("criteria", "field", "message"),
    [
        ([write(scale=OPTIONS)], "criteria[1].scale", "A criterion of kind text has no scale"),
        ([write(na=True)], "criteria[1].na", "A criterion of kind text has no na"),
        ([write(several=True)], "criteria[1].several", "A criterion of kind text has no several"),
        ([write(per_turn="assistant")], "criteria[1].per_turn", "A criterion of kind text has no per_turn"),
        ([write(measurement="ordinal")], "criteria[1].measurement", "A criterion of kind text has no order"),
        ([write(max_length=0)], "criteria[1].max_length", ""),
        ([choose(tolerance=1)], "criteria[1].tolerance", "A criterion of kind choice has no tolerance"),
        ([choose(scale=scale(LEVELS))], "criteria[1].scale[2].value", "3 is no power of two"),
        ([choose(scale=OPTIONS[:1])], "criteria[1].scale", "A scale has at least two values"),
        ([ask("more", several=True)], "criteria[1].several", "A criterion of kind level has no several"),
        (
            [ask("more", max_length=5)],
            "criteria[1].max_length",
            "A criterion of kind level has no max_length",
        ),
        (
            [choose(), ask("more", asked_if={"criterion": "topics", "is": 1})],
            "criteria[2].asked_if.criterion",
            '"topics" has no single value to depend on',
        ),
        (
            [ask("turn", per_turn="assistant", asked_if={"criterion": "harm", "is": 1})],
            "criteria[1].asked_if",
            "What is asked of each turn cannot depend on another answer",
        ),
    ],
)
def test_fields_that_a_kind_does_not_have_are_refused(
    criteria: list[dict[str, Any]], field: str, message: str
) -> None:
    where, text = refusal(ask("harm"), *criteria)
    assert where == field
    assert message in text


@pytest.mark.parametrize("other", [choose("topics"), write("topics"), ask("topics", per_turn="assistant")])
def test_a_metric_counts_levels_of_responses(other: dict[str, Any]) -> None:
    where, text = refusal(other, ask("harm"))
    assert where == "metrics[0].criteria[0]"
    assert "no metric counts it" in text
