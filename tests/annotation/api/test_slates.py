"""Slates for programs: an item carries its responses in the order in which to show them, and labels are by place."""

from __future__ import annotations

from typing import Any

import pytest

from annotation.models import Annotation, Batch, Person
from tests.annotation.api.test_api import claim, client_of, send
from tests.annotation.slates import (
    BEST_GUIDELINE,
    MODELS,
    best_criterion,
    give,
    make_slate_batch,
    ranking_criterion,
    read_texts,
    score_criterion,
    slate_guideline,
)
from tests.annotation.slates import claim as claim_in

pytestmark = pytest.mark.django_db
ANSWERS = {"best": [1, 4], "order": [2, 1, 1], "help@0": 1, "help@1": 2, "help@2": 3}


@pytest.fixture
def slates(lin: Person, chen: Person, wu: Person) -> Batch:
    guideline = slate_guideline(
        best_criterion(several=True, none=True), ranking_criterion(), score_criterion()
    )
    return make_slate_batch(guideline, annotators=[lin, chen], adjudicators=[wu])


def test_an_item_carries_its_responses_in_the_order_in_which_they_are_shown(
    slates: Batch, lin: Person
) -> None:
    assignment = claim_in(slates, lin, "312")
    item = claim(client_of(lin), slates)
    assert item["assignment"] == str(assignment.pk)
    assert item["entries"] == [
        {"place": 3, "turns": [2]},
        {"place": 1, "turns": [0]},
        {"place": 2, "turns": [1]},
    ]
    texts = read_texts(assignment)
    assert item["turns"] == [{"role": "assistant", "text": texts[place]} for place in (1, 2, 3)]
    fields = ("name", "turn", "entries", "several", "none", "ties", "or_if")
    assert [tuple(criterion[field] for field in fields) for criterion in item["criteria"]] == [
        ("best", None, "best", True, True, False, None),
        ("order", None, "ranking", False, False, True, None),
        ("help@2", 2, None, False, False, False, None),
        ("help@0", 0, None, False, False, False, None),
        ("help@1", 1, None, False, False, False, None),
        ("overall", None, None, False, False, False, None),
    ]
    questions = [criterion["question"]["en"][-2:] for criterion in item["criteria"]]
    assert questions[2:5] == ["#1", "#2", "#3"]


def test_labels_are_by_place_whatever_the_order(slates: Batch, lin: Person) -> None:
    claim_in(slates, lin, "312")
    client = client_of(lin)
    item = claim(client, slates)["assignment"]
    answer = send(client, item, {"labels": ANSWERS})
    assert answer.status_code == 201, answer.content
    assert Annotation.objects.get().labels == {
        "best": 5,
        "order": 211,
        "help@0": 1,
        "help@1": 2,
        "help@2": 3,
    }


@pytest.mark.parametrize(
    ("labels", "status"),
    [
        ({"best": 0}, 201),
        ({"best": 8}, 422),
        ({"best": -1}, 422),
        ({"order": 123}, 201),
        ({"order": [1, 1, 5]}, 201),
        ({"order": 12}, 422),
        ({"order": 1234}, 422),
        ({"order": 224}, 422),
        ({"order": [1, 2]}, 422),
        ({"order": [0, 1, 2]}, 422),
        ({"help@3": 1}, 422),
    ],
)
def test_what_does_not_fit_is_refused(
    slates: Batch, lin: Person, labels: dict[str, Any], status: int
) -> None:
    client = client_of(lin)
    item = claim(client, slates)["assignment"]
    answer = send(client, item, {"labels": ANSWERS | labels})
    assert answer.status_code == status, answer.content


def test_the_answers_are_those_of_a_slate_of_its_size(lin: Person) -> None:
    """What a criterion says is kept between requests: of two responses there are other answers than of three."""
    guideline = BEST_GUIDELINE.load()
    values = []
    for models, name in ((MODELS[:2], "two"), (MODELS, "three")):
        batch = make_slate_batch(guideline, annotators=[lin], models=models, name=name)
        values.append(claim(client_of(lin), batch)["criteria"][0]["values"])
    assert values == [[0, 1, 2], [0, 1, 2, 3]]


def test_an_own_answer_says_beside_which_answers_it_is_asked(lin: Person) -> None:
    batch = make_slate_batch(BEST_GUIDELINE.load(), annotators=[lin])
    client = client_of(lin)
    item = claim(client, batch)
    own_answer = item["criteria"][-1]
    assert own_answer["asked_if"] == {"criterion": "best", "comparison": "is", "value": 0}
    assert own_answer["or_if"] == {"criterion": "score", "comparison": "at_most", "value": 4}
    refused: list[dict[str, Any]] = [{"best": 0}, {"best": 1, "score": 4}]
    for labels in refused:
        assert send(client, item["assignment"], {"labels": labels}).status_code == 422
    answer = send(
        client, item["assignment"], {"labels": {"best": 1, "score": 4, "own_answer": "So."}}, key="k2"
    )
    assert answer.status_code == 201, answer.content


def test_a_dispute_has_the_entries_in_its_adjudicators_order(
    slates: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    labels = {"best": 1, "order": 123, "help@0": 1, "help@1": 1, "help@2": 1}
    give(claim_in(slates, lin), labels)
    give(claim_in(slates, chen), {**labels, "best": 2})
    client = client_of(wu)
    dispute = client.post(f"/api/v1/batches/{slates.name}/next-dispute/", {}).json()
    assert sorted(entry["place"] for entry in dispute["entries"]) == [1, 2, 3]
    answer = client.post(f"/api/v1/assignments/{dispute['assignment']}/verdict/", {"labels": {"best": 4}})
    assert answer.status_code == 200, answer.content
    assert sorted(side["labels"]["best"] for side in answer.json()["sides"]) == [1, 2]
    assert answer.json()["entries"] == dispute["entries"]


def test_an_item_that_is_no_slate_has_no_entries(batch: Batch, lin: Person) -> None:
    assert claim(client_of(lin), batch)["entries"] == []
