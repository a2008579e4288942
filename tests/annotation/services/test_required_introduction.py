"""A batch that requires the introduction takes nothing of somebody who has not read it, whatever they send it by."""

from __future__ import annotations

from uuid import uuid4

import pytest

from annotation.core.errors import Conflict
from annotation.domain.annotations import Submission
from annotation.models import Annotation, Batch, IntroductionReading, Person
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from tests.annotation.api.test_api import client_of, send
from tests.annotation.views.test_work_pages import text, visit

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def demanding(batch: Batch) -> Batch:
    IntroductionReading.objects.all().delete()
    Batch.objects.update(introduction_required=True)
    batch.refresh_from_db()
    return batch


def test_the_service_refuses_until_it_was_read(demanding: Batch, lin: Person) -> None:
    claim = claim_next_task(batch=demanding, person=lin)
    assert claim is not None
    work = Submission(labels={"compliance": 3})
    with pytest.raises(Conflict, match=r"Read the introduction of xstest@1\.0 first: first requires it"):
        submit(assignment_id=claim.pk, person=lin, key=str(uuid4()), work=work)
    assert not Annotation.objects.exists()
    visit(lin).post(f"/work/{demanding.name}/introduction/")
    submit(assignment_id=claim.pk, person=lin, key=str(uuid4()), work=work)
    assert Annotation.objects.count() == 1


def test_a_batch_that_does_not_require_it_takes_labels(batch: Batch, lin: Person) -> None:
    IntroductionReading.objects.all().delete()
    claim = claim_next_task(batch=batch, person=lin)
    assert claim is not None
    submit(assignment_id=claim.pk, person=lin, key="k", work=Submission(labels={"compliance": 3}))
    assert Annotation.objects.count() == 1


def test_a_program_says_that_it_was_read(demanding: Batch, lin: Person) -> None:
    client = client_of(lin)
    item = client.post(f"/api/v1/batches/{demanding.name}/next/", {}, format="json").json()
    body = {"labels": {"compliance": 3}}
    refused = send(client, item["assignment"], body)
    assert refused.status_code == 409
    assert "Read the introduction" in str(refused.json())
    assert client.post(f"/api/v1/batches/{demanding.name}/guideline/").status_code == 204
    assert send(client, item["assignment"], body).status_code == 201


def test_an_adjudicator_reads_it_too(demanding: Batch, wu: Person) -> None:
    page = text(visit(wu).get(f"/disputes/{demanding.name}/"))
    assert "Introduction" in page
