"""The managers' list of reasons for disputes."""

from __future__ import annotations

import pytest

from annotation.models import AuditEvent, DisputeReason, Person
from tests.annotation.views.test_work_pages import text, visit

pytestmark = pytest.mark.django_db
URL = "/guidelines/-/reasons/"


def keys(*, active: bool = True) -> list[str]:
    return list(DisputeReason.objects.filter(active=active).values_list("key", flat=True))


def test_a_reason_is_added_renamed_moved_and_retired(ma: Person) -> None:
    visitor = visit(ma)
    words = {"zh": "其他", "en": "Something else"}
    assert visitor.post(URL, **words, makes_note="on").status_code == 302
    assert keys()[-1] == "something_else"
    visitor.post(f"{URL}something_else/", zh="别的", en="Other")
    changed = DisputeReason.objects.get(key="something_else")
    assert (changed.words, changed.makes_note) == ({"zh": "别的", "en": "Other"}, False)
    visitor.post(f"{URL}something_else/move/", to="up")
    assert keys()[-2] == "something_else"
    visitor.post(f"{URL}something_else/active/", active="no")
    assert keys(active=False) == ["something_else"]
    visitor.post(f"{URL}something_else/active/", active="yes")
    assert keys(active=False) == []
    assert AuditEvent.objects.filter(target="dispute_reason:something_else").count() == 5


def test_the_same_words_twice_are_refused(ma: Person) -> None:
    answer = visit(ma).post(URL, zh="新", en="Reading slip")
    assert answer.status_code == 422
    assert "There is already a reason Reading slip." in text(answer)


def test_the_last_reason_cannot_be_retired(ma: Person) -> None:
    DisputeReason.objects.exclude(key="reading_slip").update(active=False)
    assert visit(ma).post(f"{URL}reading_slip/active/", active="no").status_code == 409
    assert keys() == ["reading_slip"]


def test_nobody_else_opens_the_list(wu: Person, lin: Person) -> None:
    for person in (wu, lin):
        assert visit(person).get(URL).status_code == 403
