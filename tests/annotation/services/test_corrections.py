"""Corrections that come after their item has closed: requests to the manager, as idempotent as submissions."""

from __future__ import annotations

import pytest

from annotation.core.errors import Unprocessable
from annotation.domain.annotations import Submission
from annotation.models import AuditEvent, Batch, CorrectionRequest, Person
from annotation.services.annotations.submission import Receipt, handle_correction_request, revise
from tests.support import label_next

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def closed(batch: Batch, lin: Person, chen: Person) -> Receipt:
    """What lin handed in for an item that is disputed now."""
    assignment = label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    assert assignment is not None
    return assignment


def ask(closed: Receipt, person: Person, *, key: str, value: int) -> None:
    work = Submission(labels={"compliance": value}, reason="slipped")
    assert revise(assignment_id=closed.assignment, person=person, key=key, work=work) is None


def count_requests() -> int:
    return AuditEvent.objects.filter(verb="request_correction").count()


def test_a_retry_asks_once(closed: Receipt, lin: Person):
    for _try in range(3):
        ask(closed, lin, key="k", value=2)
    assert (CorrectionRequest.objects.count(), count_requests()) == (1, 1)


def test_a_retry_that_comes_after_the_manager_asks_nothing_anew(closed: Receipt, lin: Person, ma: Person):
    ask(closed, lin, key="k", value=2)
    handle_correction_request(request=CorrectionRequest.objects.get(), actor=ma)
    ask(closed, lin, key="k", value=2)
    assert (CorrectionRequest.objects.count(), count_requests()) == (1, 1)


def test_the_same_key_with_another_wish_is_refused(closed: Receipt, lin: Person):
    ask(closed, lin, key="k", value=2)
    with pytest.raises(Unprocessable, match="used before"):
        ask(closed, lin, key="k", value=3)
    assert CorrectionRequest.objects.get().labels == {"compliance": 2}


def test_the_same_wish_under_another_key_is_one_request_until_it_is_handled(
    closed: Receipt, lin: Person, ma: Person
):
    for key in ("one", "two"):
        ask(closed, lin, key=key, value=2)
    assert (CorrectionRequest.objects.count(), count_requests()) == (1, 1)
    handle_correction_request(request=CorrectionRequest.objects.get(), actor=ma)
    ask(closed, lin, key="three", value=2)
    assert (CorrectionRequest.objects.count(), count_requests()) == (2, 2)
