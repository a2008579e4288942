"""A verdict's figures rest on the gold of both scorers: who may open one of the two alone does not see them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import GoldRelease, Guideline, Job, Person
from annotation.services.batches.batches import add_members, set_state
from annotation.services.people.people import add_person
from scoring.models import Scorer
from scoring.selectors.gate import describe_promotion
from scoring.selectors.scorers import list_judge_jobs
from scoring.views.scorers.promotions import describe_promotion_text
from tests.scoring.gate_support import FAIRNESS, SAFETY, judged, labelled_release, promoted, scorer_that_says

pytestmark = pytest.mark.django_db


@pytest.fixture
def new(graded: GoldRelease, flames: Guideline, lin: Person, always: Any) -> Scorer:
    """Current, beside ``old``, which was trained on a release of other batches and of another dataset."""
    always(-1)
    judged(scorer_that_says(graded, flames, name="old"))
    later = labelled_release(flames, lin, name="later", dimensions=[FAIRNESS, SAFETY])
    scorer = scorer_that_says(later, flames, name="new")
    promoted(scorer, add_person(name="rin", roles=["researcher"]))
    return scorer


def read_gate(client: Client, person: Person) -> str:
    client.force_login(person)
    answer = client.get(reverse("scorer", args=["new"]), {"view": "gate"})
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("role", ["annotator", "adjudicator"])
@pytest.mark.parametrize("reader", ["he", "ma"])
def test_who_judges_blind_what_the_other_scorer_learned_sees_no_figure(
    client: Client, new: Scorer, graded: GoldRelease, request: pytest.FixtureRequest, role: str, reader: str
) -> None:
    """Researcher and manager alike; when the batch is closed, and confirmed where it must be, all of it is open."""
    person: Person = request.getfixturevalue(reader)
    batch = graded.batches.get()
    add_members(batch=batch, role=role, people=[person])
    body = read_gate(client, person)
    assert "Comparison with old" in body
    assert "The figures rest on the gold of old too, which is sealed for you." in body
    for figure in ("labels of", "80% power", "beside old", 'class="figure"'):
        assert figure not in body
    text = describe_promotion_text(new, person)
    assert "The figures beside old rest on gold that is sealed for you." in text
    assert "points (" not in text
    described = describe_promotion(new, person)
    assert described is not None
    assert (described["comparisons"], described["withheld"]) == ([], ["old"])
    assert not [doubt for doubt in described["doubts"] if "n" in doubt]
    set_state(batch=batch, state="closed")
    assert "which is sealed for you" not in read_gate(client, person)
    assert "points (" in describe_promotion_text(new, person)


@pytest.mark.parametrize("reader", ["he", "ma"])
def test_who_judges_nothing_blind_sees_the_figures(
    client: Client, new: Scorer, request: pytest.FixtureRequest, reader: str
) -> None:
    person: Person = request.getfixturevalue(reader)
    body = read_gate(client, person)
    for figure in ("Comparison with old", "labels of", "80% power", "beside old"):
        assert figure in body
    assert "sealed for you" not in body
    assert describe_promotion(new, person) == describe_promotion(new)
    assert "points (" in describe_promotion_text(new, person)


@pytest.mark.parametrize("reader", ["lin", "wu"])
def test_annotators_and_adjudicators_see_no_page_of_scorers(
    client: Client, new: Scorer, request: pytest.FixtureRequest, reader: str
) -> None:
    client.force_login(request.getfixturevalue(reader))
    assert client.get(reverse("scorer", args=["new"]), {"view": "gate"}).status_code == 403


def test_who_judges_blind_what_the_scorer_itself_learned_sees_nothing(
    client: Client, new: Scorer, he: Person
) -> None:
    add_members(batch=new.release.batches.get(), role="annotator", people=[he])
    client.force_login(he)
    assert client.get(reverse("scorer", args=["new"]), {"view": "gate"}).status_code == 403


def test_a_verdict_of_the_first_version_is_withheld_too(
    client: Client, new: Scorer, graded: GoldRelease, he: Person
) -> None:
    (job,) = list_judge_jobs(new)
    comparison = {"criterion": "safety", "n": 77, "prompts": 9, "old": 0.5, "new": 0.6, "passed": True}
    comparison |= {"difference": {"value": 0.1, "low": 0.0, "high": 0.2}}
    verdict = {"passed": False, "first": False, "criteria": [comparison], "labels": 77, "labels_left_out": 0}
    verdict |= {"must_fail": []}
    refusal = {"template": "Safety: it is worse than old.", "params": {}, "where": ""}
    Job.objects.filter(pk=job.pk).update(result=job.result | {"verdict": verdict, "refusals": [refusal]})
    add_members(batch=graded.batches.get(), role="annotator", people=[he])
    body = read_gate(client, he)
    assert "The figures rest on the gold of old too, which is sealed for you." in body
    assert "77" not in body
    assert "worse than old" not in body
