"""Evidence: the pure rules, what a submission must bring along, how it is shown, and the note that a flag leaves."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any
from uuid import uuid4

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.errors import Unprocessable
from annotation.domain.annotations import (
    MAX_SPANS,
    Submission,
    check_completeness,
    check_evidence,
    cut_segments,
    list_markable_texts,
)
from annotation.domain.datasets import response_sha256
from annotation.domain.guidelines import Criterion
from annotation.models import (
    Annotation,
    Assignment,
    Batch,
    Dataset,
    Draft,
    Guideline,
    GuidelineNote,
    Person,
    Response,
    Task,
)
from annotation.selectors.assignments.items import build_item
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import TooLate
from annotation.services.guidelines import load_guideline
from annotation.views.annotations.highlights import mark_turns
from tests.annotation.api.test_api import claim as claimed
from tests.annotation.api.test_api import client_of
from tests.annotation.api.test_api import send as send_json
from tests.annotation.views.test_dispute_pages import two_criteria
from tests.annotation.views.test_work_pages import claim, send, text, visit
from tests.annotation.views.test_work_pages import revise as correct
from tests.support import XSTEST_GUIDELINE, make_batch

pytestmark = pytest.mark.django_db
# Chinese, an emoji of several code points, a combining mark, right-to-left letters, and both kinds of line ends.
MIXED = "你好，世界\U0001f469\u200d\U0001f467 e\u0301 \u05e9\u05dc\u05d5\u05dd\r\nline\rend"
SPAN = {"turn": 0, "start": 0, "end": 6}
WHOLE = {**SPAN, "criterion": "compliance", "level": 1}


def demanding() -> Guideline:
    """XSTest's guideline with level 1 that needs evidence, and level 2 that needs evidence and a rationale."""
    document = yaml.safe_load(XSTEST_GUIDELINE.path.read_text(encoding="utf-8"))
    document["name"] = "demanding"
    scale = document["criteria"][0]["scale"]
    scale[0]["requires"], scale[1]["requires"] = ["evidence"], ["evidence", "rationale"]
    return load_guideline(
        text=yaml.safe_dump(document, allow_unicode=True), path="demanding.yaml", publish=True
    )


@pytest.fixture
def strict(dataset: Dataset, lin: Person, chen: Person, wu: Person) -> Batch:
    return make_batch(demanding(), dataset, annotators=[lin, chen], adjudicators=[wu], name="strict")


def criterion(name: str = "harm", *values: int) -> Criterion:
    words = {"en": "words"}
    scale = [{"value": value, "name": words, "definition": words} for value in values or (1, 2, 3)]
    about = {"label": words, "question": words, "applies_to": "all", "measurement": "ordinal"}
    return Criterion.model_validate({"name": name, "scale": scale, **about})


def give(assignment: Assignment, person: Person, value: int = 1, **more: Any) -> Annotation:
    work = Submission(labels={"compliance": value}, **more)
    submit(assignment_id=assignment.pk, person=person, key=str(uuid4()), work=work)
    return Annotation.objects.get(assignment=assignment, current=True)


# ---- the pure module


texts = st.text(alphabet=st.sampled_from([*MIXED, "a", " "]), max_size=40)
numbers = st.integers(0, 45)


@given(texts, st.lists(st.tuples(numbers, numbers), max_size=6))
def test_segments_join_to_the_text_and_tell_what_covers_them(
    text: str, places: list[tuple[int, int]]
) -> None:
    spans = [{"start": min(place), "end": max(place)} for place in places]
    pieces = cut_segments(text, spans)
    assert "".join(piece.text for piece in pieces) == text
    covering = [piece.spans for piece in pieces for _character in piece.text]
    for at, segment in enumerate(covering):
        assert segment == tuple(i for i, span in enumerate(spans) if span["start"] <= at < span["end"])


@given(texts, numbers, numbers)
def test_a_span_is_taken_exactly_if_it_lies_in_its_turn(text: str, start: int, end: int) -> None:
    span = {"turn": 1, "start": start, "end": end}
    arguments: Any = {"texts": [None, text], "criteria": [criterion()], "labels": {"harm": 2}}
    if start < end <= len(text):
        assert check_evidence([span, dict(span)], **arguments) == [{**span, "criterion": "harm", "level": 2}]
    else:
        with pytest.raises(Unprocessable):
            check_evidence([span], **arguments)


def test_spans_overlap_and_come_in_reading_order() -> None:
    spans = [{**SPAN, "start": 3}, SPAN, {**SPAN, "level": 3}, {**SPAN, "level": 3.0}]
    spans_in_order = check_evidence(spans, texts=[MIXED], criteria=[criterion()], labels={"harm": 1})
    assert [(span["start"], span["level"]) for span in spans_in_order] == [(0, 1), (0, 3), (3, 1)]
    assert [len(piece.spans) for piece in cut_segments(MIXED, spans_in_order)] == [2, 3, 0]


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"turn": 0}, 'needs "start" as a whole number'),
        ({**SPAN, "start": -1}, 'needs "start" as a whole number'),
        ({**SPAN, "end": True}, 'needs "end" as a whole number'),
        ({**SPAN, "end": "6"}, 'needs "end" as a whole number'),
        ({**SPAN, "turn": 1}, "turn 1 is none"),
        ({**SPAN, "turn": 7}, "turn 7 is none"),
        ({**SPAN, "end": 10**30}, "does not lie in the response"),
        ({**SPAN, "criterion": "mood"}, "one of the criteria that are asked: harm"),
        ({**SPAN, "criterion": ["harm"]}, "one of the criteria that are asked: harm"),
        ({**SPAN, "level": 4}, '"harm" cannot be 4'),
        ({**SPAN, "level": 10**400}, '"harm" cannot be 1000'),
        ({**SPAN, "level": [1]}, '"harm" cannot be'),
    ],
)
def test_a_span_that_cannot_be_is_refused_in_words(span: dict[str, Any], message: str) -> None:
    with pytest.raises(Unprocessable, match=re.escape(message)):
        check_evidence([span], texts=[MIXED, None], criteria=[criterion()], labels={"harm": 1})


def test_too_many_spans_and_a_span_of_no_criterion_among_several_are_refused() -> None:
    several = [criterion(), criterion("tone")]
    with pytest.raises(Unprocessable, match="mark at most 200"):
        check_evidence([SPAN] * (MAX_SPANS + 1), texts=[MIXED], criteria=several, labels={})
    with pytest.raises(Unprocessable, match="harm, tone"):
        check_evidence([SPAN], texts=[MIXED], criteria=several, labels={"harm": 1, "tone": 1})


def test_only_what_is_judged_can_be_marked() -> None:
    turns = [{"role": "user", "text": "why?"}, {"role": "assistant", "text": "so"}]
    assert list_markable_texts("", turns) == [None, "so"]
    assert list_markable_texts("plain", []) == ["plain"]
    no_evidence = {"evidence": [], "rationale": "", "texts": list}
    check_completeness([criterion()], {"harm": 1}, **no_evidence)  # nothing is required


# ---- submitting


def test_evidence_is_stored_normalised(batch: Batch, lin: Person) -> None:
    spans = [{**SPAN, "start": 2}, SPAN, SPAN, {**WHOLE, "level": 3}]
    annotation = give(claim(batch, lin), lin, evidence=spans)
    assert annotation.evidence == [WHOLE, {**WHOLE, "level": 3}, {**WHOLE, "start": 2}]


def test_a_submission_without_evidence_does_not_read_the_response(batch: Batch, lin: Person) -> None:
    bare = claim(batch, lin)
    with CaptureQueriesContext(connection) as queries:
        give(bare, lin)
    assert not [query for query in queries if "annotation_response" in query["sql"]]
    marked = claim(batch, lin)
    with CaptureQueriesContext(connection) as queries:
        give(marked, lin, evidence=[SPAN])
    assert len([query for query in queries if "annotation_response" in query["sql"]]) == 1


def test_what_a_level_requires_is_asked_for(strict: Batch, lin: Person) -> None:
    assignment = claim(strict, lin)
    with pytest.raises(Unprocessable, match='Level 1 of "compliance" needs evidence'):
        give(assignment, lin, 1)
    with pytest.raises(Unprocessable, match="needs evidence"):
        give(assignment, lin, 1, evidence=[{**WHOLE, "level": 3}])  # of a level that was not chosen
    with pytest.raises(Unprocessable, match='Level 2 of "compliance" needs a rationale'):
        give(assignment, lin, 2, evidence=[SPAN], rationale=" \n")
    assert not Annotation.objects.exists()
    assert give(assignment, lin, 2, evidence=[SPAN], rationale="so").evidence == [{**WHOLE, "level": 2}]
    assert give(claim(strict, lin), lin, 3).evidence == []


def test_a_correction_is_held_to_the_same(strict: Batch, lin: Person) -> None:
    assignment = claim(strict, lin)
    give(assignment, lin, 3)
    work = Submission(labels={"compliance": 1})
    with pytest.raises(Unprocessable):
        revise(assignment_id=assignment.pk, person=lin, key="k", work=work)
    assert Annotation.objects.get().revision == 1
    revise(
        assignment_id=assignment.pk, person=lin, key="k", work=Submission(labels=work.labels, evidence=[SPAN])
    )
    assert Annotation.objects.get(current=True).evidence == [WHOLE]


def test_what_comes_too_late_keeps_its_evidence(strict: Batch, lin: Person) -> None:
    assignment = claim(strict, lin)
    Task.objects.update(state=Task.State.WITHDRAWN)
    with pytest.raises(TooLate):
        give(assignment, lin, 1, evidence=[SPAN])
    assert Draft.objects.get().evidence == [SPAN]
    Task.objects.update(state=Task.State.OPEN)
    visit(lin).post(f"/history/{assignment.pk}/retry/")
    assert Annotation.objects.get().evidence == [WHOLE]


# ---- the flag


def test_the_flag_on_the_guideline_leaves_a_note_on_the_clause(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    give(assignment, lin, 2, flags=["guideline_unclear", "unsure"], rationale="Is a hint a refusal?")
    note = GuidelineNote.objects.get()
    assert (note.guideline, note.task_id, note.created_by) == (batch.guideline, assignment.task_id, lin)
    assert (note.source, note.criterion, note.level) == ("flag", "compliance", 2)
    assert note.text == "Is a hint a refusal?"


def test_a_correction_says_the_note_anew_and_other_flags_leave_none(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    give(assignment, lin, 2, flags=["unsure"])
    assert not GuidelineNote.objects.exists()
    for key, value in (("a", 3), ("b", 1)):
        work = Submission(labels={"compliance": value}, flags=["guideline_unclear"], rationale=f"was {value}")
        revise(assignment_id=assignment.pk, person=lin, key=key, work=work)
    note = GuidelineNote.objects.get()
    assert (note.level, note.text) == (1, "was 1")


def test_among_several_criteria_the_note_is_on_the_whole_guideline(
    lin: Person, chen: Person, wu: Person
) -> None:
    assignment = claim(two_criteria(lin, chen, wu), lin)
    work = Submission(labels={"compliance": 3, "tone": 4}, flags=["guideline_unclear"])
    submit(assignment_id=assignment.pk, person=lin, key="k", work=work)
    assert (GuidelineNote.objects.get().criterion, GuidelineNote.objects.get().level) == ("", None)


def test_what_is_refused_leaves_no_note(strict: Batch, lin: Person) -> None:
    with pytest.raises(Unprocessable):
        give(claim(strict, lin), lin, 1, flags=["guideline_unclear"])
    assert not GuidelineNote.objects.exists()


# ---- the API


def test_the_api_tells_what_is_required_and_takes_evidence(strict: Batch, lin: Person) -> None:
    client = client_of(lin)
    item = claimed(client, strict)
    assert [level["requires"] for level in item["criteria"][0]["scale"]] == [
        ["evidence"],
        ["evidence", "rationale"],
        [],
    ]
    body = {"labels": {"compliance": 1}}
    refused = send_json(client, item["assignment"], body)
    assert refused.status_code == 422
    assert "needs evidence" in refused.json()["error"]["message"]
    outside = [{**SPAN, "end": 4000}]
    assert send_json(client, item["assignment"], {**body, "evidence": outside}).status_code == 422
    evidence = [{**WHOLE, "start": 1}, {**SPAN, "level": 1}]
    assert send_json(client, item["assignment"], {**body, "evidence": evidence}).status_code == 201
    assert Annotation.objects.get().evidence == [WHOLE, {**WHOLE, "start": 1}]


# ---- the pages


class Turn(HTMLParser):
    """The text of what can be marked, as a browser has it after parsing, and the marks in it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.marks, self._depth, self._marking = "", [], 0, False
        # The parser of a browser turns bare line ends into line feeds before it reads on.
        self.feed(html.replace("\r\n", "\n").replace("\r", "\n"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div":
            self._depth = self._depth + 1 if self._depth or dict(attrs).get("data-turn") else 0
        if tag == "mark" and self._depth:
            self.marks.append((dict(attrs)["data-owner"], dict(attrs)["title"], ""))
            self._marking = True

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "div" and self._depth > 0
        self._marking = self._marking and tag != "mark"

    def handle_data(self, data: str) -> None:
        if self._depth:
            self.text += data
        if self._marking:
            self.marks[-1] = (*self.marks[-1][:2], self.marks[-1][2] + data)


def answer_with(text: str) -> None:
    Response.objects.update(text=text, turns=[], sha256=response_sha256(text, []))


@pytest.mark.parametrize(
    "response_text", [MIXED, "\n\n leading", "<script>alert(1)</script>&amp;\r", "&#13;\r\n" * 3]
)
def test_the_page_has_the_text_exactly_with_the_marks_of_its_person(
    batch: Batch, lin: Person, response_text: str
) -> None:
    answer_with(response_text)
    assignment = claim(batch, lin)
    assert Turn(text(visit(lin).get(f"/work/{batch.name}/"))).text == response_text
    give(assignment, lin, 1, evidence=[{**SPAN, "end": 4}, {**SPAN, "start": 2}])
    page = text(visit(lin).get(f"/history/{assignment.pk}/"))
    assert Turn(page).text == response_text
    level = "1 Full refusal"
    assert Turn(page).marks == [
        ("mine", level, response_text[:2]),
        ("mine", level, response_text[2:4]),
        ("mine", level, response_text[4:6]),
    ]
    assert "<script>alert" not in page


def test_marks_of_two_sides_tell_whose_they_are(batch: Batch, lin: Person) -> None:
    answer_with(MIXED)
    item = build_item(claim(batch, lin))
    plain, marked = (
        mark_turns(item, {}),
        mark_turns(item, {"A": [WHOLE], "B": [{**WHOLE, "start": 3, "level": 3}]}),
    )
    assert [turn.place for turn in plain] == [None, 0]  # the prompt is not among the turns
    assert not any("<mark" in turn.text.source for turn in plain)
    page = Turn(f"<div data-turn='0'>{marked[1].text.source}</div>")
    assert page.text == MIXED
    assert page.marks == [
        ("A", "1 Full refusal", MIXED[:3]),
        ("A B", "1 Full refusal, 3 Full compliance", MIXED[3:6]),
    ]
    assert 'data-depth="2"' in marked[1].text.source


def test_the_form_sends_evidence_and_gets_back_what_it_sent(strict: Batch, lin: Person) -> None:
    assignment, visitor = claim(strict, lin), visit(lin)
    evidence = json.dumps([{**WHOLE, "level": 2}])
    refused = send(visitor, assignment, 2, evidence=evidence)
    assert refused.status_code == 422
    assert "needs a rationale" in text(refused)
    assert evidence in text(refused).replace("&quot;", '"')
    send(visitor, assignment, 2, evidence=evidence, rationale="so")
    assert Annotation.objects.get().evidence == json.loads(evidence)
    page = text(visitor.get(f"/history/{assignment.pk}/"))
    assert evidence in page.replace("&quot;", '"')
    correct(visitor, assignment, 3, evidence="[]")
    assert Annotation.objects.get(current=True).evidence == []


@pytest.mark.parametrize("sent", ["{", "7", "{}", "[1]", "[" * 100_000, '[{"turn": NaN}]', '[{"turn": 0}]'])
def test_evidence_that_cannot_be_read_is_refused_in_words(batch: Batch, lin: Person, sent: str) -> None:
    refused = send(visit(lin, htmx=True), claim(batch, lin), 3, evidence=sent)
    assert refused.status_code == 422
    message = text(refused).split('role="alert"><span>')[1].split("</span>")[0]
    assert "evidence" in message
    assert not Annotation.objects.exists()


def test_the_levels_say_what_they_require(strict: Batch, lin: Person) -> None:
    english, chinese = (
        text(visit(lin, language=language).get("/work/strict/")) for language in ("en", "zh-hans")
    )
    assert english.count("needs evidence and a rationale") == 2  # on the card and in the guideline
    assert 'data-requires="evidence rationale"' in english
    assert 'data-requires="evidence rationale"' in chinese


def test_a_second_tab_with_other_evidence_is_asked_about(batch: Batch, lin: Person) -> None:
    assignment, visitor = claim(batch, lin), visit(lin, htmx=True)
    send(visitor, assignment, 1, evidence=json.dumps([SPAN]))
    same = send(visitor, assignment, 1, evidence=json.dumps([WHOLE]))
    assert same["Assay-Outcome"] == "taken"
    other = send(visitor, assignment, 1, evidence="[]")
    assert (other.status_code, other["Assay-Outcome"]) == (409, "refused")
