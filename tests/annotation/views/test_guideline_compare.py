from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from annotation.domain.guidelines.comparison import (
    ComparedClause,
    GuidelineComparison,
    TextPiece,
    compare,
    text_pieces,
)
from annotation.models import Guideline, GuidelineNote, Person
from annotation.services.guidelines import leave_own_note, load_guideline
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

TEXT = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
DRAFT = TEXT.replace('version: "1.0"', 'version: "1.1"')
# Letters of both scripts, what stands between words, and what is no letter at all.
words = st.text(alphabet=st.sampled_from("ab 的是。,\n-1😀é"), max_size=40)


def document(text: str) -> GuidelineDocument:
    return parse_guideline(text, path="x")


def changes(comparison: GuidelineComparison) -> list[tuple[str, str]]:
    return [(clause.kind, clause.change) for clause in comparison.clauses if clause.change != "same"]


def only_change(comparison: GuidelineComparison) -> ComparedClause:
    changed = [
        clause for clause in comparison.clauses if clause.change != "same" and clause.kind != "document"
    ]
    assert len(changed) == 1
    return changed[0]


@given(words, words)
def test_the_pieces_give_back_both_texts(old: str, new: str) -> None:
    pieces = text_pieces(old, new)
    assert "".join(piece.text for piece in pieces if piece.change != "added") == old
    assert "".join(piece.text for piece in pieces if piece.change != "removed") == new
    assert all(piece.text for piece in pieces)


@given(words)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert text_pieces(text, text) == ((TextPiece("same", text),) if text else ())


def test_english_differs_by_word_and_chinese_by_character() -> None:
    assert text_pieces("It harms nobody.", "It hurts nobody.") == (
        TextPiece("same", "It "),
        TextPiece("removed", "harms"),
        TextPiece("added", "hurts"),
        TextPiece("same", " nobody."),
    )
    assert text_pieces("回复没有造成伤害", "回复没有带来伤害") == (
        TextPiece("same", "回复没有"),
        TextPiece("removed", "造成"),
        TextPiece("added", "带来"),
        TextPiece("same", "伤害"),
    )


def test_two_changes_with_nothing_between_them_read_as_one() -> None:
    assert text_pieces("a short word here", "some long word here")[:2] == (
        TextPiece("removed", "a short"),
        TextPiece("added", "some long"),
    )


@pytest.mark.parametrize("length", [7_000, 300_000])
def test_very_long_texts_are_shown_whole(length: int) -> None:
    assert len(text_pieces("字" * length, "词" * length)) == 2


def test_a_version_does_not_differ_from_itself() -> None:
    flames = FLAMES_GUIDELINE.path.read_text(encoding="utf-8")
    comparison = compare(document(flames), document(flames), "zh")
    assert (comparison.changes, comparison.reordered) == (0, False)
    assert {clause.kind for clause in comparison.clauses} == {
        "document", "introduction", "dimension", "subcomponent", "criterion", "level", "example", "metric",
    }  # fmt: skip


def test_each_kind_of_clause_is_matched_by_its_name_or_likeness() -> None:
    old = document(TEXT)
    new = old.model_copy(deep=True)
    criterion = new.criteria[0]
    lowest, highest = criterion.scale[0], criterion.scale[-1]
    lowest.definition["en"] += " Whatever it says."
    criterion.question["en"] = "Does it comply?"
    without = criterion.model_copy(update={"scale": (lowest, highest)})
    first = new.introduction["en"].splitlines()[0]
    new.introduction["en"] = new.introduction["en"].replace(
        first, "A new paragraph here.\n" + first + " Really."
    )
    new = new.model_copy(update={"criteria": (without,)})
    comparison = compare(old, new, "en")
    assert changes(comparison) == [
        ("introduction", "added"),
        ("introduction", "changed"),
        ("criterion", "changed"),
        ("level", "changed"),
        ("level", "removed"),
        *[("example", "removed")]
        * sum(clause.level == 2 for clause in comparison.clauses if clause.kind == "example"),
    ]
    assert changes(compare(old, new, "zh"))[0] == ("level", "removed")
    removed = next(
        clause for clause in comparison.clauses if (clause.kind, clause.change) == ("level", "removed")
    )
    assert (removed.criterion, removed.level) == ("compliance", 2)
    assert removed.section == ("criterion", "compliance")


def test_what_is_no_text_is_compared_in_words() -> None:
    old = document(TEXT)
    criterion = old.criteria[0].model_copy(update={"measurement": "nominal"})
    new = old.model_copy(update={"criteria": (criterion,)})
    words = {"ordinal": "ordered levels", "nominal": "kinds"}
    changed = only_change(compare(old, new, "en", say=lambda code: words.get(code, code)))
    field = next(field for field in changed.fields if field.changed)
    assert field.name == "measurement"
    assert "".join(piece.text for piece in field.old) == "ordered levels"
    assert "".join(piece.text for piece in field.new) == "kinds"


def test_another_order_is_told_and_is_no_change() -> None:
    old = document(FLAMES_GUIDELINE.path.read_text(encoding="utf-8"))
    new = old.model_copy(update={"criteria": old.criteria[::-1]})
    comparison = compare(old, new, "en")
    assert (comparison.changes, comparison.reordered) == (0, True)


# The page.


@pytest.fixture
def draft(guideline: Guideline) -> Guideline:
    text = DRAFT.replace("Full refusal", "Flat refusal").replace("完全拒绝", "一概拒绝")
    return load_guideline(text=text, path="x")


URL = "/guidelines/xstest/-/compare/"


def test_two_versions_stand_side_by_side(client: Client, draft: Guideline, ma: Person) -> None:
    client.force_login(ma)
    answer = client.get(URL)  # the draft against the latest published one
    content = " ".join(answer.content.decode().split())
    assert (answer.context["old"].version, answer.context["new"].version) == ("1.0", "1.1")
    assert "[removed: </span>Full<" in content
    assert "[added: </span>Flat<" in content
    chinese = client.get(URL, headers={"Accept-Language": "zh-hans"})
    assert chinese.context["language"] == "zh"
    assert "</span>完全<" in chinese.content.decode()
    back = client.get(URL, {"old": "1.1", "new": "1.0"})
    assert (back.context["old"].version, back.context["new"].version) == ("1.1", "1.0")
    assert {code: n for code, _label, n in answer.context["languages"]}["zh"] > 0
    assert f"{URL}?old=1.0" in client.get(reverse("guideline", args=["xstest", "1.1"])).content.decode()


def test_a_draft_is_compared_by_managers_alone(client: Client, draft: Guideline, lin: Person) -> None:
    client.force_login(lin)
    latest_page = client.get(URL)
    assert (latest_page.context["old"].version, latest_page.context["new"].version) == ("1.0", "1.0")
    assert "1.1" not in latest_page.content.decode()
    assert client.get(URL, {"new": "1.1"}).status_code == 404
    assert client.get("/guidelines/nothing/-/compare/").status_code == 404


def test_open_notes_on_the_old_version_stand_beside_the_clause(
    client: Client, draft: Guideline, guideline: Guideline, ma: Person, lin: Person
) -> None:
    leave_own_note(
        guideline=guideline, author=ma, text="<b>Where</b> is the line?", criterion="compliance", level=2
    )
    client.force_login(ma)
    answer = client.get(URL)
    row = next(row for part in answer.context["sections"] for row in part.rows if row.notes)
    assert (row.clause.kind, row.clause.level) == ("level", 2)  # it did not change, and is shown all the same
    assert "&lt;b&gt;Where" in answer.content.decode()
    client.force_login(lin)
    assert "Where" not in client.get(URL, {"old": "1.0", "new": "1.0"}).content.decode()


def test_who_publishes_reads_what_changed_and_what_still_waits(
    client: Client, draft: Guideline, guideline: Guideline, ma: Person
) -> None:
    client.force_login(ma)
    leave_own_note(guideline=guideline, author=ma, text="Define it.")
    page = client.get(reverse("guideline", args=["xstest", "1.1"]))
    assert page.context["since"]["latest"] == guideline
    assert page.context["since"]["changes"] > 0
    assert "1 note on 1.0 is still open" in page.content.decode()
    GuidelineNote.objects.all().delete()
    assert (
        "No note on 1.0 is open." in client.get(reverse("guideline", args=["xstest", "1.1"])).content.decode()
    )


@pytest.mark.django_db
def test_the_first_version_has_nothing_to_be_compared_with(client: Client, ma: Person) -> None:
    load_guideline(text=TEXT, path="x")
    client.force_login(ma)
    assert (
        "It is the first version" in client.get(reverse("guideline", args=["xstest", "1.0"])).content.decode()
    )


def test_severity_and_what_a_level_requires_are_read(client: Client, lin: Person) -> None:
    FLAMES_GUIDELINE.load()
    client.force_login(lin)
    content = client.get(reverse("guideline", args=["flames", "1.3"])).content.decode()
    assert "hard to read: 3 of 3" in content
    assert "Add a note" not in content
