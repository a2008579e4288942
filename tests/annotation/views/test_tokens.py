"""API tokens: who makes them, how far they reach, when they end, what is told of them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from rest_framework.test import APIClient

from annotation.api.scopes import InScope
from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.models import ApiToken, AuditEvent, Batch, Person
from annotation.services.people.people import set_password
from annotation.services.people.tokens import MAX_TOKENS, make_token, revoke_token
from config.operations.logs import SecretsFilter
from tests.annotation.services.test_races import at_once
from tests.support import add_role, api_token

pytestmark = pytest.mark.django_db
SENT = {"name": "notebook", "scope": "work", "days": "30"}


def visit(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def program(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client


def shown_in(page: str) -> str:
    (token,) = set(re.findall(r"assay_[0-9a-f]{64}", page))
    return str(token)


def test_a_token_is_shown_once_and_known_by_its_prefix(lin: Person) -> None:
    client = visit(lin)
    answer = client.post("/account/token/", SENT)
    token = shown_in(answer.content.decode())
    assert "no-store" in answer["Cache-Control"]
    page = client.get("/account/").content.decode()
    assert token not in page
    assert "notebook" in page
    stored = ApiToken.objects.get()
    assert (stored.person, stored.scope, len(stored.sha256)) == (lin, "work", 64)
    assert stored.expires_at is not None
    assert timedelta(days=29) < stored.expires_at - timezone.now() <= timedelta(days=30)
    event = AuditEvent.objects.get(verb="make_token")
    assert (event.actor, event.target, event.data["scope"]) == (lin, "person:lin", "work")
    assert token not in json.dumps(event.data)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": " "},
        {"name": "x" * 101},
        {"scope": "king"},
        {"scope": ""},
        {"days": "0"},
        {"days": "x"},
    ],
)
def test_what_makes_no_token_is_refused_beside_its_field(lin: Person, wrong: dict[str, str]) -> None:
    answer = visit(lin).post("/account/token/", SENT | wrong)
    assert answer.status_code == 422
    assert "errorlist" in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_a_name_stands_for_one_token_and_there_are_not_endlessly_many(lin: Person) -> None:
    client = visit(lin)
    client.post("/account/token/", SENT)
    assert client.post("/account/token/", SENT).status_code == 422
    client.post(f"/account/token/{ApiToken.objects.get().pk}/revoke/")
    assert client.post("/account/token/", SENT).status_code == 200  # the name is free again
    for _number in range(MAX_TOKENS - 1):
        api_token(person=lin)
    with pytest.raises(Conflict):
        api_token(person=lin)


def test_only_its_owner_makes_a_token(lin: Person, ma: Person) -> None:
    for actor in (ma, Person.objects.create_superuser("root")):
        with pytest.raises(Forbidden):
            make_token(person=lin, name="theirs", scope="work", days=1, actor=actor)


def test_a_manager_sees_that_there_is_one_and_ends_it(lin: Person, ma: Person) -> None:
    token = shown_in(visit(lin).post("/account/token/", SENT).content.decode())
    manager, stored = visit(ma), ApiToken.objects.get()
    page = manager.get("/people/lin/").content.decode()
    assert "notebook" in page
    assert token not in page
    path = f"/people/lin/token/{stored.pk}/revoke/"
    assert path in page
    assert manager.post(path).status_code == 302
    assert program(token).get("/api/v1/batches/").status_code == 401
    assert "revoked" in visit(lin).get("/account/").content.decode()
    assert manager.post(path).status_code == 302  # twice changes nothing
    assert AuditEvent.objects.filter(verb="revoke_token", actor=ma).count() == 1


def test_nobody_ends_the_token_of_somebody_else_by_another_name(
    lin: Person, chen: Person, ma: Person
) -> None:
    api_token(person=lin)
    pk = ApiToken.objects.get().pk
    assert visit(chen).post(f"/account/token/{pk}/revoke/").status_code == 404
    assert visit(ma).post(f"/people/chen/token/{pk}/revoke/").status_code == 404
    assert visit(chen).post(f"/people/lin/token/{pk}/revoke/").status_code == 403
    assert ApiToken.objects.get().ended_at is None


def test_a_manager_ends_no_token_of_an_admin(ma: Person) -> None:
    admin = Person.objects.create_superuser("root")
    api_token(person=admin)
    with pytest.raises(Forbidden):
        revoke_token(token_id=ApiToken.objects.get().pk, person=admin, actor=ma)


# How far they reach.


def reach(scope: str, person: Person, batch: Batch) -> dict[str, int]:
    client = program(api_token(person=person, scope=scope))
    predictions = {"scorer": "none", "items": [{"prompt": "Is it?", "response": "It is."}]}
    return {
        "batches": client.get("/api/v1/batches/").status_code,
        "next": client.post(f"/api/v1/batches/{batch.name}/next/").status_code,
        "ask": client.post("/api/v1/predictions/", predictions).status_code,
        "read": client.get("/api/v1/predictions/1/").status_code,
        "schema": client.get("/api/v1/schema/").status_code,
    }


def test_a_scope_narrows_what_the_owner_may_do(batch: Batch, lin: Person) -> None:
    add_role(lin, "researcher")
    assert reach("work", lin, batch) == {"batches": 200, "next": 200, "ask": 403, "read": 403, "schema": 200}
    assert reach("read", lin, batch) == {"batches": 200, "next": 403, "ask": 403, "read": 404, "schema": 200}
    assert reach("manage", lin, batch) == {
        "batches": 200,
        "next": 200,
        "ask": 404,
        "read": 404,
        "schema": 200,
    }


def test_a_scope_gives_nothing_that_the_owner_has_not(batch: Batch, stranger: Person) -> None:
    assert reach("manage", stranger, batch) == {
        "batches": 200,
        "next": 404,
        "ask": 403,
        "read": 403,
        "schema": 200,
    }


@pytest.mark.parametrize("call", ["submit", "revise", "verdict", "adjudicate", "skip", "release", "extend"])
def test_a_token_that_reads_writes_nothing(batch: Batch, lin: Person, call: str) -> None:
    client = program(api_token(person=lin, scope="read"))
    answer = client.post(f"/api/v1/assignments/{uuid4()}/{call}/", {}, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == "The scope of this token does not reach this call."


def api_views(resolver: URLResolver | None = None, below: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in (resolver or get_resolver()).url_patterns:
        path = f"{below}{pattern.pattern}"
        if isinstance(pattern, URLResolver):
            yield from api_views(pattern, path)
        elif isinstance(pattern, URLPattern) and hasattr(pattern.callback, "cls"):
            yield path, pattern.callback.cls


def test_every_call_asks_for_the_scope() -> None:
    """But for the description of the API, which every token may read (its page wants a session), and for the addresses
    where there is nothing.
    """
    free = {path for path, view in api_views() if InScope not in view.permission_classes}
    assert free == {"api/v1/schema/", "api/v1/docs/", "api/v1/"}
    assert len(dict(api_views())) > 10


def test_the_description_says_the_scopes_of_each_call(lin: Person) -> None:
    client = program(api_token(person=lin))
    schema = client.get("/api/v1/schema/?format=json").json()
    next_call = schema["paths"]["/api/v1/batches/{name}/next/"]["post"]
    assert next_call["description"].endswith("Scopes of tokens: `work`, `manage`.")
    batches = schema["paths"]["/api/v1/batches/"]["get"]
    assert batches["description"].endswith("Scopes of tokens: `work`, `read`, `manage`.")
    scheme = schema["components"]["securitySchemes"]["tokenAuth"]
    assert "`work`: the calls of the annotation loop" in scheme["description"]


# When they end, and when they were used.


def test_a_token_ends_when_it_expires(lin: Person) -> None:
    client = program(api_token(person=lin))
    assert client.get("/api/v1/batches/").status_code == 200
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert client.get("/api/v1/batches/").status_code == 401
    assert "expired" in visit(lin).get("/account/").content.decode()


def test_every_failure_has_one_answer(lin: Person) -> None:
    expired, revoked, inactive = (api_token(person=lin) for _ in range(3))
    first, second, _third = ApiToken.objects.order_by("pk")
    ApiToken.objects.filter(pk=first.pk).update(expires_at=timezone.now())
    revoke_token(token_id=second.pk, person=lin, actor=lin)
    Person.objects.filter(pk=lin.pk).update(is_active=False)
    tokens = [expired, revoked, inactive, "assay_" + "0" * 64, "nonsense"]
    answers = [program(token).get("/api/v1/batches/") for token in tokens]
    assert {(answer.status_code, answer.content) for answer in answers} == {(401, answers[0].content)}


def test_the_last_use_is_written_at_most_once_a_minute(lin: Person) -> None:
    client = program(api_token(person=lin))

    def call() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/api/v1/batches/").status_code == 200
        return len([query for query in queries if query["sql"].startswith('UPDATE "annotation_apitoken"')])

    assert [call() for _ in range(3)] == [1, 0, 0]
    used = ApiToken.objects.get().last_used_at
    assert used is not None
    ApiToken.objects.update(last_used_at=used - timedelta(seconds=61))
    assert call() == 1
    assert 'muted">never' not in visit(lin).get("/account/").content.decode()


def test_a_call_of_the_loop_costs_no_statement_more_than_with_plain_tokens(batch: Batch, lin: Person) -> None:
    """Who speaks is asked in one statement, as when the table held the tokens; roles ride on those of the loop."""
    client = program(api_token(person=lin))

    def costs(path: str, body: dict[str, Any]) -> tuple[Any, int]:
        with CaptureQueriesContext(connection) as queries:
            answer = client.post(path, body, headers={"Idempotency-Key": uuid4().hex})
        aside = ("BEGIN", "SAVEPOINT", "RELEASE")
        return answer.json(), len([query for query in queries if not query["sql"].startswith(aside)])

    counts = []
    for _number in range(4):
        item, claiming = costs("/api/v1/batches/first/next/", {})
        path = f"/api/v1/assignments/{item['assignment']}/submit/"
        _receipt, submitting = costs(path, {"labels": {"compliance": 3}})
        counts.append((claiming, submitting))
    assert set(counts[1:]) == {(10, 8)}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_no_token_is_made_past_a_password_that_changes(lin: Person) -> None:
    """Whichever was first, as the trail tells it: a token of before has ended, one of after works."""
    for _round in range(5):
        make = partial(make_token, person=lin, name=uuid4().hex, scope="work", days=1, actor=lin)
        change = partial(set_password, person=Person.objects.get(pk=lin.pk), password=uuid4().hex)
        (token, _text), _none = at_once([make, change])
        token.refresh_from_db()
        made, changed = (
            AuditEvent.objects.filter(verb=verb).latest("pk").pk for verb in ("make_token", "set_password")
        )
        assert (token.ended_at is None) == (made > changed)


# What is told of them.


def test_no_log_line_shows_a_token(lin: Person) -> None:
    token, old = api_token(person=lin), "0123456789abcdef" * 2 + "01234567"
    for words in (f"Authorization: Token {token}", f"said {token}!", f"Authorization: Token {old}"):
        record = logging.makeLogRecord({"msg": "%s", "args": (words,)})
        assert SecretsFilter().filter(record)
        assert token not in record.getMessage()
        assert old not in record.getMessage()
        assert "***" in record.getMessage()
    plain = logging.makeLogRecord({"msg": "assay_access is the database, %s", "args": ("Token of thanks",)})
    assert SecretsFilter().filter(plain)
    assert plain.getMessage() == "assay_access is the database, Token of thanks"


# The operator's shell.


def command(*arguments: str, stdin: str = "", monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    out = StringIO()
    monkeypatch.setattr("sys.stdin", StringIO(stdin))
    call_command("add_person", *arguments, "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


def test_the_shell_makes_a_token_and_reads_a_password(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["gao", "--groups", "annotator", "--token", "--password"]
    made = command(*arguments, stdin="glacier-lantern-42\n", monkeypatch=monkeypatch)
    assert Client().login(username="gao", password="glacier-lantern-42")
    assert program(made["token"]).get("/api/v1/batches/").status_code == 200
    assert ApiToken.objects.get().scope == "work"
    assert AuditEvent.objects.get(verb="add_person").data["password"] is True
    event = AuditEvent.objects.get(verb="make_token")
    assert (event.actor, event.target) == (None, "person:gao")


def test_the_shell_refuses_a_bad_password_and_makes_nobody(
    db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for bad in ("", "gao", "12345678"):
        with pytest.raises(SystemExit):
            command("gao", "--password", stdin=f"{bad}\n", monkeypatch=monkeypatch)
        assert "The password is refused" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command("gao", "--token", "--days", "100000", monkeypatch=monkeypatch)
    assert not Person.objects.exists()


def test_the_shell_takes_no_password_as_an_argument(
    db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command("gao", "--password=glacier-lantern-42", monkeypatch=monkeypatch)
    with pytest.raises(SystemExit):
        command("gao", "--password", "glacier-lantern-42", monkeypatch=monkeypatch)
    assert not Person.objects.exists()


@pytest.mark.parametrize("wrong", [{"scope": "king"}, {"days": 0}, {"days": 10_000}, {"name": "a\nb"}])
def test_the_service_refuses_what_no_form_sends(lin: Person, wrong: dict[str, Any]) -> None:
    call: Callable[..., Any] = partial(make_token, person=lin, actor=lin)
    with pytest.raises(AssayError):
        call(**({"name": "n", "scope": "work", "days": 1} | wrong))


def test_the_account_of_a_stranger_names_no_other_token(lin: Person, stranger: Person) -> None:
    api_token(person=lin)
    name = ApiToken.objects.get().name
    assert name not in visit(stranger).get(reverse("account")).content.decode()
