from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.safestring import SafeData, mark_safe
from django.utils.translation import override

from annotation.core.documents import Paragraph
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, GoldRelease, Person
from annotation.services.exports.datasheet import (
    SheetTable,
    format_statistic,
    render_datasheet,
    render_markdown,
    splits_table,
)
from annotation.services.releases import cut_release
from tests.support import decide_next, label_next

DATASHEETS = Path(__file__).parent.parent / "datasheets"
OLD: dict[str, Any] = {
    "name": "a|b*c",
    "sha256": "0" * 64,
    "created": "2026-05-01T10:00:00+00:00",
    "code_version": "0.1.0",
    "batches": ["first"],
    "guidelines": [{"name": "g", "version": "1", "sha256": "1" * 64}],
    "datasets": ["d"],
    "counts": {
        "rows": 2,
        "labels": 4,
        "adjudicated": 1,
        "by_dimension": {"": 4},
        "by_model": {"M|N": 4},
        "by_source": {"unanimous": 3, "adjudicated": 1},
        "by_level": {"c": {"1": 1, "10": 1, "2": 2}},
    },
}


@pytest.fixture
def release(batch: Batch, lin: Person, chen: Person, wu: Person, he: Person) -> GoldRelease:
    for value, other in ((1, 1), (3, 3), (1, 3)):
        label_next(batch, lin, value)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    return cut_release(ReleaseSpec(name="r", batches=[batch], about="To learn.\n- <b>x</b> *y*"), actor=he)


def tables(manifest: dict[str, Any], language: str) -> dict[str, SheetTable]:
    blocks = [block for section in render_datasheet(manifest, language) for block in section.blocks]
    return {block.title: block for block in blocks if isinstance(block, SheetTable)}


@pytest.mark.parametrize("name", ["old", "full", "mixed", "whole", "nobody", "decisions"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_datasheet_stays_as_it_was_to_the_byte(name: str, language: str):
    manifest = json.loads((DATASHEETS / f"{name}.json").read_text(encoding="utf-8"))
    text = (DATASHEETS / f"{name}.{language}.md").read_text(encoding="utf-8")
    assert render_markdown(manifest, language) == text


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_readers_language_does_not_change_a_datasheet(language: str):
    manifest = json.loads((DATASHEETS / "full.json").read_text(encoding="utf-8"))
    with override(language):
        texts = [render_markdown(manifest, code) for code in ("en", "zh")]
    assert texts == [(DATASHEETS / f"full.{code}.md").read_text(encoding="utf-8") for code in ("en", "zh")]


def test_nothing_of_a_datasheet_is_marked_as_safe_for_a_page():
    manifest = OLD | {"about": mark_safe("<b>x</b>"), "batches": [mark_safe("<i>")]}
    blocks = [block for section in render_datasheet(manifest, "en") for block in section.blocks]
    texts = [block.text for block in blocks if isinstance(block, Paragraph)]
    assert any("<b>" in text for text in texts)
    assert any("<i>" in text for text in texts)
    assert not any(isinstance(text, SafeData) for text in texts)


def test_a_manifest_of_old_has_a_datasheet_of_what_it_knows():
    text = render_markdown(OLD, "en")
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert titles == [
        "Motivation",
        "Composition",
        "Collection",
        "Adjudication",
        "Preprocessing",
        "Uses",
        "Distribution",
        "Maintenance",
    ]
    assert text.startswith("# Datasheet of the gold release a\\|b\\*c\n")
    # One of four labels is adjudicated; levels are in the order of numbers, not of texts.
    assert "Labels decided by an adjudicator: 1 (25.0%)." in text
    assert [row[1] for row in tables(OLD, "en")["Labels by criterion and level"].rows] == ["1", "2", "10"]
    assert tables(OLD, "en")["Model"].rows == [("M|N", "4", "100.0")]
    assert "| M\\|N | 4 | 100.0 |" in text
    assert "Nobody has written down why" in text


@pytest.mark.django_db
def test_both_languages_answer_the_same_questions_with_the_same_figures(release: GoldRelease):
    english, chinese = (render_datasheet(release.manifest, language) for language in ("en", "zh-hans"))
    assert len(english) == len(chinese) == 10
    for english_table, other in zip(english, chinese, strict=True):
        assert [type(block) for block in english_table.blocks] == [type(block) for block in other.blocks]
        for block, twin in zip(english_table.blocks, other.blocks, strict=True):
            if isinstance(block, Paragraph):
                assert isinstance(twin, Paragraph)
                figures = [re.findall(r"\b\d[\d,.]*\b", text, re.ASCII) for text in (block.text, twin.text)]
                assert sorted(figures[0]) == sorted(figures[1])
            else:
                assert isinstance(twin, SheetTable)
                assert len(block.rows) == len(twin.rows)
                assert all(len(row) == len(block.head) == len(twin.head) for row in block.rows)
    text = render_markdown(release.manifest, "zh")
    assert re.search(r"[a-z]{4,} [a-z]{4,} [a-z]{4,}", text) is None  # no sentence was left in English
    assert "拒绝" in text


@pytest.mark.django_db
def test_it_tells_the_figures_of_the_manifest(release: GoldRelease):
    found_tables = tables(release.manifest, "en")
    assert found_tables["Agreement of the annotators"].rows[0][:5] == (
        "xstest",
        release.manifest["guidelines"][0]["criteria"][0]["label"]["en"],
        "all",
        "3",
        "1",
    )
    work = found_tables["Tasks by state when the release was cut"]
    # Of eight tasks two agreed and one was adjudicated; six annotations by two people, one adjudicator.
    assert work.rows == [("first", "2", "1", "0", "5", "0", "6", "2", "1")]
    splits = found_tables["Splits by prompt"].rows
    assert sum(int(row[3]) for row in splits) == 3
    assert found_tables["Reasons of the adjudicators"].rows[0][1] == "1"
    assert "Annotators: 2; adjudicators: 1; annotations submitted: 6." in render_markdown(
        release.manifest, "en"
    )


@pytest.mark.django_db
def test_a_persons_words_are_quoted_and_cannot_become_markup(release: GoldRelease):
    text = render_markdown(release.manifest, "en")
    assert "> To learn.\n> \\- \\<b\\>x\\</b\\> \\*y\\*\n" in text


def as_postgresql_keeps_it(part: Any) -> Any:
    """JSON whose keys are in the order of their lengths, as jsonb has them."""
    if isinstance(part, dict):
        keys = sorted(part, key=lambda key: (len(key), key))
        return {key: as_postgresql_keeps_it(part[key]) for key in keys}
    return [as_postgresql_keeps_it(entry) for entry in part] if isinstance(part, list) else part


def test_everything_is_listed_in_one_order_however_the_database_keeps_it():
    levels = {"10": {"en": "ten"}, "9": {"en": "nine"}, "-1": {"en": "less"}}
    criteria = [{"name": name, "label": {"en": name}, "levels": levels} for name in ("zeal", "care", "a")]
    parts = [{"name": name, "label": {"en": name}} for name in ("second", "b")]
    dimensions = [{"name": "Safety", "label": {"en": "Safe"}, "subcomponents": parts}]
    dimensions += [{"name": "Law", "label": {"en": "Legal"}, "subcomponents": []}]
    counts = OLD["counts"] | {
        "by_dimension": {"": 1, "Law": 1, "Other": 1, "Safety": 1},
        "by_subcomponent": {"Safety": {"b": 1, "second": 1, "c": 1}, "Law": {"": 1}},
        "by_level": {name: {"-1": 1, "10": 1, "9": 1} for name in ("a", "care", "zeal")},
        "by_source": {"adjudicated": 1, "single": 1, "unanimous": 1, "within_tolerance": 1},
        "by_model": {"mm": 1, "a-model": 3},
    }
    manifest = OLD | {
        "guidelines": [OLD["guidelines"][0] | {"criteria": criteria, "dimensions": dimensions}],
        "counts": counts,
        "splits": {
            split: {"prompts": 1, "rows": 1, "labels": 1} for split in ("train", "validation", "test")
        },
        "people": {"annotators": 2, "adjudicators": 1, "annotations": 4}
        | {"languages": {"zh-hans": 1, "en": 1}, "languages_unknown": 0},
    }
    found_tables = tables(manifest, "en")
    assert [row[0] for row in found_tables["Dimension"].rows] == ["Safe", "Legal", "-", "Other"]
    assert [row[1] for row in found_tables["Subcomponent"].rows] == ["second", "b", "c", "-"]
    levels_told = found_tables["Labels by criterion and level"].rows
    assert [row[0] for row in levels_told] == ["zeal"] * 3 + ["care"] * 3 + ["a"] * 3
    assert [row[1] for row in levels_told[:3]] == ["-1 less", "9 nine", "10 ten"]
    assert [row[0].split()[0] for row in found_tables["Splits by prompt"].rows] == [
        "training",
        "validation",
        "test",
    ]
    assert [row[0] for row in found_tables["Model"].rows] == ["a-model", "mm"]
    assert found_tables["Where the label comes from"].rows[0][0] == "one annotator"
    stored = as_postgresql_keeps_it(manifest)
    assert list(stored["splits"]) != list(manifest["splits"])
    for language in ("en", "zh"):
        assert render_markdown(stored, language) == render_markdown(manifest, language)
        assert render_markdown(json.loads(json.dumps(manifest, sort_keys=True)), language) == render_markdown(
            manifest, language
        )
        with override(language):
            assert splits_table(stored) == splits_table(manifest)


@pytest.mark.django_db
def test_dimensions_are_called_in_the_readers_language(client: Client, release: GoldRelease, he: Person):
    assert [row[0] for row in tables(release.manifest, "zh")["维度"].rows] == ["安全的提示", "不安全的提示"]
    assert tables(release.manifest, "zh")["标注员的一致性"].rows[1][2] == "安全的提示"
    cut_release(ReleaseSpec(name="s", batches=list(release.batches.all())))
    client.force_login(he)
    for name in ("release", "release-labels", "release-compare"):
        page = client.get(reverse(name, args=["r"]), headers={"accept-language": "zh-hans"}).content.decode()
        assert "不安全的提示" in page, name


def test_a_statistic_has_three_digits_and_its_interval_and_undefined_is_a_hyphen():
    assert format_statistic({"value": 0.7432, "low": 0.69, "high": 0.7901}) == "0.743 [0.690, 0.790]"
    assert format_statistic({"value": 1, "low": None, "high": None}) == "1.000"
    assert format_statistic(None) == format_statistic({"value": None, "low": None, "high": None}) == "-"


@pytest.mark.django_db
def test_the_page_shows_it_in_either_language_and_gives_it_as_markdown(
    client: Client, release: GoldRelease, he: Person
):
    client.force_login(he)
    address = reverse("release-datasheet", args=["r"])
    page = client.get(address).content.decode()
    assert "Assay writes nobody" in page
    regions = re.findall(r'aria-labelledby="(sheet-[^"]+)"', page)
    assert len(regions) == len(set(regions)) > 5
    assert all(f'id="{region}"' in page for region in regions)
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "标注员的一致性" in client.get(address, {"language": "zh"}).content.decode()
    for language in ("en", "zh"):
        file = client.get(reverse("release-download", args=["r", f"datasheet.{language}.md"]))
        assert file.content.decode() == render_markdown(release.manifest, language)
        assert file.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert client.get(reverse("release-download", args=["r", "datasheet.fr.md"])).status_code == 400
