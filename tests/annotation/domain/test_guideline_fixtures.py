"""The guidelines that Assay ships: complete in both languages, and what DESIGN.md says they are."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from annotation.domain.guidelines import GuidelineDocument, Level, parse_guideline

ROOT = Path(__file__).resolve().parents[3]
PROMPTS = ROOT.parent / "shared" / "data" / "xstest" / "xstest_prompts.csv"
HAN = range(0x4E00, 0xA000)


def load(name: str) -> GuidelineDocument:
    path = ROOT / "fixtures" / "guidelines" / f"{name}.yaml"
    return parse_guideline(path.read_bytes(), path=str(path))


@pytest.fixture(scope="module", params=["cvalues", "cvalues_abc", "flames", "xstest"])
def document(request: pytest.FixtureRequest) -> GuidelineDocument:
    return load(request.param)


def texts(data: object) -> Iterator[dict[str, str]]:
    """Every {zh: .., en: ..} below plain data."""
    if isinstance(data, dict):
        if "zh" in data:
            yield data
        else:
            for value in data.values():
                yield from texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from texts(value)


def levels(document: GuidelineDocument) -> Iterator[Level]:
    for criterion in document.criteria:
        yield from criterion.scale


def test_each_text_is_chinese_in_chinese_and_english_in_english(document: GuidelineDocument) -> None:
    bilingual_texts = list(texts(document.to_json()))
    assert len(bilingual_texts) > 50
    for text in bilingual_texts:
        assert set(text) == {"zh", "en"}
        assert any(ord(char) in HAN for char in text["zh"]), text
        assert not any(ord(char) in HAN for char in text["en"]), text


def test_each_level_has_a_reason_and_two_examples_of_its_own(document: GuidelineDocument) -> None:
    for level in levels(document):
        assert level.reason is not None
        assert len(level.examples) >= 2
        assert all(example.note is not None for example in level.examples)
    responses = [example.response["zh"] for level in levels(document) for example in level.examples]
    assert len(set(responses)) == len(responses)


def test_no_definition_or_reason_serves_two_levels(document: GuidelineDocument) -> None:
    for language in ("zh", "en"):
        definitions = [level.definition[language] for level in levels(document)]
        reasons = [(level.reason or {})[language] for level in levels(document)]
        assert len(set(definitions)) == len(definitions)
        assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("cvalues", "f88f1dcce9d02489b33c84737e1689f8d1288ceb8b2568a56a70be6bc96fa6af"),
        ("cvalues_abc", "f276ad465a2c3fc5d34620f8780c72f3767267dfbec923f3fce37039794e3c1e"),
        ("esc_eval", "d1536655ce4bb45d5b9274adaf064d1e67e9ebae8d9f50581a1a493f282af840"),
        ("fine", "7e8a7623dd019477e91b3ef2b8e4104c6d5bc31eed5a05b62c4817090bcfbda2"),
        ("flames", "639ac9e077955bbc981f36df824bbe4f890f58d311f863c3216ef8acbecd1e53"),
        ("lend_an_ear", "5ad18e975fab17177137b4b79bb2d39ac981459af5c95fcfd082938be0401351"),
        ("multiple-choice", "e83090eb0f7fb20d73debae0bf4b7a706c9707f06cf2885dfde3f1c78d04677b"),
        ("xstest", "25445b827eec3178ed3e1e190af36728d48762c46df67d230f2022b08abecc4c"),
    ],
)
def test_what_the_document_learned_since_changes_no_published_hash(name: str, sha256: str) -> None:
    assert load(name).sha256 == sha256


def test_flames_1_2_is_1_3_without_the_attack_success_rate() -> None:
    document = load("flames")
    before = document.model_copy(update={"version": "1.2", "metrics": document.metrics[:2]})
    assert before.sha256 == "c4617bdecb4c1218ffea8ce7ece9732ef8124ad0cded90c76acec7cdd36ea3da"
    attacks = document.metric("attack_success_rate")
    assert (attacks.label["zh"], attacks.better, attacks.sign) == ("攻击成功率", "lower", -1)
    assert [attacks.levels_for(dimension) for dimension in document.dimension_names] == [
        *[(1, 2)] * 3,
        *[(1,)] * 2,
    ]


def test_it_survives_storage_and_keeps_its_hash(document: GuidelineDocument) -> None:
    restored = GuidelineDocument.from_json(document.to_json())
    assert restored == document
    assert restored.sha256 == document.sha256


def test_flames_has_its_five_dimensions_and_twelve_subcomponents() -> None:
    taxonomy = {
        dimension.name: [part.name for part in dimension.subcomponents]
        for dimension in load("flames").dimensions
    }
    assert taxonomy == {
        "Fairness": ["Bias and discrimination", "Toxic language"],
        "Safety": ["Non-anthropomorphism", "Physical harm", "Mental harm", "Property safety"],
        "Morality": ["Chinese values", "Disobey social norm", "Non-environmental friendly"],
        "Legality": ["Law violation"],
        "Data protection": ["Personal data", "Sensitive information"],
    }


@pytest.mark.parametrize(
    ("dimension", "criterion", "values"),
    [
        ("Fairness", "fairness", (1, 2, 3)),
        ("Safety", "safety", (1, 2, 3)),
        ("Morality", "morality", (1, 2, 3)),
        ("Legality", "legality", (1, 3)),
        ("Data protection", "data_protection", (1, 3)),
    ],
)
def test_flames_asks_one_criterion_of_each_dimension(
    dimension: str, criterion: str, values: tuple[int, ...]
) -> None:
    (criteria,) = load("flames").criteria_for(dimension)
    assert (criteria.name, criteria.values, criteria.measurement) == (criterion, values, "ordinal")


def test_flames_shows_each_level_beside_another_answer_to_the_same_prompt() -> None:
    """The same prompt is answered at several levels, so that the annotator sees the difference."""
    for criterion in load("flames").criteria:
        prompt_sets = [{example.prompt["zh"] for example in level.examples} for level in criterion.scale]
        assert all(
            any(prompts & other for other in prompt_sets if other is not prompts) for prompts in prompt_sets
        )


def test_flames_declares_the_published_metrics() -> None:
    document = load("flames")
    rate, score = document.metric("harmless_rate"), document.metric("harmless_score")
    assert document.rank_by == "harmless_rate"
    assert [rate.levels_for(name) for name in document.dimension_names] == [(3,)] * 5
    assert rate.overall == score.overall == "mean_of_dimensions"
    # 100 * 3 / 3, and 100 * 1 / 3
    assert score.of_mean(3) == 100
    assert score.of_mean(1) == pytest.approx(100 / 3)


def test_xstest_asks_compliance_of_every_prompt() -> None:
    document = load("xstest")
    for dimension in ("safe", "unsafe", None, "something else"):
        (criteria,) = document.criteria_for(dimension)
        assert (criteria.name, criteria.values, criteria.measurement) == ("compliance", (1, 2, 3), "ordinal")


def test_xstest_counts_compliance_on_safe_and_refusal_on_unsafe_prompts() -> None:
    document = load("xstest")
    compliance, refusal = document.metric("full_compliance_rate"), document.metric("full_refusal_rate")
    assert document.dimensions_of(compliance) == ("safe",)
    assert compliance.levels_for("safe") == (3,)
    assert document.dimensions_of(refusal) == ("unsafe",)
    assert refusal.levels_for("unsafe") == (1,)


@pytest.mark.skipif(not PROMPTS.exists(), reason="the XSTest prompts are not beside the repository")
def test_xstest_knows_each_type_of_the_published_prompts() -> None:
    with PROMPTS.open(encoding="utf-8") as file:
        types = {row["type"] for row in csv.DictReader(file)}
    contrasts = {name for name in types if name.startswith("contrast_")}
    known = {
        dimension.name: {part.name for part in dimension.subcomponents}
        for dimension in load("xstest").dimensions
    }
    assert known == {"safe": types - contrasts, "unsafe": contrasts}


@pytest.mark.skipif(not PROMPTS.exists(), reason="the XSTest prompts are not beside the repository")
def test_xstest_examples_are_none_of_the_published_prompts() -> None:
    with PROMPTS.open(encoding="utf-8") as file:
        published = {row["prompt"].strip().lower() for row in csv.DictReader(file)}
    examples = {
        example.prompt["en"].lower() for level in levels(load("xstest")) for example in level.examples
    }
    assert not examples & published
