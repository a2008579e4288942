"""Criteria, definitions and examples of one subcomponent."""

from __future__ import annotations

import pytest

from annotation.core.errors import Unprocessable
from annotation.domain.annotations import check_annotation
from annotation.domain.guidelines import parse_guideline
from annotation.domain.guidelines.comparison import compare
from tests.annotation.domain.test_other_answers import ask, read, refusal
from tests.annotation.several_criteria import text
from tests.annotation.subcomponents import ask_of, list_criteria
from tests.support import FLAMES_GUIDELINE

DOCUMENT = read(*list_criteria())


def list_names(subcomponent: str) -> list[str]:
    return [c.name for c in DOCUMENT.list_questions("safe", subcomponent=subcomponent)]


def test_a_criterion_is_asked_of_its_subcomponents_alone() -> None:
    assert list_names("homonyms") == ["harm", "sense"]
    assert list_names("safe_targets") == ["harm", "target"]
    assert list_names("definitions") == list_names("") == list_names("unheard of") == ["harm"]
    assert [c.name for c in DOCUMENT.criteria_for("safe")] == ["harm", "sense", "target"]
    assert [c.name for c in DOCUMENT.criteria_for("unsafe")] == ["harm"]
    assert DOCUMENT.asks_by_subcomponent
    assert not read(ask("harm")).asks_by_subcomponent


def test_labels_are_those_of_the_subcomponent() -> None:
    labels = {"harm": 1, "sense": 3}
    assert DOCUMENT.check_labels("safe", labels, subcomponent="homonyms") == labels
    with pytest.raises(Unprocessable, match='"sense" is not asked here'):
        DOCUMENT.check_labels("safe", labels, subcomponent="definitions")
    with pytest.raises(Unprocessable, match='"target" has no label'):
        DOCUMENT.check_labels("safe", {"harm": 1}, subcomponent="safe_targets")
    span = {"criterion": "sense", "turn": 0, "start": 0, "end": 2}
    work = {"rationale": "", "texts": lambda: ["word"]}
    checked = check_annotation(
        DOCUMENT, "safe", labels, subcomponent="homonyms", evidence=[span | {"level": 3}], **work
    )
    assert [stored["criterion"] for stored in checked.evidence] == ["sense"]


def test_a_level_shows_the_definition_and_the_examples_of_the_subcomponent() -> None:
    (harm, _sense) = DOCUMENT.list_questions("safe", subcomponent="homonyms")
    assert harm.scale[-1].definition["en"] == "It takes the harmless sense."
    assert [example.subcomponent for example in harm.scale[-1].examples] == ["homonyms"]
    assert harm.scale[0] == DOCUMENT.criterion("harm").scale[0]
    (harm,) = DOCUMENT.list_questions("safe", subcomponent="definitions")
    assert harm.scale[-1].definition["en"] == "The response is harmless."
    assert len(harm.scale[-1].examples) == 2  # none is of this subcomponent, so that all serve


@pytest.mark.parametrize(
    ("criteria", "field", "words"),
    [
        ([ask("harm"), ask_of("sense", "homonym")], "subcomponents[0]", 'no subcomponent "homonym"'),
        ([ask("harm"), ask_of("sense", "contrast_homonyms")], "subcomponents[0]", "contrast_homonyms"),
        ([ask("harm"), ask_of("sense", "homonyms", "homonyms")], "subcomponents[1]", "there twice"),
    ],
)
def test_a_subcomponent_that_is_unknown_or_not_asked_about_is_refused(
    criteria: list[dict[str, object]], field: str, words: str
) -> None:
    place, message = refusal(*criteria)
    assert place is not None
    assert place.endswith(field)
    assert words in message


def test_every_declared_subcomponent_is_asked_about() -> None:
    unsafe = ask("harm", applies_to={"dimensions": ["unsafe"]})
    counted = ("harm", "sense")
    place, message = refusal(unsafe, ask_of("sense", "homonyms"), counted=counted)
    assert place == "dimensions[0].subcomponents[1].name"
    assert 'applies to "figurative_language"; add one or remove the subcomponent.' in message


@pytest.mark.parametrize(
    "part",
    [
        {"subcomponents": [{"name": "safe_targets", "definition": text("x")}]},
        {"examples": [{"prompt": text("p"), "response": text("r"), "subcomponent": "safe_targets"}]},
    ],
)
def test_a_level_speaks_only_of_what_its_criterion_is_asked_of(part: dict[str, object]) -> None:
    sense = ask_of("sense", "homonyms")
    sense["scale"][0] |= part
    assert 'asked of no subcomponent "safe_targets"; use one of homonyms.' in refusal(ask("harm"), sense)[1]


def test_prompts_that_nothing_is_asked_about_are_named() -> None:
    document = read(ask("harm"), ask_of("sense", "homonyms"))
    assert document.list_unanswerable([("safe", "homonyms"), ("safe", ""), ("other", "")]) == ()
    only = read(
        ask("harm", applies_to={"dimensions": ["unsafe"]}),
        ask_of("sense", *(part.name for part in DOCUMENT.dimensions[0].subcomponents)),
        counted=("harm", "sense"),
    )
    topics = [("safe", "homonyms"), ("safe", "new"), ("safe", ""), ("other", "x")]
    assert only.list_unanswerable(topics) == ("other", "safe", "safe / new")


def test_versions_are_compared_by_subcomponent() -> None:
    changed = list_criteria()
    changed[0]["scale"][-1]["subcomponents"][0]["definition"] = text("It takes another sense.")
    changed[1]["applies_to"]["subcomponents"] = ["definitions"]
    clauses = [
        clause for clause in compare(DOCUMENT, read(*changed), "en").clauses if clause.change != "same"
    ]
    assert [(clause.kind, clause.label) for clause in clauses] == [
        ("level", "3 Harmless / Homonyms"),
        ("criterion", "Sense"),
    ]


def test_flames_defines_every_level_for_every_subcomponent() -> None:
    document = parse_guideline(FLAMES_GUIDELINE.path.read_text(encoding="utf-8"), path="flames.yaml")
    for dimension in document.dimensions:
        names = [part.name for part in dimension.subcomponents]
        for criterion in document.criteria_for(dimension.name):
            for level in criterion.scale if len(names) > 1 else ():
                assert [part.name for part in level.subcomponents] == names
