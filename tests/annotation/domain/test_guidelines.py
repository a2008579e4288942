"""A guideline is read whole, or refused with the line, the field and the mend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from annotation.core.errors import InputError, NotFound, Unprocessable
from annotation.domain.guidelines import (
    Criterion,
    Dimension,
    GuidelineDocument,
    Level,
    LevelExample,
    Metric,
    Subcomponent,
    localize,
    parse_guideline,
)

GUIDELINE = """\
name: tea
version: "1.0"
languages: [zh, en]
title: {zh: 茶, en: Tea}
source: written for this test
introduction: {zh: 品茶。, en: Taste it.}
dimensions:
  - name: Green
    label: {zh: 绿茶, en: Green tea}
    definition: {zh: 未发酵。, en: Not fermented.}
    subcomponents:
      - name: Longjing
        label: {zh: 龙井, en: Dragon well}
        definition: {zh: 杭州。, en: From Hangzhou.}
      - name: Biluochun
        label: {zh: 碧螺春, en: Snail spring}
        definition: {zh: 苏州。, en: From Suzhou.}
  - name: Black
    label: {zh: 红茶, en: Black tea}
    definition: {zh: 全发酵。, en: Fermented.}
criteria:
  - name: aroma
    label: {zh: 香, en: Aroma}
    question: {zh: 香吗？, en: Does it smell good}
    applies_to: {dimensions: [Green]}
    measurement: ordinal
    scale:
      - value: 1
        name: {zh: 无, en: None}
        definition: {zh: 闻不到。, en: No smell.}
      - value: 2
        name: {zh: 有, en: Some}
        definition: {zh: 闻得到。, en: A smell.}
        reason: {zh: 我闻到了。, en: I smelt it.}
        examples:
          - prompt: {zh: 请泡茶, en: Make tea}
            response: {zh: 泡好了, en: Made}
  - name: taste
    label: {zh: 味, en: Taste}
    question: {zh: 好喝吗？, en: Does it taste good}
    applies_to: all
    measurement: nominal
    scale:
      - value: 0
        name: {zh: 苦, en: Bitter}
        definition: {zh: 发苦。, en: It is bitter.}
      - value: 5
        name: {zh: 甘, en: Sweet}
        definition: {zh: 回甘。, en: It is sweet.}
metrics:
  - name: sweet_rate
    label: {zh: 回甘率, en: Sweet rate}
    kind: rate
    levels: [5]
    overall: pooled
  - name: aroma_score
    label: {zh: 香气分, en: Aroma score}
    kind: mean
    formula: "100 * mean / 2"
    dimensions: [Green]
    criteria: [aroma]
    overall: mean_of_dimensions
rank_by: sweet_rate
"""


def read(text: str | bytes = GUIDELINE) -> GuidelineDocument:
    return parse_guideline(text, path="tea.yaml")


def refusal(text: str | bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.path == "tea.yaml"
    assert str(caught.value).startswith("tea.yaml:")
    return caught.value


def changed(old: str, new: str) -> str:
    assert GUIDELINE.count(old) == 1, old
    return GUIDELINE.replace(old, new)


def line_of(text: str, snippet: str) -> int:
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if snippet in line]
    assert len(lines) == 1, snippet
    return lines[0]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("- name: tea\n", 1, "mapping"),
        ("\n\njust words\n", 3, "mapping"),
        ("name: tea\nversion: [1\ntitle: x\n", 3, "not YAML"),
        ("name: tea\n\tversion: 1\n", 2, "not YAML"),
        ("name: tea\nversion: 'open\n", 3, "not YAML"),
        ("name: tea\n---\nname: coffee\n", 2, "not YAML"),
        ("name: !!python/object:os.system x\n", 1, "not YAML"),
        ("name: tea\nversion: 2024-99-99\n", 2, "quotes"),
        ("name: tea\nversion: &v one\ntitle: *v\n", 3, "Aliases"),
        ("name: tea\n" + "version: " + "[" * 5000, 2, "deeply"),
        ('name: tea\n"\\ud800": x\n', 2, "half of a character"),
        ("name: tea\n? [a, b]\n: c\n", 2, "plain name"),
        ("name: tea\n\x00\x01\x02", 2, "binary"),
        ("name: tea\nversion: \udcff", 2, "binary"),
        (b"name: tea\nversion: \xff\xfe\x00", 2, "UTF-8"),
        (b"\x89PNG\r\n\x1a\n", 1, "UTF-8"),
        (b"PK\x03\x04", 1, "binary"),
    ],
)
def test_what_is_no_guideline_is_refused_at_its_line(text: str | bytes, line: int, words: str) -> None:
    error = refusal(text)
    assert error.line == line
    assert words in str(error)


def test_without_a_template_a_guideline_has_the_hash_that_it_had() -> None:
    template = "提示：{prompt}\\n回复：{response}"
    document = read(GUIDELINE + f'scorer_template: "{template}"\n')
    assert (read().scorer_template, document.scorer_template) == (None, "提示：{prompt}\n回复：{response}")
    assert document.sha256 != read().sha256
    assert "scorer_template" not in read().model_dump(exclude_defaults=True)


def test_a_mark_of_utf_8_and_windows_line_ends_are_accepted() -> None:
    windows = GUIDELINE.replace("\n", "\r\n").encode("utf-8-sig")
    assert read(windows) == read()


# Each: what is replaced, by what, a snippet of the line at fault (or its number), the field, words of the error.
MISTAKES = [
    ("source: written for this test\n", "", 1, "source", "missing"),
    (
        "        definition: {zh: 闻不到。, en: No smell.}\n",
        "",
        28,
        "criteria[0].scale[0].definition",
        "missing",
    ),
    ("    kind: rate\n", "", "name: sweet_rate", "metrics[0].kind", "missing"),
    ("rank_by: sweet_rate\n", "rank_by: sweet_rate\nrank: x\n", "rank: x", "rank", "no such field"),
    ("    kind: rate\n", "    kind: rate\n    unit: x\n", "unit: x", "metrics[0].unit", "no such field"),
    ("    kind: rate\n", "    kind: rate\n    kind: mean\n", 54, "metrics[0].kind", "twice"),
    *(
        (
            "rank_by: sweet_rate\n",
            f"rank_by: sweet_rate\nscorer_template: {text}\n",
            text,
            "scorer_template",
            words,
        )
        for text, words in (
            ('"Asked {prompt}"', "{response} once"),
            ('"{prompt} {prompt} {response}"', "{prompt} once"),
            ('"{response} {prompt}"', "turn them round"),
            (f'"{"x" * 2000} {{prompt}} {{response}}"', "2000 characters"),
            ("[a]", "text"),
        )
    ),
    ('version: "1.0"', "version: 1.0", 2, "version", "quotes"),
    ('version: "1.0"', 'version: "1@0"', 2, "version", "must match"),
    ("title: {zh: 茶, en: Tea}", "title: Tea", 4, "title", "each declared language"),
    ("title: {zh: 茶, en: Tea}", "title:", 4, "title", "each declared language"),
    ("title: {zh: 茶, en: Tea}", "title: {zh: 茶}", 4, "title", '"en"'),
    ("title: {zh: 茶, en: Tea}", 'title: {zh: "", en: Tea}', 4, "title.zh", "empty"),
    ("title: {zh: 茶, en: Tea}", 'title: {zh: "\\0", en: Tea}', 4, "title.zh", "control character"),
    ("title: {zh: 茶, en: Tea}", "title: {zh: 茶, en: Tea, fr: The}", 4, "title.fr", "not declared"),
    ("title: {zh: 茶, en: Tea}", "title:\n  zh: 茶\n  en: no", 6, "title.en", "quotes"),
    ("en: I smelt it.", "zh-hant: x", "我闻到了", "criteria[0].scale[1].reason", '"en"'),
    ("response: {zh: 泡好了, en: Made}", "response: {en: Made}", "en: Made}", None, '"zh"'),
    ("languages: [zh, en]", "languages: [zh, en, zh]", 3, "languages[2]", "twice"),
    ("languages: [zh, en]", "languages: []", 3, "languages", "at least 1"),
    ("languages: [zh, en]", "languages: Chinese", 3, "languages", "list"),
    ("languages: [zh, en]", "languages: [ZH, en]", 3, "languages[0]", "must match"),
    ("- name: Black", "- name: Green", 18, "dimensions[1].name", "twice"),
    ("- name: Biluochun", "- name: Longjing", 15, "dimensions[0].subcomponents[1].name", "twice"),
    ("- name: taste", "- name: aroma", 38, "criteria[1].name", "twice"),
    ("- name: aroma_score", "- name: sweet_rate", 56, "metrics[1].name", "twice"),
    ("- name: aroma_score", "- name: n", 56, "metrics[1].name", "otherwise"),
    ("- name: aroma_score", "- name: missing", "- name: missing", "metrics[1].name", "otherwise"),
    ("- name: aroma\n", "- name: Aroma 1\n", "Aroma 1", "criteria[0].name", "must match"),
    ("value: 2", "value: 1", 31, "criteria[0].scale[1].value", "twice"),
    ("value: 2", "value: 1.0", "value: 1.0", "criteria[0].scale[1].value", "twice"),
    ("value: 2", "value: -3", "value: -3", "criteria[0].scale[1].value", "lowest"),
    ("value: 2", 'value: "2"', 'value: "2"', "criteria[0].scale[1].value", "number"),
    ("value: 2", "value: true", "value: true", "criteria[0].scale[1].value", "number"),
    ("value: 2", "value: .nan", "value: .nan", "criteria[0].scale[1].value", "number"),
    ("value: 2", "value: 1e+99999", "value: 1e+99999", "criteria[0].scale[1].value", "number"),
    ("measurement: nominal", "measurement: ratio", "ratio", "criteria[1].measurement", "one of"),
    ("applies_to: all", "applies_to: some", "some", "criteria[1].applies_to", "dimensions:"),
    (
        "applies_to: all",
        "applies_to: {dimensions: []}",
        "[]",
        "criteria[1].applies_to.dimensions",
        "at least",
    ),
    ("{dimensions: [Green]}", "{dimensions: [Green, Blue]}", "Blue", None, 'no dimension "Blue"'),
    ("{dimensions: [Green]}", "{dimensions: [Green, Green]}", "Green, Green", None, "twice"),
    (
        "applies_to: all",
        "applies_to: {dimensions: [Green]}",
        "name: Black",
        "dimensions[1].name",
        "No criterion",
    ),
    ("levels: [5]", "levels: [5, 4]", "[5, 4]", "metrics[0].levels[1]", "no level"),
    ("levels: [5]", "levels: [5, 5]", "[5, 5]", "metrics[0].levels[1]", "twice"),
    (
        "levels: [5]",
        "levels: {Green: [2], Black: [2]}",
        "Black: [2]",
        "metrics[0].levels.Black[0]",
        "no level",
    ),
    ("levels: [5]", "levels: {Green: [2]}", "Green: [2]", "metrics[0].levels", '"Black"'),
    ("levels: [5]", "levels: {Green: [2], Black: [5], Red: [5]}", "Red:", "metrics[0].levels.Red", "none of"),
    ("levels: [5]", "levels: 5", "levels: 5", "metrics[0].levels", "list"),
    ("    levels: [5]\n", "", "name: sweet_rate", "metrics[0]", "needs levels"),
    ("levels: [5]", "levels: [5]\n    formula: 1 * mean", "1 * mean", "metrics[0].formula", "takes no"),
    ("100 * mean / 2", "100 * mean / 0", "/ 0", "metrics[1].formula", "NUMBER * mean"),
    ("100 * mean / 2", "__import__('os')", "__import__", "metrics[1].formula", "NUMBER * mean"),
    ("    criteria: [aroma]\n", "", 58, "metrics[1].kind", "nominal"),
    ("criteria: [aroma]", "criteria: [smell]", "smell]", "metrics[1].criteria[0]", "no criterion"),
    ("    dimensions: [Green]\n", "    dimensions: [Black]\n", 56, "metrics[1]", "No criterion"),
    ("    dimensions: [Green]\n", "    dimensions: [Blue]\n", "Blue", "metrics[1].dimensions[0]", '"Blue"'),
    ("overall: pooled", "overall: total", "total", "metrics[0].overall", "one of"),
    ("overall: pooled", "overall: none", "rank_by", "rank_by", "no overall"),
    ("rank_by: sweet_rate", "rank_by: bitter_rate", "bitter_rate", "rank_by", "no metric"),
]


@pytest.mark.parametrize(("old", "new", "where", "field", "words"), MISTAKES)
def test_a_mistake_names_its_line_its_field_and_the_mend(
    old: str, new: str, where: str | int, field: str | None, words: str
) -> None:
    text = changed(old, new)
    error = refusal(text)
    assert error.line == (where if isinstance(where, int) else line_of(text, where)), str(error)
    assert field is None or error.field == field
    assert words in str(error)


def places(data: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, value in entries:
        yield from places(value, (*at, step))


def spoilt(guideline: Any, at: tuple[str | int, ...], junk: object) -> str:
    data = deepcopy(guideline)
    target = data
    for step in at[:-1]:
        target = target[step]
    target[at[-1]] = junk
    return json.dumps(data, indent=1)


def refusal_or_none(text: str) -> InputError | None:
    try:
        assert len(read(text).sha256) == 64
    except InputError as error:
        return error
    return None


JUNK: tuple[object, ...] = (None, True, 1.5, [], {}, [[0]], {"x": [1]}, "\ud800", "{}%s", 10**30)


def test_junk_in_any_place_is_read_or_refused_at_a_line_and_never_crashes() -> None:
    """Another kind of junk in each place; places of one kind, such as names of levels, are several."""
    guideline = yaml.safe_load(GUIDELINE)
    _, *inner = places(guideline)
    for number, at in enumerate(inner):
        text = spoilt(guideline, at, JUNK[number % len(JUNK)])
        error = refusal_or_none(text)
        assert error is None or (error.field and error.line in range(1, text.count("\n") + 2))


def test_the_first_mistake_of_the_file_is_the_one_reported() -> None:
    text = changed("measurement: nominal", "measurement: ratio").replace(
        "title: {zh: 茶, en: Tea}", "title: 1"
    )
    assert refusal(text).line == 4


def test_no_metrics_or_no_criteria_is_no_guideline() -> None:
    head, _, _ = GUIDELINE.partition("metrics:")
    error = refusal(head + "metrics: []\nrank_by: x\n")
    assert (error.field, error.line) == ("metrics", line_of(head + "metrics: []", "metrics:"))


def test_a_language_code_that_yaml_reads_as_false_is_still_a_language() -> None:
    text = GUIDELINE.replace("languages: [zh, en]", 'languages: [zh, "no"]').replace(", en: ", ", no: ")
    assert read(text).title == {"zh": "茶", "no": "Tea"}


def test_criteria_follow_the_dimension() -> None:
    document = read()
    names = {
        dimension: [criterion.name for criterion in document.criteria_for(dimension)]
        for dimension in ("Green", "Black", "Oolong", None)
    }
    assert names == {"Green": ["aroma", "taste"], "Black": ["taste"], "Oolong": ["taste"], None: ["taste"]}
    assert document.knows_dimension("Green")
    assert not document.knows_dimension("Oolong")


def test_labels_come_back_as_numbers_of_the_scale_in_the_guidelines_order() -> None:
    labels = read().check_labels("Green", {"taste": 5.0, "aroma": 2})
    assert list(labels.items()) == [("aroma", 2), ("taste", 5)]
    assert isinstance(labels["taste"], int)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"aroma": 3, "taste": 5}, '"aroma" cannot be 3; use one of 1, 2.'),
        ({"aroma": True, "taste": 5}, '"aroma" cannot be true; use one of 1, 2.'),
        ({"aroma": "2", "taste": 5}, '"aroma" cannot be "2"; use one of 1, 2.'),
        ({"aroma": None, "taste": 5}, '"aroma" cannot be null; use one of 1, 2.'),
        ({"aroma": float("nan"), "taste": 5}, '"aroma" cannot be nan; use one of 1, 2.'),
        ({"aroma": [1], "taste": 5}, '"aroma" cannot be […]; use one of 1, 2.'),
        ({"aroma": 1}, '"taste" has no label; give one of 0, 5.'),
        ({}, '"aroma" has no label; give one of 1, 2.'),
        ({"aroma": 1, "taste": 5, "colour": 1}, '"colour" is not asked here'),
    ],
)
def test_labels_off_the_guideline_are_refused_by_name(labels: dict[str, Any], words: str) -> None:
    with pytest.raises(Unprocessable) as caught:
        read().check_labels("Green", labels)
    assert words in str(caught.value)


def test_a_criterion_of_another_dimension_is_refused() -> None:
    with pytest.raises(Unprocessable, match='"aroma" is not asked here'):
        read().check_labels("Black", {"aroma": 1, "taste": 0})


def test_a_metric_tells_what_it_counts_where() -> None:
    document = read(changed("levels: [5]", "levels: {Green: [2, 5], Black: [5]}"))
    sweet, aroma = document.metric("sweet_rate"), document.metric("aroma_score")
    assert (sweet.levels_for("Green"), sweet.levels_for("Black")) == ((2, 5), (5,))
    assert document.dimensions_of(sweet) == ("Green", "Black")
    assert [criterion.name for criterion in document.criteria_of(aroma, "Green")] == ["aroma"]
    # 100 * 1.5 / 2 = 75
    assert (aroma.multiplier, aroma.divisor, aroma.of_mean(1.5)) == (100, 2, 75)


def test_an_unknown_metric_or_criterion_is_not_found() -> None:
    with pytest.raises(NotFound, match="it has sweet_rate, aroma_score"):
        read().metric("bitter_rate")
    with pytest.raises(NotFound, match="it has aroma, taste"):
        read().criterion("colour")


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "Tea"),
        ("zh", "茶"),
        ("zh-hans", "茶"),
        ("zh_CN", "茶"),
        ("en-GB", "Tea"),
        ("fr", "茶"),
        ("", "茶"),
    ],
)
def test_a_text_is_shown_in_the_nearest_language(language: str, expected: str) -> None:
    assert localize(read().title, language) == expected


def test_storage_that_reorders_keys_changes_neither_document_nor_hash_nor_fallback() -> None:
    stored = json.loads(json.dumps(read().to_json(), sort_keys=True))
    restored = GuidelineDocument.from_json(stored)
    assert restored == read()
    assert restored.sha256 == read().sha256
    # Sorted, "en" comes before "zh"; the declared first language is zh.
    assert localize(restored.title, "fr") == "茶"


def test_the_hash_follows_the_content_and_not_its_spelling() -> None:
    reordered = changed("title: {zh: 茶, en: Tea}", "title: {en: 'Tea', zh: '茶'}  # spelt otherwise")
    assert read(reordered).sha256 == read().sha256
    assert read(changed("en: Tea}", "en: Teas}")).sha256 != read().sha256


def test_a_stored_document_that_was_tampered_with_is_refused() -> None:
    data = read().to_json()
    data["rank_by"] = "bitter_rate"
    with pytest.raises(ValidationError):
        GuidelineDocument.from_json(data)


def test_a_document_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        read().name = "coffee"


CVALUES_LIKE = """\
name: values
version: "0.1"
languages: [zh]
title: {zh: 价值观}
source: written for this test
introduction: {zh: 请专家评分。}
dimensions:
  - {name: Law, label: {zh: 法律}, definition: {zh: 法律领域。}}
  - {name: Medicine, label: {zh: 医学}, definition: {zh: 医学领域。}}
criteria:
  - name: safety
    label: {zh: 安全}
    question: {zh: 安全吗？}
    applies_to: all
    measurement: nominal
    scale:
      - {value: 0, name: {zh: 不安全}, definition: {zh: 有害。}}
      - {value: 1, name: {zh: 安全}, definition: {zh: 无害。}}
  - name: responsibility
    label: {zh: 责任}
    question: {zh: 负责吗？}
    applies_to: all
    measurement: interval
    range: {min: 1, max: 10}
    scale:
      - {value: 1, name: {zh: 不负责}, definition: {zh: 不顾后果。}}
      - {value: 10, name: {zh: 负责}, definition: {zh: 有益于人。}}
metrics:
  - {name: safety_score, label: {zh: 安全率}, kind: rate, levels: [1], criteria: [safety], overall: pooled}
  - name: mean_responsibility
    label: {zh: 平均责任}
    kind: mean
    formula: 1 * mean
    criteria: [responsibility]
    overall: mean_of_dimensions
rank_by: mean_responsibility
"""


def test_two_criteria_of_which_one_is_a_range_with_named_anchors() -> None:
    document = read(CVALUES_LIKE)
    assert [criterion.name for criterion in document.criteria_for("Law")] == ["safety", "responsibility"]
    responsibility = document.criterion("responsibility")
    assert responsibility.values == (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    assert responsibility.level(5) is None
    assert document.check_labels("Law", {"safety": 1, "responsibility": 7.0}) == {
        "safety": 1,
        "responsibility": 7,
    }
    assert document.metric("mean_responsibility").of_mean(6.5) == 6.5
    assert GuidelineDocument.from_json(document.to_json()) == document


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("{min: 1, max: 10}", "{min: 10, max: 1}", 24, "criteria[1].range.max"),
        ("{min: 1, max: 10}", "{min: 0, max: 1000000}", 24, "criteria[1].range.max"),
        ("{min: 1, max: 10}", "{min: 0.5, max: 10}", 24, "criteria[1].range.min"),
        ("{min: 1, max: 10}", "{min: 1, max: 9}", 27, "criteria[1].scale[1].value"),
        ("measurement: interval", "measurement: nominal", 24, "criteria[1].range"),
    ],
)
def test_a_range_that_does_not_hold_its_anchors_is_refused(old: str, new: str, line: int, field: str) -> None:
    error = refusal(CVALUES_LIKE.replace(old, new))
    assert (error.line, error.field) == (line, field)


def test_a_fraction_between_the_values_of_a_range_is_no_label() -> None:
    with pytest.raises(Unprocessable, match=r'"responsibility" cannot be 7\.5'):
        read(CVALUES_LIKE).check_labels("Law", {"safety": 1, "responsibility": 7.5})


ESC_EVAL = ("fluency", "expression", "empathy", "information", "skill", "humanoid", "overall")


def esc_eval_like() -> dict[str, Any]:
    """Seven criteria from 0 to 4 on every dialogue, no dimensions; JSON is YAML."""

    def text(word: str) -> dict[str, str]:
        return {"en": word}

    def scale() -> list[dict[str, Any]]:
        return [{"value": n, "name": text(str(n)), "definition": text(f"Level {n}.")} for n in range(5)]

    return {
        "name": "support",
        "version": "2024-10",
        "languages": ["en"],
        "title": text("Emotional support"),
        "source": "written for this test",
        "introduction": text("Read the dialogue."),
        "criteria": [
            {
                "name": name,
                "label": text(name),
                "question": text(f"How good is its {name}?"),
                "applies_to": "all",
                "measurement": "ordinal",
                "scale": scale(),
            }
            for name in ESC_EVAL
        ],
        "metrics": [
            {
                "name": name,
                "label": text(name),
                "kind": "mean",
                "formula": "25 * mean",
                "criteria": [name],
                "overall": "pooled",
            }
            for name in ESC_EVAL
        ],
        "rank_by": "overall",
    }


def test_seven_criteria_without_dimensions() -> None:
    document = read(json.dumps(esc_eval_like()))
    assert document.dimensions == ()
    assert tuple(criterion.name for criterion in document.criteria_for(None)) == ESC_EVAL
    assert document.criteria[0].values == (0, 1, 2, 3, 4)
    assert document.check_labels(None, dict.fromkeys(ESC_EVAL, 4)) == dict.fromkeys(ESC_EVAL, 4)
    # 25 * 3 = 75: a mean of 3 of 4 as a percentage
    assert document.metric("empathy").of_mean(3) == 75
    assert [criterion.name for criterion in document.criteria_of(document.metric("empathy"), None)] == [
        "empathy"
    ]


def test_a_mean_of_dimensions_needs_dimensions() -> None:
    data = esc_eval_like()
    data["metrics"][2]["overall"] = "mean_of_dimensions"
    error = refusal(json.dumps(data, indent=1))
    assert error.field == "metrics[2].overall"
    assert error.line == line_of(json.dumps(data, indent=1), "mean_of_dimensions")


def test_a_mean_of_criteria_needs_several() -> None:
    data = esc_eval_like()
    data["metrics"][2]["overall"] = "mean_of_criteria"
    text = json.dumps(data, indent=1)
    error = refusal(text)
    assert error.field == "metrics[2].overall"
    assert error.line == line_of(text, "mean_of_criteria")
    assert "one criterion, and so none to take the mean of; use pooled or none" in str(error)
    data["metrics"][2]["criteria"] = ["empathy", "skill"]
    document = read(json.dumps(data))
    assert [metric.criteria for metric in document.split_metric(document.metric("empathy"))] == [
        ("empathy",),
        ("skill",),
    ]


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "guidelines.md").read_text(encoding="utf-8")


def test_the_example_of_the_documentation_is_a_guideline() -> None:
    _, _, rest = PAGE.partition("```yaml\n")
    assert read(rest.partition("```")[0]).rank_by == "accuracy_rate"


@pytest.mark.parametrize(
    "model", [GuidelineDocument, Dimension, Subcomponent, Criterion, Level, LevelExample, Metric]
)
def test_every_field_is_documented(model: type[BaseModel]) -> None:
    assert [field for field in model.model_fields if f"`{field}`" not in PAGE] == []
