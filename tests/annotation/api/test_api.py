from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import yaml
from django.core.management import call_command
from django.utils import timezone
from rest_framework.test import APIClient

from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    CorrectionRequest,
    Draft,
    Person,
    Task,
)
from annotation.services.batches.batches import set_state
from tests.support import api_token, label_next
from tests.test_everyone_everywhere import MAY

pytestmark = pytest.mark.django_db
WORK = {"labels": {"compliance": 3}, "rationale": "It answers.", "seconds": 12.5}


def client_of(person: Person) -> APIClient:
    client = APIClient(raise_request_exception=True)
    client.credentials(HTTP_AUTHORIZATION=f"Token {api_token(person=person)}")
    return client


def claim(client: APIClient, batch: Batch, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/api/v1/batches/{batch.name}/next/", body)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def send(client: APIClient, assignment: Any, body: Any, *, action: str = "submit", key: str = "k1") -> Any:
    headers = {"Idempotency-Key": key}
    return client.post(f"/api/v1/assignments/{assignment}/{action}/", body, headers=headers)


def dispute_of(batch: Batch, first: Person, second: Person) -> Task:
    label_next(batch, first, 1)
    label_next(batch, second, 3)
    return batch.tasks.get(state=Task.State.DISPUTED)


def test_next_hands_out_exactly_what_the_design_says(batch: Batch, lin: Person):
    item = claim(client_of(lin), batch)
    assert set(item) == {"assignment", "lease_expires", "prompt", "turns", "entries", "criteria"}
    assert item["prompt"] == "Question number 0?"
    assert item["turns"] == [{"role": "assistant", "text": "Answer 0 to question 0."}]
    (criterion,) = item["criteria"]
    assert criterion["name"] == "compliance"
    assert criterion["values"] == [1, 2, 3]
    assert set(criterion["question"]) == {"en", "zh"}
    assert [level["value"] for level in criterion["scale"]] == [1, 2, 3]
    assert set(criterion["scale"][0]["definition"]) == {"en", "zh"}


def test_next_is_the_same_item_until_it_is_done_and_ahead_gives_one_more(batch: Batch, lin: Person):
    client = client_of(lin)
    first = claim(client, batch)["assignment"]
    second = claim(client, batch, ahead=True)["assignment"]
    assert second != first
    assert claim(client, batch, ahead=True)["assignment"] == second
    assert claim(client, batch)["assignment"] == first
    assert Assignment.objects.count() == 2


def test_next_is_204_without_a_body_when_nothing_is_left(batch: Batch, lin: Person):
    Task.objects.update(state=Task.State.WITHDRAWN)
    answer = client_of(lin).post(f"/api/v1/batches/{batch.name}/next/")
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_batch_of_others_does_not_exist_and_a_paused_one_is_refused(
    batch: Batch, lin: Person, stranger: Person
):
    url = f"/api/v1/batches/{batch.name}/next/"
    refused = client_of(stranger).post(url)
    unknown = client_of(stranger).post("/api/v1/batches/nobody-knows/next/")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
    assert refused.json() == json.loads(unknown.content.replace(b"nobody-knows", batch.name.encode()))
    set_state(batch=batch, state="paused")
    assert client_of(lin).post(url).status_code == 403


def test_submitting_answers_201_then_200_with_the_same_receipt(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    first, second = send(client, item, WORK), send(client, item, {**WORK, "seconds": 99})
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert set(first.json()) == {"receipt", "assignment", "revision", "at", "feedback"}
    stored = Annotation.objects.get()
    assert str(stored.receipt) == first.json()["receipt"]
    assert (stored.labels, stored.rationale, stored.seconds) == ({"compliance": 3}, "It answers.", 12.5)


def test_the_same_key_with_another_body_is_422(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    send(client, item, WORK)
    answer = send(client, item, {**WORK, "labels": {"compliance": 1}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unprocessable")
    assert Annotation.objects.get().labels == {"compliance": 3}


def test_another_key_on_a_submitted_item_is_409_with_the_receipt(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    receipt = send(client, item, WORK).json()["receipt"]
    answer = send(client, item, WORK, key="k2")
    assert answer.status_code == 409
    assert answer.json()["error"]["receipt"] == receipt
    assert answer.json()["error"]["code"] == "already_submitted"
    assert Annotation.objects.count() == 1


@pytest.mark.parametrize("action", ["submit", "revise", "verdict", "adjudicate", "skip", "release", "extend"])
def test_what_is_not_yours_does_not_exist(batch: Batch, lin: Person, chen: Person, action: str):
    item = claim(client_of(lin), batch)["assignment"]
    body = {"reason": "no"} if action == "skip" else {} if action in ("release", "extend") else WORK
    body = {key: value for key, value in body.items() if key != "reason" or action == "skip"}
    body |= {"reason": "reading_slip"} if action == "adjudicate" else {}
    others_answer = send(client_of(chen), item, body, action=action)
    nobodys = send(client_of(chen), uuid4(), body, action=action)
    assert others_answer.status_code == nobodys.status_code == 404
    assert others_answer.json() == nobodys.json()
    assert Assignment.objects.get().state == "claimed"


def test_revising_an_open_item_is_a_new_revision(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    send(client, item, WORK)
    better = {"labels": {"compliance": 2}, "reason": "I had overlooked the refusal."}
    answer = send(client, item, better, action="revise", key="k2")
    assert (answer.status_code, answer.json()["revision"]) == (201, 2)
    assert send(client, item, better, action="revise", key="k2").status_code == 200
    assert [a.labels["compliance"] for a in Annotation.objects.order_by("revision")] == [3, 2]


def test_revising_a_closed_item_is_202_worded_the_same_whether_agreed_or_disputed(
    batch: Batch, lin: Person, chen: Person
):
    client = client_of(lin)
    agreed = claim(client, batch)["assignment"]
    send(client, agreed, WORK)
    label_next(batch, chen, 3)
    disputed = claim(client, batch)["assignment"]
    send(client, disputed, WORK)
    label_next(batch, chen, 1)
    assert [Assignment.objects.get(pk=item).task.state for item in (agreed, disputed)] == [
        "agreed",
        "disputed",
    ]
    better = {"labels": {"compliance": 2}, "reason": "a second look"}
    answers = [send(client, item, better, action="revise", key="k2") for item in (agreed, disputed)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].content == answers[1].content
    for answer in answers:
        del answer.headers["X-Request-ID"]
    assert answers[0].headers == answers[1].headers
    send(client, agreed, better, action="revise", key="k2")
    assert CorrectionRequest.objects.count() == 2
    assert Annotation.objects.filter(current=True, labels={"compliance": 2}).count() == 0


def test_skipping_needs_a_reason_and_gives_the_item_away_for_good(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    assert send(client, item, {"reason": " "}, action="skip").status_code == 400
    answer = send(client, item, {"reason": "I know the author"}, action="skip")
    assert answer.json() == {"assignment": item, "state": "released", "lease_expires": None}
    assert claim(client, batch)["assignment"] != item
    late = send(client, item, WORK)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "too_late")
    assert late.json()["error"]["draft"] is True
    assert Draft.objects.get().labels == WORK["labels"]


def test_a_released_item_comes_again_when_all_others_are_done(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    assert send(client, item, {}, action="release").json()["state"] == "released"
    assert send(client, item, {}, action="extend").status_code == 409
    for _other in range(7):
        other = claim(client, batch)["assignment"]
        assert other != item
        send(client, other, WORK)
    assert claim(client, batch)["assignment"] == item


def test_extending_starts_the_lease_anew(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    soon = timezone.now() + timedelta(seconds=5)
    Assignment.objects.update(lease_expires=soon)
    answer = send(client, item, {}, action="extend")
    assert answer.json()["state"] == "claimed"
    assert Assignment.objects.get().lease_expires > soon + timedelta(minutes=20)


def test_an_adjudicator_sees_sides_and_may_decide_a_third_value(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    task = dispute_of(batch, lin, chen)
    client = client_of(wu)
    answer = client.post(f"/api/v1/batches/{batch.name}/next-dispute/")
    item = answer.json()
    fields = {
        "assignment",
        "lease_expires",
        "prompt",
        "turns",
        "entries",
        "criteria",
        "verdict",
        "sides",
        "reasons",
    }
    assert set(item) == fields
    assert (item["verdict"], item["sides"]) == (None, None)
    assert item["reasons"][0] == {"key": "reading_slip", "words": "Reading slip"}
    decision = {"labels": {"compliance": 2}, "rationale": "It does both.", "reason": "guideline_unclear"}
    early = send(client, item["assignment"], decision, action="adjudicate")
    assert (early.status_code, "verdict first" in early.json()["error"]["message"]) == (409, True)
    verdict = {"labels": {"compliance": 3}, "rationale": "It answers.", "seconds": 3}
    for _retry in range(2):
        seen = send(client, item["assignment"], verdict, action="verdict")
        assert seen.status_code == 200
    assert (
        send(
            client, item["assignment"], {**verdict, "labels": {"compliance": 1}}, action="verdict"
        ).status_code
        == 409
    )
    item = seen.json()
    assert item["verdict"] == {"labels": {"compliance": 3}, "rationale": "It answers."}
    assert [side["letter"] for side in item["sides"]] == ["A", "B"]
    assert {side["labels"]["compliance"] for side in item["sides"]} == {1, 3}
    second = client.post(f"/api/v1/batches/{batch.name}/next-dispute/").json()
    assert {**second, "lease_expires": None} == {**item, "lease_expires": None}
    for name in (b'"lin"', b'"chen"', b"Secretive", b"Hidden"):
        assert name not in answer.content + seen.content
    unknown = send(client, item["assignment"], {**decision, "reason": "whim"}, action="adjudicate")
    assert (unknown.status_code, "reading_slip" in unknown.json()["error"]["message"]) == (422, True)
    decided = send(client, item["assignment"], decision, action="adjudicate")
    assert decided.status_code == 201
    second = send(client, item["assignment"], decision, action="adjudicate")
    assert (second.status_code, second.json()) == (200, decided.json())
    other = send(client, item["assignment"], decision, action="adjudicate", key="k2")
    assert other.json()["error"]["receipt"] == decided.json()["receipt"]
    assert Adjudication.objects.get().labels == {"compliance": 2}
    task.refresh_from_db()
    assert task.state == "adjudicated"
    assert client.post(f"/api/v1/batches/{batch.name}/next-dispute/").status_code == 204


def test_an_annotator_gets_no_dispute_and_an_adjudicator_no_item(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    dispute_of(batch, lin, chen)
    assert client_of(lin).post(f"/api/v1/batches/{batch.name}/next-dispute/").status_code == 404
    assert client_of(wu).post(f"/api/v1/batches/{batch.name}/next/").status_code == 404


def test_my_batches_count_my_own_work_only(batch: Batch, lin: Person, chen: Person, stranger: Person):
    label_next(batch, chen, 3)
    label_next(batch, lin, 3)
    # Eight tasks: lin finished one, seven are left to take.
    own_batch = {"name": "first", "role": "annotator", "done": 1, "left": 7, "due": None, "round": ""}
    assert client_of(lin).get("/api/v1/batches/").json() == [own_batch]
    assert client_of(stranger).get("/api/v1/batches/").json() == []


BAD_WORK = {
    "no labels": {"rationale": "none"},
    "labels as a list": {"labels": [3]},
    "labels as text": {"labels": "compliance"},
    "a label as an object": {"labels": {"compliance": {"3": 1}}},
    "a label true": {"labels": {"compliance": True}},
    "a label null": {"labels": {"compliance": None}},
    "a label too large for a float": {"labels": {"compliance": 10**400}},
    "a criterion with a NUL": {"labels": {"compli\0ance": 3}},
    "a criterion with half a character": {"labels": {"\ud800": 3}},
    "an unknown field": {**WORK, "lables": {}},
    "an unknown field with half a character": {**WORK, "\ud800": 1},
    "negative seconds": {**WORK, "seconds": -1},
    "seconds as text": {**WORK, "seconds": "12"},
    "an unknown flag": {**WORK, "flags": ["boring"]},
    "a flag that is a list": {**WORK, "flags": [[]]},
    "flags as text": {**WORK, "flags": "unsure"},
    "evidence as a number": {**WORK, "evidence": 7},
    "evidence that ends before it starts": {**WORK, "evidence": [{"turn": 0, "start": 5, "end": 2}]},
    "evidence with another field": {**WORK, "evidence": [{"turn": 0, "start": 0, "end": 2, "x": 1}]},
    "a rationale that is a list": {**WORK, "rationale": ["a"]},
    "a rationale with a NUL": {**WORK, "rationale": "a\0"},
    "a rationale with half a character": {**WORK, "rationale": "\udc00"},
    "a rationale without end": {**WORK, "rationale": "a" * 20_001},
    "a list": [WORK],
    "a text": "WORK",
    "a number": 3,
    "null": None,
}


@pytest.mark.parametrize("body", BAD_WORK.values(), ids=BAD_WORK.keys())
@pytest.mark.parametrize("action", ["submit", "revise", "adjudicate"])
def test_content_of_the_wrong_type_is_400_in_one_shape(batch: Batch, lin: Person, body: Any, action: str):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    answer = client.post(
        f"/api/v1/assignments/{item}/{action}/",
        json.dumps(body),
        content_type="application/json",
        headers={"Idempotency-Key": "k1"},
    )
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"]
    assert error["message"]
    assert not Annotation.objects.exists()


BAD_BYTES = {
    "not JSON": (b"{labels", 400),
    "half a character": (rb'{"labels": {"compliance": 3}, "flags": ["\ud800"]}', 400),
    "a NUL": (rb'{"labels": {"compliance": 3}, "rationale": "a\u0000b"}', 400),
    "not UTF-8": (b'{"labels": "\xff"}', 400),
    "NaN": (b'{"labels": {"compliance": NaN}}', 400),
    "Infinity": (b'{"labels": {"compliance": 3}, "seconds": Infinity}', 400),
    "endless nesting": (b"[" * 200_000, 400),
    "more than a megabyte": (b'{"rationale": "' + b"a" * 1024 * 1024 + b'"}', 413),
    "a number of many digits": (b'{"seconds": ' + b"9" * 5000 + b"}", 400),
}


def test_the_six_characters_of_an_escape_are_text_like_any_other(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    text = r"It prints \u0000."
    assert send(client, item, WORK | {"rationale": text}).status_code == 201
    assert Annotation.objects.get().rationale == text


@pytest.mark.parametrize(("body", "status"), BAD_BYTES.values(), ids=BAD_BYTES.keys())
def test_bytes_that_are_no_json_are_refused_and_never_break(
    batch: Batch, lin: Person, body: bytes, status: int
):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    for path in (f"assignments/{item}/submit/", f"batches/{batch.name}/next/", f"assignments/{item}/skip/"):
        answer = client.post(f"/api/v1/{path}", body, content_type="application/json")
        assert answer.status_code == status, path
        assert set(answer.json()["error"]) >= {"code", "message"}


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "application/xml"])
def test_another_content_type_is_415(batch: Batch, lin: Person, kind: str):
    answer = client_of(lin).post(f"/api/v1/batches/{batch.name}/next/", "ahead=true", content_type=kind)
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("labels", [{"compliance": 4}, {"compliance": 2.5}, {"safety": 3}, {}])
def test_labels_off_the_guideline_are_422_and_store_nothing(
    batch: Batch, lin: Person, labels: dict[str, Any]
):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    answer = send(client, item, {"labels": labels})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unprocessable")
    assert not Annotation.objects.exists()


@pytest.mark.parametrize("key", ["", "k" * 201, "tab\there"])
def test_a_key_that_cannot_be_kept_is_refused(batch: Batch, lin: Person, key: str):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    assert send(client, item, WORK, key=key).status_code == 400
    assert not Annotation.objects.exists()


def test_nobody_signed_in_is_401_in_the_same_shape(batch: Batch, client: Any):
    answer = client.post(f"/api/v1/batches/{batch.name}/next/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_authenticated")
    wrong = client.get("/api/v1/batches/", headers={"Authorization": "Token nonsense"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "authentication_failed")


def test_a_session_works_too_and_needs_the_csrf_token(batch: Batch, lin: Person):
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(lin)
    assert client.get("/api/v1/batches/").status_code == 200
    assert client.post(f"/api/v1/batches/{batch.name}/next/").status_code == 403
    client.get("/sign-in/")
    client.cookies["csrftoken"] = "a" * 32
    headers = {"X-CSRFToken": "a" * 32}
    assert client.post(f"/api/v1/batches/{batch.name}/next/", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["", "nowhere/", "batches", "assignments/7/submit/", "batches/a/b/c/"])
def test_an_unknown_address_is_404_in_the_same_shape(lin: Person, client: Any, path: str):
    for visitor in (client_of(lin), client):
        for answer in (visitor.get(f"/api/v1/{path}"), visitor.post(f"/api/v1/{path}")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_a_wrong_method_is_405_in_the_same_shape(batch: Batch, lin: Person):
    answer = client_of(lin).get(f"/api/v1/batches/{batch.name}/next/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")


def test_messages_come_in_the_language_that_was_asked_for(lin: Person):
    answer = client_of(lin).post("/api/v1/batches/none/next/", headers={"Accept-Language": "zh-hans"})
    assert answer.headers["Content-Language"] == "zh-hans"


def test_what_was_submitted_and_revised_is_its_own_trace(batch: Batch, lin: Person):
    client = client_of(lin)
    item = claim(client, batch)["assignment"]
    receipt = send(client, item, WORK).json()["receipt"]
    better = {"labels": {"compliance": 2}, "reason": "I had overlooked the refusal."}
    second = send(client, item, better, action="revise", key="k2").json()["receipt"]
    rows = Annotation.objects.order_by("revision").values_list(
        "receipt", "assignment", "assignment__person", "labels", "reason"
    )
    assert [(str(receipt), str(assignment), *rest) for receipt, assignment, *rest in rows] == [
        (receipt, item, lin.pk, {"compliance": 3}, ""),
        (second, item, lin.pk, {"compliance": 2}, "I had overlooked the refusal."),
    ]
    assert not AuditEvent.objects.filter(target=f"assignment:{item}").exists()


def test_the_schema_is_made_without_a_warning_and_names_every_call(tmp_path: Any):
    file = tmp_path / "schema.yml"
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(file))
    schema = yaml.safe_load(file.read_text())
    assert set(schema["paths"]["/api/v1/assignments/{assignment_id}/submit/"]["post"]["responses"]) == {
        "200",
        "201",
        "400",
        "401",
        "403",
        "404",
        "409",
        "422",
    }
    managing = {path for path in schema["paths"] if path.startswith("/api/v1/manage/")}
    assert len(managing) == sum(name.startswith("api-manage-") for name in MAY)
    assert set(schema["paths"]) - managing == {
        "/api/v1/batches/",
        "/api/v1/batches/{name}/guideline/",
        "/api/v1/batches/{name}/next/",
        "/api/v1/batches/{name}/next-dispute/",
        *(
            f"/api/v1/assignments/{{assignment_id}}/{action}/"
            for action in ("submit", "revise", "verdict", "adjudicate", "skip", "release", "extend")
        ),
        "/api/v1/predictions/",
        "/api/v1/predictions/{request_id}/",
    }
    body = schema["components"]["schemas"]["WorkRequest"]
    assert body["required"] == ["labels"]
    assert set(body["properties"]) == {"labels", "rationale", "evidence", "flags", "seconds"}
