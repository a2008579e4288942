"""CValues: its prompts, and the two guidelines for them that come with Assay."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from annotation.core.errors import InputError
from annotation.domain.formats import PROMPTS, RESPONSES, Guess, Source, get_format, guess_format
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from tests.support import FIXTURES

DOMAINS = {
    "environmental_science": 100,
    "psychology": 100,
    "barrier_free": 100,
    "social_science": 96,
    "data_science": 95,
    "law": 93,
    "intimate_relationship": 70,
    "lesser_known_major": 10,
}
LINE = '{"id_": 7, "prompt": "问题", "domain_en": "law", "domain_zh": "法理学"'


def write(path: Path, text: str) -> Source:
    path.write_text(text, encoding="utf-8")
    return Source(path)


def load(name: str) -> GuidelineDocument:
    path = FIXTURES / "guidelines" / f"{name}.yaml"
    return parse_guideline(path.read_text(encoding="utf-8"), path=path.name)


def test_a_prompt_keeps_its_id_and_its_domain(tmp_path: Path) -> None:
    source = write(tmp_path / "prompts.jsonl", LINE + "}")
    (record,) = get_format("cvalues").read_prompts(source)
    assert (record.ref.id, record.ref.text, record.language) == ("7", "问题", "zh")
    assert (record.dimension, record.subcomponent) == ("responsibility", "law")
    assert not source.unused


def test_a_response_brings_its_prompt(tmp_path: Path) -> None:
    source = write(tmp_path / "responses.jsonl", LINE + ', "response": "答", "model": "M"}\n')
    assert guess_format(source) == Guess("cvalues", RESPONSES)
    (record,) = get_format("cvalues").read_responses(source)
    assert (record.text, record.model) == ("答", "M")
    assert record.prompt is not None
    assert (record.ref.id, record.prompt.subcomponent) == ("7", "law")


def test_a_multiple_choice_question_is_no_prompt(tmp_path: Path) -> None:
    source = write(tmp_path / "pairs.jsonl", LINE + ', "pos_resp": "好", "neg_resp": "坏"}\n')
    guess = guess_format(source)
    assert guess is None or guess.format != "cvalues"


@pytest.mark.parametrize(
    ("part", "field"), [('"prompt": "问题"', "prompt"), ('"domain_en": "law"', "domain_en")]
)
def test_what_is_missing_is_named_with_its_line(tmp_path: Path, part: str, field: str) -> None:
    source = write(tmp_path / "prompts.jsonl", LINE + "}\n" + LINE.replace(part, f'"{field}": ""') + "}")
    with pytest.raises(InputError) as error:
        list(get_format("cvalues").read_prompts(source))
    assert (error.value.line, error.value.field) == (2, field)


def test_the_published_prompts_are_of_eight_domains(shared: Path) -> None:
    source = Source(shared / "cvalues" / "cvalues_responsibility_prompts.jsonl")
    assert guess_format(source) == Guess("cvalues", PROMPTS)
    records = list(get_format("cvalues").read_prompts(source))
    assert len(records) == 664
    assert [record.ref.id for record in records] == [str(number) for number in range(1, 665)]
    assert Counter(record.subcomponent for record in records) == DOMAINS
    assert not source.unused


@pytest.mark.parametrize("name", ["cvalues", "cvalues_abc"])
def test_the_guidelines_know_every_domain_of_the_prompts(name: str) -> None:
    dimension = load(name).dimension("responsibility")
    assert dimension is not None
    assert [part.name for part in dimension.subcomponents] == list(DOMAINS)


def test_cvalues_asks_safety_of_ten_scenarios_and_responsibility_of_eight_domains() -> None:
    document = load("cvalues")
    scenarios = document.dimension("safety")
    assert scenarios is not None
    assert len(scenarios.subcomponents) == 10
    for part in scenarios.subcomponents:
        (safety,) = document.criteria_at("safety", part.name)
        assert (safety.name, safety.values) == ("safety", (0, 1))
    for domain in DOMAINS:
        (responsibility,) = document.criteria_at("responsibility", domain)
        assert (responsibility.name, responsibility.measurement) == ("responsibility", "interval")
        assert responsibility.values == tuple(range(1, 11))
    assert [metric.name for metric in document.metrics] == ["safety_score", "mean_responsibility"]
    assert document.metric("safety_score").levels_for("safety") == (1,)
    assert document.metric("mean_responsibility").of_mean(7.25) == 7.25


def test_an_expert_reads_the_ends_of_the_scale_in_the_words_of_the_domain() -> None:
    document = load("cvalues")
    for value in (1, 5, 10):
        definitions = {
            level.definition["en"]
            for domain in DOMAINS
            for question in document.list_questions("responsibility", subcomponent=domain)
            for level in question.scale
            if level.value == value
        }
        assert len(definitions) == len(DOMAINS)


def test_an_expert_may_write_the_answer_where_the_rating_is_low() -> None:
    document = load("cvalues")
    assert document.check_texts("responsibility", {"better_answer": "应当这样答"}, {"responsibility": 4}) == {
        "better_answer": "应当这样答"
    }
    assert document.check_texts("responsibility", {}, {"responsibility": 4}) == {}
    with pytest.raises(Exception, match="asked only where"):
        document.check_texts("responsibility", {"better_answer": "x"}, {"responsibility": 5})


def test_three_grades_are_counted_as_a_and_as_a_with_b() -> None:
    document = load("cvalues_abc")
    assert document.rank_by == "ab_rate"
    assert document.metric("a_rate").levels_for("responsibility") == (3,)
    assert document.metric("ab_rate").levels_for("responsibility") == (2, 3)
    names = {level.value: level.name["en"][0] for level in document.criterion("grade").scale}
    assert names == {3: "A", 2: "B", 1: "C"}
