"""A response in several batches: agreement, quality and gold of named batches count it once."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Dataset, GoldLabel, GoldRelease, Guideline, Person
from annotation.selectors.agreement import LabelPatterns
from annotation.selectors.agreement.label_table import read_gold, read_units
from annotation.selectors.quality import get_overview
from annotation.services.batches.batches import add_members, set_state
from annotation.services.people.people import add_person
from annotation.services.releases import cut_release
from tests.support import decide_next, label_next, make_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def second(
    batch: Batch, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person, wu: Person
) -> Batch:
    """The same eight responses in a second batch. The first three: lin and chen say 1-1, 1-3 and 2-2; then lin, who
    has thought better of the second, and zhou say 1-1, 3-3 and 2-1.
    """
    second = make_batch(guideline, dataset, annotators=[lin, zhou], adjudicators=[wu], name="second")
    for batch_again, other, labels in (
        (batch, chen, ((1, 1), (1, 3), (2, 2))),
        (second, zhou, ((1, 1), (3, 3), (2, 1))),
    ):
        for first_label, other_label in labels:
            label_next(batch_again, lin, first_label)
            label_next(batch_again, other, other_label)
    return second


def command(name: str, *arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(name, *arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_agreement_counts_a_response_once_with_the_latest_label_of_each_person(batch: Batch, second: Batch):
    answer = command("agreement", "--batch", "first", "second")
    (row,) = answer["rows"]
    assert (row["n"], row["raters"], row["disputed"]) == (3, 3, 1)  # lin says 3 of the second response now
    assert answer["coverage"] == {
        "items_by_labels": {"0": 10, "3": 3},
        "waiting_for_labels": 10,
        "waiting_for_decision": 2,
    }
    (single,) = command("agreement", "--batch", "first")["rows"]
    assert (single["n"], single["raters"], single["disputed"]) == (3, 2, 1)
    # Lists, as everywhere on the command line; and without names all batches, as one pool.
    assert command("agreement", "--batch", "second,first") == answer
    assert command("agreement") == answer
    assert command("agreement", "--by", "pair")["rows"][1]["n"] == 3


def test_two_batches_of_single_labels_make_pairs(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person
):
    for name, person in (("one", lin), ("two", chen)):
        single = make_batch(guideline, dataset, annotators=[person], name=name, policy=Policy(overlap=1))
        label_next(single, person, 1)
    batches = list(Batch.objects.order_by("name"))
    assert [LabelPatterns([batch]).list_counts()[0].n for batch in batches] == [0, 0]
    assert LabelPatterns(batches).list_counts()[0].n == 1


def test_quality_takes_each_response_once(batch: Batch, second: Batch, lin: Person, zhou: Person):
    answer = command("people_quality", "--batch", "first", "second")
    assert answer["tasks"] == 3
    assert {person["person"]: person["tasks"] for person in answer["people"]} == dict.fromkeys(
        ("chen", "lin", "zhou"), 3
    )
    partners = get_overview([batch, second]).rows[zhou.pk].partners
    assert (partners.n, partners.equal) == (6, 4)
    assert command("people_quality", "--batch", "first")["tasks"] == 3


def test_gold_that_two_batches_settled_otherwise_is_nobodys(
    batch: Batch, second: Batch, guideline: Guideline, wu: Person, he: Person
):
    decide_next(batch, wu, 1)  # the second batch has 3 of the same response, unanimously
    batches = [batch, second]
    units = read_units(batches)
    gold = read_gold(batches, units)
    assert sorted(np.nan_to_num(gold.value, nan=-1).tolist()) == [-1, 1, 2]
    assert gold.decided.tolist() == [False, False, False]
    spec = ReleaseSpec(name="both", batches=tuple(batch.pk for batch in batches))
    with pytest.raises(AssayError, match="settled in two ways"):
        cut_release(spec)
    GoldLabel.objects.filter(task__batch=batch, value=1, source="adjudicated").update(value=3)
    call_command("release_gold", "pool", "--batches", "first", "second", stdout=StringIO())
    assert GoldRelease.objects.get(name="pool").labels == 3


def test_other_versions_of_a_guideline_are_not_pooled(
    batch: Batch, dataset: Dataset, guideline: Guideline, lin: Person, chen: Person
):
    newer = Guideline.objects.get(pk=guideline.pk)
    newer.pk, newer.version, newer.sha256 = None, "2.0", "2" * 64
    newer.save()
    other = make_batch(newer, dataset, annotators=[lin, chen], name="newer")
    for each_batch in (batch, other):
        label_next(each_batch, lin, 1)
        label_next(each_batch, chen, 1)
    assert len(read_units([batch, other])) == 2


def test_the_page_pools_the_batches_that_its_address_names(
    client: Client, batch: Batch, second: Batch, he: Person
):
    client.force_login(he)
    page = client.get(reverse("agreement"), {"batch": ["first", "second"]})
    content = " ".join(page.content.decode().split())
    assert content.count('name="batch" value="first" checked') == 1
    assert content.count('name="batch" value="second" checked') == 1
    assert "3 tasks are of responses that another batch here has too" in content
    assert "batch=first&amp;batch=second" in content  # the tabs and tasks keep both
    single = client.get(reverse("agreement"), {"batch": "first"}).content.decode()
    assert "another batch here has too" not in single
    tasks = client.get(reverse("agreement-tasks"), {"batch": ["first", "second"]})
    content = " ".join(tasks.content.decode().split())
    assert "3 tasks with labels of two people or more" in content
    for person in ("lin", "chen", "zhou"):
        assert content.count(f"{person} <strong>") == 3
    assert content.count(">second</a>") == 3  # the way to the other task of each response


def test_one_sealed_batch_among_those_named_is_refused(client: Client, batch: Batch, he: Person, lin: Person):
    set_state(batch=batch, state=Batch.State.CLOSED)
    make_batch(batch.guideline, Dataset.objects.get(), annotators=[he, lin], name="own")
    client.force_login(he)
    for page in ("agreement", "agreement-tasks", "report"):
        assert client.get(reverse(page), {"batch": ["first", "own"]}).status_code == 403
    assert client.get(reverse("agreement"), {"batch": ["first", "nowhere"]}).status_code == 404


def test_the_page_of_quality_pools_the_batches_that_its_address_names(
    batch: Batch, second: Batch, client: Client, ma: Person, lin: Person
):
    client.force_login(ma)
    address = reverse("quality")
    page = client.get(address, {"batch": ["first", "second"], "sort": "items"})
    answer = command("people_quality", "--batch", "first", "second")
    lines = {line.person.username: line for line in page.context["rows"]}
    assert {name: line.tasks for name, line in lines.items() if line.row} == {
        person["person"]: person["tasks"] for person in answer["people"]
    }
    assert lines["lin"].tasks == 3  # of six that she handed in
    assert client.get(address, {"batch": "first"}).context["overview"].tasks == 3
    html = page.content.decode()
    assert 'value="second" checked' in html
    assert "?batch=first&amp;batch=second&amp;show=copying" in html
    assert "?batch=first&amp;batch=second&amp;sort=-items" in html
    assert client.get(address, {"batch": "nowhere"}).status_code == 404


def test_whoever_works_in_one_of_the_batches_cannot_pool_it(batch: Batch, second: Batch, client: Client):
    manager = add_person(name="both", roles=["annotator", "manager"])
    add_members(batch=second, role="annotator", people=[manager])
    client.force_login(manager)
    assert client.get(reverse("quality"), {"batch": ["first", "second"]}).status_code == 403
    assert "second" not in client.get(reverse("quality")).content.decode()
