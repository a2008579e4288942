"""Items whose criteria are no single levels, for programs: what an item says of them, and what it takes."""

from __future__ import annotations

from typing import Any

import pytest

from annotation.models import Annotation, Batch, Person
from tests.annotation.api.test_api import claim, client_of, send
from tests.annotation.kinds import kinds_batch

pytestmark = pytest.mark.django_db
ANSWERS = {"harm": 1, "topics": [4, 1], "why": "It names a street.", "empathy@1": 3, "empathy@3": "na"}


@pytest.fixture
def kinds(lin: Person, chen: Person, wu: Person) -> Batch:
    return kinds_batch([lin, chen], [wu])


def test_an_item_says_of_what_kind_each_answer_is(kinds: Batch, lin: Person) -> None:
    criteria = claim(client_of(lin), kinds)["criteria"]
    names = ("name", "kind", "several", "turn", "max_length", "values")
    assert [tuple(criterion[name] for name in names) for criterion in criteria] == [
        ("harm", "level", False, None, None, [1, 2, 3]),
        ("topics", "choice", True, None, None, [1, 2, 4]),
        ("why", "text", False, None, 2000, []),
        ("empathy@1", "level", False, 1, None, [1, 2, 3]),
        ("empathy@3", "level", False, 3, None, [1, 2, 3]),
    ]


def test_options_come_as_a_list_or_their_sum_and_a_text_as_it_is(kinds: Batch, lin: Person) -> None:
    client = client_of(lin)
    first = claim(client, kinds)["assignment"]
    evidence = [{"turn": 1, "start": 0, "end": 4, "criterion": "why", "level": None}]
    answer = send(client, first, {"labels": ANSWERS, "evidence": evidence})
    assert answer.status_code == 201, answer.content
    stored = Annotation.objects.get()
    assert stored.labels == {"harm": 1, "topics": 5, "empathy@1": 3, "empathy@3": "na"}
    assert stored.texts == {"why": "It names a street."}
    assert send(client, first, {"labels": ANSWERS, "evidence": evidence}).status_code == 200
    second = claim(client, kinds)["assignment"]
    answer = send(client, second, {"labels": {"harm": 2, "topics": 2, "empathy@0": 1}}, key="k2")
    assert answer.status_code == 201, answer.content


@pytest.mark.parametrize(
    ("labels", "status"),
    [
        ({"topics": []}, 400),
        ({"topics": [True]}, 400),
        ({"topics": [1] * 21}, 400),
        ({"why": "x" * 20_001}, 400),
        ({"topics": [3]}, 201),
        ({"topics": [8]}, 422),
        ({"topics": "Violence"}, 422),
        ({"why": 3}, 422),
        ({"why": "x" * 2001}, 422),
        ({"empathy@0": 3}, 422),
    ],
)
def test_what_does_not_fit_is_refused(kinds: Batch, lin: Person, labels: dict[str, Any], status: int) -> None:
    client = client_of(lin)
    item = claim(client, kinds)["assignment"]
    answer = send(client, item, {"labels": ANSWERS | labels})
    assert answer.status_code == status, answer.content
    assert Annotation.objects.exists() == (status == 201)
