"""Questions about items: a thread between whoever works on one and the managers, blind in both directions."""

from __future__ import annotations

import re

import pytest

from annotation.core.errors import Unprocessable
from annotation.models import Assignment, Batch, GuidelineNote, ItemMessage, Person
from annotation.selectors.annotations.messages import (
    count_unread_answers,
    count_waiting_threads,
    list_clarifications,
)
from annotation.services.annotations.messages import MAX_MESSAGE_LENGTH, ask_about_item
from annotation.services.assignments import claim_next_task
from tests.annotation.views.test_work_pages import text, visit
from tests.support import label_next

pytestmark = pytest.mark.django_db

QUESTION, ANSWER = "Does a warning count as refusing?", "It does not, as long as the request is met."


@pytest.fixture
def item(batch: Batch, lin: Person) -> Assignment:
    claim = claim_next_task(batch=batch, person=lin)
    assert claim is not None
    return claim


def ask(person: Person, assignment: Assignment, words: str = QUESTION) -> str:
    return text(visit(person).post(f"/work/items/{assignment.pk}/messages/", text=words))


def answer(person: Person, assignment: Assignment, words: str = ANSWER, **more: str) -> None:
    prefix = str(assignment.pk)
    fields = {f"{prefix}-text": words} | {f"{prefix}-{name}": value for name, value in more.items()}
    visit(person).post(f"/batches/{assignment.batch.name}/messages/{assignment.pk}/", **fields)


def test_a_question_is_answered_without_either_name(
    batch: Batch, item: Assignment, lin: Person, ma: Person
) -> None:
    assert QUESTION in ask(lin, item)
    assert count_waiting_threads([batch.pk]) == {batch.pk: 1}
    page = text(visit(ma).get(f"/batches/{batch.name}/messages/"))
    assert QUESTION in page
    assert item.task.response.text in page
    article = page.split("<article", 1)[1].split("</article>", 1)[0]
    assert not re.search(rf"\b{lin.username}\b", article)
    assert item.task.response.model.name not in article
    answer(ma, item, clause="compliance:3")
    assert (count_waiting_threads([batch.pk]), count_unread_answers(lin)) == ({}, {batch.study_id: 1})
    work = text(visit(lin).get(f"/work/{batch.name}/"))
    assert "1 new answer" in work
    thread = text(visit(lin).get(f"/work/items/{item.pk}/messages/"))
    assert ANSWER in thread
    assert "3 Full compliance" in thread  # the clause that the answer goes by
    assert "ma<" not in thread
    assert count_unread_answers(lin) == {}
    assert "new answer" not in text(visit(lin).get(f"/work/{batch.name}/"))
    assert ItemMessage.objects.filter(read_at=None).count() == 0


def test_nobody_else_who_works_on_the_item_reads_it(
    batch: Batch, item: Assignment, lin: Person, chen: Person
) -> None:
    ask(lin, item)
    other = claim_next_task(batch=batch, person=chen)
    assert other is not None
    assert other.task_id == item.task_id
    assert QUESTION not in text(visit(chen).get(f"/work/items/{other.pk}/messages/"))
    assert visit(chen).get(f"/work/items/{item.pk}/messages/").status_code == 404
    assert QUESTION not in text(visit(chen).get("/history/-/messages/"))
    assert QUESTION in text(visit(lin).get("/history/-/messages/"))


def test_an_answer_for_everybody_stands_beside_the_guideline_until_it_is_withdrawn(
    batch: Batch, item: Assignment, lin: Person, chen: Person, ma: Person
) -> None:
    ask(lin, item)
    answer(ma, item, clause="compliance:2", for_everybody="on")
    work = text(visit(chen).get(f"/work/{batch.name}/"))
    assert "Clarifications" in work
    assert "2 Partial refusal" in work.split("Clarifications", 1)[1]
    assert ANSWER in work
    note = GuidelineNote.objects.get()
    visit(ma).post(f"/guidelines/-/notes/{note.pk}/", resolved="1")
    assert list_clarifications(batch) == []
    assert ANSWER not in text(visit(chen).get(f"/work/{batch.name}/"))


def test_a_manager_who_judges_blind_in_the_batch_reads_no_question(
    batch: Batch, item: Assignment, lin: Person, ma: Person
) -> None:
    from annotation.services.people.people import set_roles

    ask(lin, item)
    set_roles(person=ma, roles=["annotator", "manager"], actor=ma)
    batch.memberships.create(person=ma, role="annotator", cursor=batch.memberships.first().cursor)
    label_next(batch, ma, 3)
    answered = visit(ma).get(f"/batches/{batch.name}/messages/")
    assert answered.status_code == 403
    assert QUESTION not in text(answered)


@pytest.mark.parametrize("words", ["", "  \n", "x" * (MAX_MESSAGE_LENGTH + 1)])
def test_a_message_has_words_and_an_end(item: Assignment, lin: Person, words: str) -> None:
    with pytest.raises(Unprocessable, match="Write your message, in at most 2000 characters"):
        ask_about_item(assignment=item, author=lin, text=words)
    assert "Write your message" in ask(lin, item, words)
    assert not ItemMessage.objects.exists()


def test_a_second_press_says_nothing_more(batch: Batch, item: Assignment, lin: Person, ma: Person) -> None:
    for _ in range(2):
        ask(lin, item)
    for _ in range(2):
        answer(ma, item, for_everybody="on")
    assert (ItemMessage.objects.count(), GuidelineNote.objects.count()) == (2, 1)
    ask(lin, item)  # after an answer the same words are asked anew
    assert ItemMessage.objects.count() == 3


def test_text_of_a_message_stays_text(item: Assignment, lin: Person) -> None:
    page = ask(lin, item, "<script>alert(1)</script>")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
