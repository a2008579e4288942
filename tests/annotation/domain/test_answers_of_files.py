"""Several options, texts and levels of turns as files have them, in every way of writing them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.errors import Unprocessable
from annotation.domain.formats import FORMATS, Source
from annotation.domain.formats.answers import AnswerReader
from annotation.domain.formats.labels import Wording, list_criterion_words
from annotation.domain.formats.mapping.guess import guess_mapping
from annotation.domain.guidelines import NA
from tests.annotation.domain.test_kinds_of_criteria import choose, write
from tests.annotation.domain.test_other_answers import ask, read
from tests.annotation.several_criteria import scale

# A name of an option may hold what elsewhere stands between two.
NAMES = {1: "Violence", 2: "Privacy, or its loss", 4: "Neither"}
DOCUMENT = read(
    ask("harm"),
    choose(scale=scale(NAMES), na=True),
    write(),
    ask("empathy", per_turn="assistant", na=True),
)
TURNS = (1, 3, 11)
READER = AnswerReader(DOCUMENT)
CHOSEN = st.sets(st.sampled_from(sorted(NAMES)), min_size=1)
TURN_LABELS = st.lists(st.sampled_from([1, 2, 3, NA]), min_size=len(TURNS), max_size=len(TURNS))


def name_options(values: Sequence[int], language: str = "en") -> list[str]:
    criterion = DOCUMENT.criterion("topics")
    return [level.name[language] for level in criterion.list_levels(sum(values))]


@given(CHOSEN, st.sampled_from([";", " | ", "；"]), st.sampled_from(["en", "zh"]))
def test_a_choice_of_several_is_one_number_however_it_is_written(
    values: set[int], separator: str, language: str
) -> None:
    options = sorted(values)
    ways: list[Any] = [
        options,
        [str(option) for option in options],
        sum(options),
        str(sum(options)),
        json.dumps(options),
        name_options(options, language),
        separator.join(name_options(options, language)),
        ",".join(map(str, options)),
    ]
    for way in ways:
        assert READER.read({"topics": way}) == {"topics": sum(options)}, way
    fields = {f"topics:{option}": int(option in values) for option in NAMES}
    assert READER.read(fields) == {"topics": sum(options)}
    by_name = {f"Topics:{name}": str(value in values) for value, name in NAMES.items()}
    assert READER.read(Wording(DOCUMENT).labels(by_name, "safe")) == {"topics": sum(options)}


@given(TURN_LABELS, st.booleans())
def test_what_is_asked_of_each_turn_has_a_label_for_each(labels: list[Any], as_cell: bool) -> None:
    expected = {f"empathy@{turn}": label for turn, label in zip(TURNS, labels, strict=True)}
    by_turn = {str(turn): label for turn, label in zip(TURNS, labels, strict=True)}
    ways: list[Mapping[str, Any]] = [
        expected,
        {"empathy": json.dumps(labels) if as_cell else labels},
        {"empathy": json.dumps(by_turn) if as_cell else by_turn},
        {"empathy": ";".join(map(str, labels))},
    ]
    for way in ways:
        assert READER.read(way, TURNS) == expected, way
        assert READER.read(Wording(DOCUMENT).labels(way, "safe"), TURNS) == expected, way


@given(st.text(max_size=30))
def test_a_text_is_taken_as_it_stands(text: str) -> None:
    assert READER.read({"why": text}) == {"why": text}
    assert Wording(DOCUMENT).labels({"WHY ": text}, "safe") == {"why": text}


@pytest.mark.parametrize(
    ("raw", "text"), [(7, "7"), ("007", "007"), ("1.50", "1.50"), ("N/A", "N/A"), (1.5, "1.5")]
)
def test_a_text_that_reads_like_a_number_stays_one(tmp_path: Path, raw: object, text: str) -> None:
    row = {"prompt_id": "p", "annotator": "lin"}
    lines = tmp_path / "labels.jsonl"
    lines.write_text(json.dumps(row | {"labels": {"harm": "3"}, "texts": {"why": raw}}) + "\n")
    (record,) = FORMATS["jsonl"].read_annotations(Source(lines))
    assert READER.read(record.labels) == {"harm": 3, "why": text}
    cells = tmp_path / "labels.csv"
    cells.write_text(f"prompt_id,annotator,label.harm,label.why\np,lin,3.0,{raw}\n")
    (record,) = FORMATS["csv"].read_annotations(Source(cells))
    assert READER.read(record.labels) == {"harm": 3, "why": text}


@pytest.mark.parametrize("field", ["texts", "labels"])
def test_texts_stand_in_an_object(tmp_path: Path, field: str) -> None:
    lines = tmp_path / "labels.jsonl"
    row = {"prompt_id": "p", "annotator": "lin", "labels": {"harm": 1}} | {field: ["so"]}
    lines.write_text(json.dumps(row) + "\n")
    with pytest.raises(Exception, match=rf"\[{field}\]"):
        list(FORMATS["jsonl"].read_annotations(Source(lines)))


@pytest.mark.parametrize(
    ("answers", "field", "message"),
    [
        ({"topics": "Violence; War"}, "topics", "\"topics\" has no level 'War'; its levels are 1 (Violence"),
        ({"topics": [1, 8]}, "topics", '"topics" cannot be […]; use one of 1, 2, 4, na.'),
        ({"topics": {"1": 2}}, "topics", "how many gave each level has no place"),
        ({"topics:1": "maybe"}, "topics:1", '"maybe" says neither yes nor no to option 1 of "topics"'),
        ({"topics:War": 1}, "topics:War", "has no level 'War'"),
        ({"topics:1": 0, "topics:2": 0}, "topics", '"topics" cannot be […]'),
        ({"topics": 1, "topics:2": 1}, "topics", '"topics" is answered twice'),
        ({"empathy": [1, 2]}, "empathy", '"empathy" has 2 labels, and 3 turns of this response are judged'),
        ({"empathy": 3}, "empathy", "name the turn (empathy@1)"),
        ({"empathy": {"1": "lots"}}, "empathy", "\"empathy\" has no level 'lots'"),
        ({"empathy@1": 1, "empathy": {"1": 2}}, "empathy", '"empathy@1" is answered twice'),
        ({"harm": "Harmful"}, "harm", "'Harmful' is no number; write a level's value."),
        ({"harm": [1, 2]}, "harm", '"harm" has 2 answers; it takes one.'),
        ({"harm": {"1": 2}}, "harm", "how many gave each level has no place"),
    ],
)
def test_what_means_nothing_is_refused_with_its_field(
    answers: Mapping[str, Any], field: str, message: str
) -> None:
    with pytest.raises(Unprocessable) as caught:
        READER.read(answers, TURNS)
    assert message in str(caught.value)
    assert getattr(caught.value, "field", None) == field


def test_spans_are_of_texts_options_and_turns() -> None:
    place = {"turn": 3, "start": 0, "end": 2}
    labels = ("why", "topics=4", "Topics=Violence", "empathy", "empathy@1=2", "Neither")
    spans = Wording(DOCUMENT).spans([place | {"label": label} for label in labels], "safe")
    assert [(span["criterion"], span.get("level")) for span in spans] == [
        ("why", None),
        ("topics", 4),
        ("topics", 1),
        ("empathy@3", None),
        ("empathy@1", 2),
        ("topics", 4),
    ]


def test_a_column_for_each_option_and_each_turn_is_known_by_its_name() -> None:
    columns = ["prompt_id", "Topics: Violence", "topics_2", "Empathy@3", "label.empathy@11", "Why"]
    mapping = guess_mapping(columns, [], "annotations", list_criterion_words(DOCUMENT))
    assert mapping.labels == {
        "Topics: Violence": "topics:1",
        "topics_2": "topics:2",
        "Empathy@3": "empathy@3",
        "label.empathy@11": "empathy@11",
        "Why": "why",
    }
