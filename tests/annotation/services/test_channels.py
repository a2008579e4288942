"""Each label keeps the way by which it came."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from rest_framework.test import APIClient

from annotation.core.errors import Conflict
from annotation.domain.annotations import Submission
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    Person,
    Verdict,
)
from annotation.services.annotations.drafts import save_refused_draft
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.exports import Options, export_release
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.releases import cut_release
from tests.support import api_token, as_made_by_import, label_next

pytestmark = pytest.mark.django_db
WORK = {"labels": {"compliance": 3}}


def program(person: Person, *, by_token: bool) -> APIClient:
    client = APIClient()
    if by_token:
        client.credentials(HTTP_AUTHORIZATION=f"Token {api_token(person=person)}")
    else:
        client.force_login(person)
    return client


def post(client: APIClient, item: Assignment, call: str, body: Any = WORK) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    answer = client.post(f"/api/v1/assignments/{item.pk}/{call}/", body, headers=headers)
    assert answer.status_code in {200, 201}, answer.content


def visit(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def claimed(batch: Batch, person: Person) -> Assignment:
    item = claim_next_task(batch=batch, person=person)
    assert item is not None
    return item


def channels(model: Any) -> list[str]:
    return list(model.objects.order_by("created_at").values_list("channel", flat=True))


@pytest.mark.parametrize(("by_token", "channel"), [(True, "token"), (False, "page")])
def test_over_the_api_it_is_the_token_or_the_page_of_the_session(
    batch: Batch, lin: Person, by_token: bool, channel: str
) -> None:
    client, item = program(lin, by_token=by_token), claimed(batch, lin)
    post(client, item, "submit")
    post(client, item, "revise", {"labels": {"compliance": 2}})
    assert channels(Annotation) == [channel, channel]


def test_a_revision_on_the_page_leaves_the_channel_of_before(batch: Batch, lin: Person) -> None:
    item = claimed(batch, lin)
    post(program(lin, by_token=True), item, "submit")
    sent = {"label.compliance": "2", "key": "again"}
    assert visit(lin).post(f"/history/{item.pk}/revise/", sent).status_code == 302
    assert channels(Annotation) == ["token", "page"]


def test_on_the_pages_it_is_the_page(batch: Batch, lin: Person, chen: Person, wu: Person) -> None:
    for person, value in ((lin, "1"), (chen, "3")):
        item = claimed(batch, person)
        visit(person).post(f"/work/items/{item.pk}/submit/", {"label.compliance": value, "key": "k"})
    dispute = claim_next_dispute(batch=batch, person=wu)
    assert dispute is not None
    decision = {"label.compliance": "2", "key": "k", "reason": "reading_slip"}
    visit(wu).post(f"/disputes/items/{dispute.pk}/verdict/", decision)
    visit(wu).post(f"/disputes/items/{dispute.pk}/submit/", decision)
    assert [channels(model) for model in (Annotation, Verdict, Adjudication)] == [
        ["page"] * 2,
        ["page"],
        ["page"],
    ]


def test_a_verdict_and_a_decision_by_token_and_a_repeat_adjudication(
    batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    Batch.objects.filter(pk=batch.pk).update(second_reading_share=1, second_reading_days=0)
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    client = program(wu, by_token=True)
    for _time in range(2):
        dispute = claim_next_dispute(batch=batch, person=wu)
        assert dispute is not None
        post(client, dispute, "verdict")
        post(client, dispute, "adjudicate", {**WORK, "reason": "reading_slip"})
    assert (channels(Verdict), channels(Adjudication)) == (["token"] * 2, ["token"] * 2)
    assert Adjudication.objects.filter(task__kind="repeat").count() == 1


def test_a_draft_that_is_sent_again_comes_by_the_page(batch: Batch, lin: Person) -> None:
    item = claimed(batch, lin)
    save_refused_draft(
        item.pk, Submission({"compliance": 3}, channel="token"), Conflict("Somebody else has it.")
    )
    assert visit(lin).post(f"/history/{item.pk}/retry/").status_code == 302
    assert channels(Annotation) == ["page"]


def test_a_retry_by_another_way_is_the_same_submission(batch: Batch, lin: Person) -> None:
    item = claimed(batch, lin)
    for by_token, status in ((True, 201), (False, 200)):
        answer = program(lin, by_token=by_token).post(
            f"/api/v1/assignments/{item.pk}/submit/", WORK, headers={"Idempotency-Key": "k"}
        )
        assert answer.status_code == status
    assert channels(Annotation) == ["token"]


def test_what_was_imported_says_so(batch: Batch, tmp_path: Path) -> None:
    line = {"prompt_id": "p0", "model": "Hidden-13B"}
    rows = [
        {**line, "annotator": "lin", "labels": {"compliance": 1}},
        {**line, "annotator": "chen", "labels": {"compliance": 3}},
        {**line, "adjudicator": "wu", "labels": {"compliance": 2}, "rationale": "so"},
    ]
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    as_made_by_import(batch)
    import_annotations(source=Source(file), format="jsonl", request=ImportRequest(batch=batch.name))
    assert (channels(Annotation), channels(Adjudication)) == (["import"] * 2, ["import"])


def test_a_manager_reads_it_on_the_page_of_the_task(
    batch: Batch, lin: Person, chen: Person, ma: Person
) -> None:
    item = claimed(batch, lin)
    post(program(lin, by_token=True), item, "submit")
    label_next(batch, chen, 3)  # of before: nothing is recorded
    set_state(batch=batch, state="closed")
    page = visit(ma).get(f"/tasks/{item.task_id}/").content.decode()
    assert "Came by" in page
    assert len(re.findall(r"<td>\s*token\s*</td>", page)) == 1
    assert 'title="not recorded"' in page


def test_raw_labels_tell_it(batch: Batch, lin: Person, chen: Person, tmp_path: Path) -> None:
    item = claimed(batch, lin)
    post(program(lin, by_token=True), item, "submit")
    label_next(batch, chen, 3)
    release = cut_release(ReleaseSpec(name="r1", batches=[batch]))
    options = Options(table="jsonl")
    export = export_release(release=release, format_name="labels", folder=tmp_path / "out", options=options)
    rows = [json.loads(line) for line in export.path.read_text().splitlines()]
    assert [row["channel"] for row in rows] == ["token", ""]


def test_the_hash_of_a_release_does_not_tell_the_channel(batch: Batch, lin: Person, chen: Person) -> None:
    label_next(batch, lin, 3)
    label_next(batch, chen, 3)
    first = cut_release(ReleaseSpec(name="r1", batches=[batch]))
    Annotation.objects.update(channel="import")
    assert cut_release(ReleaseSpec(name="r2", batches=[batch])).sha256 == first.sha256
