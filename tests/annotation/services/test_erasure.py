"""A person is erased: nothing tells of them any more, and nothing that was labelled changes."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict, InputError
from annotation.domain.audit import EventContent
from annotation.domain.erasure import ErasedPerson
from annotation.domain.formats import Source
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    Annotation,
    ApiToken,
    AuditEvent,
    AuditRewrite,
    AuditSeal,
    Batch,
    Draft,
    GoldRelease,
    IdempotencyKey,
    Invitation,
    MailProfile,
    OutgoingMail,
    Person,
    SetupLink,
    SignInSession,
    StudyMembership,
)
from annotation.selectors.audit.chain import find_head, verify_trail
from annotation.services.assignments import claim_next_task
from annotation.services.audit import record
from annotation.services.audit.chain import seal_events
from annotation.services.batches.members import join_batch, set_member_active
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.people.erasure import erase_person
from annotation.services.people.invitations import invite
from annotation.services.people.people import activate_person, add_person, set_display_name, set_roles
from annotation.services.people.setup_links import make_setup_link
from annotation.services.people.tokens import make_token
from tests.support import as_made_by_import, decide_next, label_next, make_batch, person, small_dataset

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NAMES = ("Lin Meihua", "林美华")


def run(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


@pytest.fixture
def lived(batch: Batch, lin: Person, chen: Person, wu: Person, ma: Person, client: Client) -> Person:
    """lin labels, and leaves a trace in each kind of row."""
    for name in NAMES:
        set_display_name(person=lin, display_name=name, actor=ma)
    Person.objects.filter(pk=lin.pk).update(email="lin@example.org", opted_out=["Safety"])
    lin.refresh_from_db()
    while label_next(batch, lin, 3):
        pass
    while label_next(batch, chen, 1):
        pass
    while decide_next(batch, wu, 3):
        pass
    make_setup_link(person=lin, actor=ma)
    make_token(person=lin, name="lin's laptop", scope="work", days=3, actor=None)
    client.force_login(lin)
    record(
        actor=ma,
        verb=AnnotationVerb.JOIN_BATCH,
        target="batch:first",
        people=["lin", "chen"],
        role="annotator",
    )
    record(actor=None, verb=AnnotationVerb.SIGN_IN_FAILED, target="person:lin")
    seal_events(is_full=True)
    return lin


def dump_trail() -> str:
    rows = AuditEvent.objects.order_by("pk").values_list("target", "address", "agent", "data")
    return json.dumps(list(rows), ensure_ascii=False)


def test_releases_gold_and_agreement_are_the_same_bytes_before_and_after(
    lived: Person, batch: Batch, tmp_path: Any
) -> None:
    cut = run("release_gold", "r", "--batches", batch.name)
    formats = ("jsonl", "csv")

    def take(folder: str) -> dict[str, bytes]:
        for name in formats:
            run("export_gold", "r", "--format", name, "--out", str(tmp_path / folder / name))
        return {
            f"{path.parent.name}/{path.name}": path.read_bytes()
            for path in (tmp_path / folder).rglob("gold.*")
        }

    before, agreement = take("before"), run("agreement", "--batch", batch.name, "--by", "dimension,model")
    pairs = run("agreement", "--batch", batch.name, "--by", "pair")
    assert before
    assert agreement["rows"][0]["n"] > 0

    pseudonym = erase_person(person=lived)

    assert take("after") == before
    assert run("agreement", "--batch", batch.name, "--by", "dimension,model") == agreement
    assert GoldRelease.objects.get(name="r").sha256 == cut["sha256"]
    after = json.dumps(run("agreement", "--batch", batch.name, "--by", "pair"), ensure_ascii=False)
    assert "lin" in json.dumps(pairs, ensure_ascii=False) or NAMES[-1] in json.dumps(
        pairs, ensure_ascii=False
    )
    assert pseudonym in after
    assert NAMES[-1] not in after


def test_nothing_in_the_account_or_the_trail_tells_of_the_person(lived: Person, client: Client) -> None:
    AuditEvent.append(
        actor=lived, verb=AnnotationVerb.SIGN_OUT, target="person:lin", study_id=None, data={"at": "home"}
    )
    assert '"people": ["lin", "chen"]' in dump_trail()
    assert client.get("/account/").status_code == 200
    pseudonym = erase_person(person=lived)

    person = Person.objects.get(pk=lived.pk)
    assert (person.username, str(person), person.email) == (pseudonym, pseudonym, "")
    assert not person.is_active
    assert not person.has_usable_password()
    assert person.opted_out == []
    assert client.get("/account/").status_code == 302
    trail = dump_trail()
    assert "person:lin" not in trail
    assert "lin's laptop" not in trail
    assert f'"people": ["{pseudonym}", "chen"]' in trail
    assert not [name for name in (*NAMES, "lin@example.org", '"lin"') if name in trail]
    for model in (ApiToken, SetupLink):
        assert not model.objects.filter(person=person).exists()
    assert not StudyMembership.objects.filter(person=person).exists()
    assert not AuditEvent.objects.filter(actor=person).exclude(address="", agent="").exists()


def test_the_chain_verifies_and_says_what_was_rewritten_and_an_old_head_still_holds(lived: Person) -> None:
    head = find_head()
    assert head is not None
    seals = {seal.position: bytes(seal.digest) for seal in AuditSeal.objects.all()}
    pseudonym = erase_person(person=lived)
    seal_events(is_full=True)

    report = verify_trail(head=(head.position, head.digest))
    assert report.problems == ()
    (erasure,) = report.erasures
    assert erasure.pseudonym == pseudonym
    assert erasure.events == AuditRewrite.objects.count() > 3
    assert all(bytes(seal.digest) == seals[seal.position] for seal in AuditSeal.objects.filter(pk__in=seals))
    out = StringIO()
    call_command("audit_trail", "--verify", stdout=out)
    assert f"{erasure.events} events were rewritten by the erasure of {pseudonym}" in out.getvalue()
    assert "Nothing was changed or removed but by these erasures." in out.getvalue()


def test_a_rewritten_event_that_is_changed_again_is_found(lived: Person) -> None:
    erase_person(person=lived)
    seal_events(is_full=True)
    rewrite = AuditRewrite.objects.order_by("pk").first()
    assert rewrite is not None
    AuditEvent.objects.filter(pk=rewrite.event_id).update(target="person:somebody")
    assert [(problem.code, problem.event) for problem in verify_trail().problems] == [
        ("event_changed", rewrite.event_id)
    ]


def test_a_rewrite_that_no_erasure_declared_is_found(lived: Person) -> None:
    erase_person(person=lived)
    seal_events(is_full=True)
    erasure = AuditEvent.objects.get(verb="erase_person")
    other = AuditEvent.objects.exclude(pk__in=AuditRewrite.objects.values("event")).order_by("pk").first()
    assert other is not None
    AuditRewrite.objects.create(event=other, erasure=erasure, digest=bytes(32))
    assert [problem.code for problem in verify_trail().problems] == ["erasure_changed"]


def test_the_guard_lets_through_what_an_erasure_declared_and_nothing_else(lived: Person) -> None:
    erase_person(person=lived)
    rewrite = AuditRewrite.objects.order_by("pk").first()
    assert rewrite is not None
    other = AuditEvent.objects.exclude(pk__in=AuditRewrite.objects.values("event")).order_by("pk").first()
    assert other is not None
    refused = (
        lambda: AuditEvent.objects.filter(pk=other.pk).update(target="x"),
        lambda: AuditEvent.objects.filter(pk=rewrite.event_id).update(verb="x"),
        lambda: AuditEvent.objects.filter(pk=rewrite.event_id).update(
            actor=None, study=None, at=timezone.now()
        ),
        lambda: AuditEvent.objects.filter(pk=rewrite.event_id)._raw_delete("default"),
        lambda: AuditRewrite.objects.filter(pk=rewrite.pk).update(digest=bytes(32)),
        lambda: AuditRewrite.objects.filter(pk=rewrite.pk)._raw_delete("default"),
    )
    for act in refused:
        with pytest.raises(DatabaseError, match="only appended to"), transaction.atomic():
            act()


def test_two_people_in_one_event_are_erased_one_after_the_other(lived: Person, chen: Person) -> None:
    first, second = erase_person(person=lived), erase_person(person=chen)
    seal_events(is_full=True)
    assert f'"people": ["{first}", "{second}"]' in dump_trail()
    report = verify_trail()
    assert report.problems == ()
    assert [erasure.pseudonym for erasure in report.erasures] == [first, second]


def test_the_account_is_never_used_again(lived: Person, ma: Person) -> None:
    pseudonym = erase_person(person=lived)
    person = Person.objects.get(pk=lived.pk)
    for act in (
        lambda: activate_person(person=person, actor=ma),
        lambda: set_roles(person=person, roles=["annotator"], actor=None),
        lambda: set_display_name(person=person, display_name="Lin", actor=ma),
        lambda: make_setup_link(person=person, actor=ma),
        lambda: erase_person(person=person),
    ):
        with pytest.raises(Conflict, match="was erased"):
            act()
    batch = Batch.objects.get(name="first")
    set_member_active(batch=batch, person=person, role="annotator", active=False, actor=ma)
    annotators = [person, Person.objects.get(username="chen")]
    for act in (
        lambda: join_batch(batch=batch, role="annotator", people=[person], actor=ma),
        lambda: set_member_active(batch=batch, person=person, role="annotator", active=True, actor=ma),
        lambda: make_batch(batch.guideline, small_dataset(), annotators=annotators, name="another"),
    ):
        with pytest.raises(Conflict, match=f"{pseudonym} was erased"):
            act()
    assert not person.memberships.filter(active=True).exists()
    with pytest.raises(AssayError, match="were erased"):
        add_person(name="erased-00000000", roles=["annotator"])
    with pytest.raises(AssayError):
        add_person(name=pseudonym, roles=["annotator"])
    with pytest.raises(IntegrityError), transaction.atomic():
        Person.objects.filter(pk=person.pk).update(is_active=True)
    assert add_person(name="lin", roles=["annotator"]).pk != person.pk


def test_labels_are_not_imported_in_the_name_of_who_was_erased(
    batch: Batch, zhou: Person, tmp_path: Path
) -> None:
    pseudonym = erase_person(person=zhou)
    row = {"prompt_id": "p3", "model": "Hidden-13B", "annotator": pseudonym, "labels": {"compliance": 3}}
    file = tmp_path / "labels.jsonl"
    file.write_text(json.dumps(row))
    before = Annotation.objects.count()
    request = ImportRequest(batch=as_made_by_import(batch).name, guideline=None, dataset=None)
    with pytest.raises(InputError) as refused:
        import_annotations(source=Source(file, file.name), format="jsonl", request=request)
    assert f"{pseudonym} was erased" in str(refused.value)
    assert "labels.jsonl" in str(refused.value)
    assert Annotation.objects.count() == before


def test_unfinished_work_goes_and_its_place_goes_to_others(batch: Batch, lin: Person) -> None:
    assignment = claim_next_task(batch=batch, person=lin)
    assert assignment is not None
    Draft.objects.create(assignment=assignment, labels={"compliance": 1}, updated_at=assignment.claimed_at)
    erase_person(person=lin)
    assignment.refresh_from_db()
    assert assignment.state == "released"
    assert not Draft.objects.exists()


def test_nobody_erases_themselves_nor_the_only_admin(lin: Person) -> None:
    admin = Person.objects.create_superuser("root", password="glacier-lantern-42")
    with pytest.raises(Conflict, match="yourself"):
        erase_person(person=admin, actor=admin)
    with pytest.raises(Conflict, match="only admin"):
        erase_person(person=admin)
    other = Person.objects.create_superuser("other", password="glacier-lantern-42")
    erase_person(person=admin, actor=other)
    admin.refresh_from_db()
    assert (admin.is_superuser, admin.is_staff) == (False, False)


def test_the_command_changes_nothing_without_yes(lived: Person) -> None:
    before = AuditEvent.objects.count()
    dry = run("erase_person", "lin")
    lived.refresh_from_db()
    assert (lived.username, AuditEvent.objects.count()) == ("lin", before)
    assert (dry["erased"], dry["pseudonym"]) == (False, None)
    goes = {part["code"]: part["number"] for part in dry["goes"]}
    assert (goes["tokens"], goes["setup_links"], goes["sessions"]) == (1, 1, 1)
    stays = {part["code"]: part["number"] for part in dry["stays"]}
    assert stays["labels"] > 0
    out = StringIO()
    call_command("erase_person", "lin", "--yes", stdout=out)
    lived.refresh_from_db()
    assert f"lin is {lived.username} from now on" in out.getvalue()
    assert AuditEvent.objects.get(verb="erase_person").data["erased"]["tokens"] == 1
    with pytest.raises(SystemExit):
        call_command("erase_person", lived.username, stdout=out)


def test_what_is_rewritten_and_what_is_not() -> None:
    lin = ErasedPerson(7, "first", frozenset({"first", "Lin"}), "erased-1")

    def event(actor: int | None, target: str, **data: Any) -> EventContent:
        now: Any = None
        return EventContent(1, now, actor, "v", target, None, "10.0.0.1", "Firefox", data)

    # Another's act that names a batch as the person is called: the batch keeps its name.
    same = event(1, "batch:first", batch="first", person="wu")
    assert lin.rewrite(same) == same
    about = lin.rewrite(event(1, "person:first", display_name="Lin", roles=["annotator"]))
    assert (about.target, about.address, about.data) == (
        "person:erased-1",
        "10.0.0.1",
        {"roles": ["annotator"]},
    )
    own_act = lin.rewrite(event(7, "assignment:9", reason="I was ill", n=1))
    assert (own_act.address, own_act.agent, own_act.data) == ("", "", {"n": 1})
    named = lin.rewrite(event(1, "batch:b", person="first", error="first cannot", filters={"person": "Lin"}))
    assert named.data == {"person": "erased-1", "filters": {"person": "erased-1"}}
    assert lin.rewrite(event(1, "admin:person Lin")).target == "admin:person erased-1"
    assert lin.rewrite(event(1, "admin:batch first")).target == "admin:batch first"


def test_mail_sign_ins_factors_and_kept_answers_go(lin: Person) -> None:
    now = timezone.now()
    MailProfile.objects.create(person=lin, language="en", address="lin@example.org")
    invitation, _secret = invite(roles=["annotator"], days=7, actor=person("ma"))
    Invitation.objects.filter(pk=invitation.pk).update(accepted_by=lin, accepted_at=now)
    times = {"created_at": now, "due_at": now, "expires_at": now}
    OutgoingMail.objects.create(kind="digest", person=lin, **times)
    OutgoingMail.objects.create(kind="password_reset", address="lin@example.org", **times)
    OutgoingMail.objects.create(
        kind="invitation", address="other@example.org", invitation=invitation, **times
    )
    OutgoingMail.objects.create(kind="password_reset", address="chen@example.org", **times)
    SignInSession.objects.create(person=lin, session_key="k", began_at=now, seen_at=now)
    Authenticator.objects.create(user=lin, type="totp", data={})
    SocialAccount.objects.create(user=lin, provider="company", uid="issuer subject")
    IdempotencyKey.objects.create(person=lin, key="k", sha256="0" * 64, attempt=uuid4(), created_at=now)
    erase_person(person=lin)
    assert [mail.address for mail in OutgoingMail.objects.all()] == ["chen@example.org"]
    for model in (MailProfile, SignInSession, Authenticator, SocialAccount, IdempotencyKey):
        assert not model.objects.exists(), model
