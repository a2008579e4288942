"""Invitations by link: what a link lets its holder do, and that it lets nobody else do anything."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict
from annotation.core.study_scope import limit_to_studies
from annotation.domain.batch_spec import BatchSpec
from annotation.models import AuditEvent, Batch, Dataset, Guideline, Invitation, Person
from annotation.selectors.people import LinkState, hash_secret, read_link_state
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.people.invitations import LinkEnded, accept_invitation, invite, revoke_invitation
from annotation.services.people.people import add_person, deactivate_person, set_roles
from annotation.services.studies import create_study
from config.operations.logs import SecretsFilter

pytestmark = pytest.mark.django_db
GOOD = "glacier-lantern-42"
FORM = {"name": "gao", "display_name": "高", "password": GOOD, "again": GOOD, "others": "zh"}
LINK = re.compile(r'value="http://testserver(/join/([^/]+)/)"')


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def made_by(client: Client, **changes: Any) -> tuple[str, str]:
    """The path of a new invitation's link and its secret."""
    sent = {"roles": ["annotator"], "notes": "Gao of the second floor", "days": "7", **changes}
    answer = client.post(reverse("invitations"), sent)
    assert answer.status_code == 200
    match = LINK.search(answer.content.decode())
    assert match
    return match[1], match[2]


def test_an_invited_person_makes_their_account_and_is_signed_in(manager: Client, ma: Person) -> None:
    path, _secret = made_by(manager, roles=["annotator", "adjudicator"])
    guest = Client()
    page = guest.get(path)
    assert page.status_code == 200
    assert "ma invites you" in page.content.decode()
    assert "Adjudicator: decides disputes" in page.content.decode()
    assert "second floor" not in page.content.decode()  # the manager's own note
    assert guest.post(path, FORM)["location"] == reverse("home")
    gao = Person.objects.get(username="gao")
    assert (str(gao), gao.languages) == ("高", ["zh"])
    assert set(gao.study_memberships.values_list("role", flat=True)) == {"annotator", "adjudicator"}
    assert guest.get(reverse("account")).status_code == 200
    assert Client().login(username="gao", password=GOOD)
    invitation = Invitation.objects.get()
    assert invitation.accepted_by == gao
    assert "gao" in manager.get(reverse("invitations")).content.decode()


def test_the_secret_is_shown_once_and_stored_nowhere(manager: Client, ma: Person) -> None:
    path, secret = made_by(manager)
    assert len(secret) * 6 >= 128
    invitation = Invitation.objects.get()
    assert invitation.secret_sha256 == hash_secret(secret)
    assert secret not in manager.get(reverse("invitations")).content.decode()
    Client().post(path, FORM)
    stored_values = [
        *AuditEvent.objects.values_list("verb", "target", "data"),
        *Invitation.objects.values_list(),
    ]
    assert secret not in str(stored_values)
    assert AuditEvent.objects.get(verb="invite").target == f"invitation:{invitation.pk}"
    assert AuditEvent.objects.get(verb="accept_invitation").data == {"person": "gao"}


def test_the_pages_are_kept_by_nobody_and_tell_their_address_to_nobody(manager: Client) -> None:
    answer = manager.post(reverse("invitations"), {"roles": ["annotator"], "days": "7"})
    assert "no-store" in answer["Cache-Control"]
    path, _secret = made_by(manager)
    page = Client().get(path)
    assert "no-store" in page["Cache-Control"]
    assert page["Referrer-Policy"] == "strict-origin"


def test_a_log_line_names_no_secret(caplog: pytest.LogCaptureFixture, manager: Client) -> None:
    path, secret = made_by(manager)
    Client().post(path, {})  # 422: Django logs a warning with the address
    records = [record for record in caplog.records if "/join/" in record.getMessage()]
    assert records
    records.append(logging.makeLogRecord({"msg": '"GET %s HTTP/1.1" 200', "args": (path,)}))
    for record in records:
        assert SecretsFilter().filter(record)
        assert secret not in record.getMessage()
        assert "/join/***/" in record.getMessage()
    shared = logging.makeLogRecord({"msg": '"GET %s HTTP/1.1" 200', "args": (f"/shared/{secret}/zh-hans/",)})
    assert SecretsFilter().filter(shared)
    assert shared.getMessage() == '"GET /shared/***/zh-hans/ HTTP/1.1" 200'
    assert settings.LOGGING["handlers"]["console"]["filters"] == ["without_secrets"]


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("used", "was used already"),
        ("expired", "has expired"),
        ("revoked", "was withdrawn"),
        ("manager left", "was withdrawn"),
        ("manager no more", "was withdrawn"),
    ],
)
def test_a_link_that_has_ended_says_so_and_makes_nobody(
    ma: Person, lin: Person, ending: str, words: str
) -> None:
    chief = Person.objects.create_superuser("root")
    invitation, secret = invite(roles=["manager"], days=1, actor=ma)
    match ending:
        case "used":
            accept_invitation(secret=secret, name="first", password=GOOD)
        case "expired":
            Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        case "revoked":
            revoke_invitation(invitation_id=invitation.pk, actor=chief)
        case "manager left":
            deactivate_person(person=ma, actor=chief)
        case "manager no more":
            set_roles(person=ma, roles=["annotator"], actor=chief)
    before = Person.objects.count()
    for answer in (
        Client().get(reverse("join", args=[secret])),
        Client().post(reverse("join", args=[secret]), FORM),
    ):
        assert answer.status_code == 410
        assert words in answer.content.decode()
        assert "first" not in answer.content.decode()
    with pytest.raises(LinkEnded):
        accept_invitation(secret=secret, name="gao", password=GOOD)
    assert Person.objects.count() == before


def test_an_unknown_link_is_not_found_in_both_languages(db: None) -> None:
    path = reverse("join", args=["x" * 43])
    answer = Client().get(path)
    assert answer.status_code == 404
    assert "There is no such invitation" in answer.content.decode()
    assert Client().post(path, FORM).status_code == 404
    assert 'lang="zh-hans"' in Client().get(path, headers={"Accept-Language": "zh-hans"}).content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "lin"}, "already a person named lin"),
        ({"name": "a/b"}, "cannot be a name"),
        ({"name": ""}, "This field is required"),
        ({"password": "12345", "again": "12345"}, "too short"),
        ({"password": "gao-gao-1", "name": "gao-gao-1", "again": "gao-gao-1"}, "too similar"),
        ({"again": GOOD + "x"}, "not the same"),
        ({"others": "Chinese!"}, "is no language tag"),
    ],
)
def test_an_account_that_cannot_be_is_refused_and_the_link_stays(
    lin: Person, ma: Person, changes: dict[str, str], words: str
) -> None:
    invitation, secret = invite(roles=["annotator"], days=1, actor=ma)
    guest = Client()
    answer = guest.post(reverse("join", args=[secret]), FORM | changes)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert read_link_state(Invitation.objects.get(pk=invitation.pk)) == LinkState.WAITING
    assert guest.post(reverse("join", args=[secret]), FORM).status_code == 302


def test_who_is_signed_in_joins_with_their_account(manager: Client, ma: Person, he: Person) -> None:
    """Opening the link changes nothing; the roles of the invitation come to those that they have in the study."""
    path, _secret = made_by(manager)
    guest = Client()
    guest.force_login(he)
    assert "You are signed in as he" in guest.get(path).content.decode()
    assert roles_in_all_studies(he) == ["researcher"]
    assert guest.post(path, FORM)["location"] == reverse("home")
    assert roles_in_all_studies(he) == ["annotator", "researcher"]
    assert not Person.objects.filter(username="gao").exists()
    assert guest.post(path).status_code == 410
    assert Invitation.objects.get().accepted_by == he


def test_an_account_of_one_study_joins_another(manager: Client, ma: Person, he: Person) -> None:
    path, _secret = made_by(manager)
    other = create_study(name="other")
    with limit_to_studies([other.pk]):
        zoe = add_person(name="zoe", roles=["manager"])
    guest = Client()
    guest.force_login(zoe)
    assert guest.post(path)["location"] == "/s/default/"
    assert guest.get("/s/default/work/").status_code == 200
    assert guest.get("/s/default/people/").status_code == 403
    second, _secret = made_by(manager)  # somebody accepts several invitations, one for each study or role
    assert guest.post(second)["location"] == "/s/default/"
    assert zoe.invitations.count() == 2


def test_who_accepts_works_in_the_batch_at_once(manager: Client, batch: Batch) -> None:
    path, _secret = made_by(manager, batch=str(batch.pk), roles=["annotator", "researcher"])
    guest = Client()
    assert guest.post(path, FORM).status_code == 302
    assert [(m.batch, m.role) for m in Person.objects.get(username="gao").memberships.all()] == [
        (batch, "annotator")
    ]
    assert guest.get(f"/work/{batch.name}/").status_code == 200


def test_a_batch_that_closed_since_keeps_nobody_out_of_the_study(manager: Client, batch: Batch) -> None:
    path, _secret = made_by(manager, batch=str(batch.pk))
    Batch.objects.filter(pk=batch.pk).update(state=Batch.State.CLOSED)
    guest = Client()
    assert guest.post(path, FORM).status_code == 302
    gao = Person.objects.get(username="gao")
    assert (roles_in_all_studies(gao), gao.memberships.count()) == (["annotator"], 0)
    assert "not in the batch" in manager.get(reverse("invitations")).content.decode()
    assert "closed" in AuditEvent.objects.get(verb="join_batch_refused").data["error"]


def test_a_line_for_each_person_makes_a_link_for_each(manager: Client, batch: Batch) -> None:
    form = {"roles": ["annotator"], "days": "7", "batch": str(batch.pk), "notes": " Gao \n\nLi Na\n"}
    page = manager.post(reverse("invitations"), form).content.decode()
    assert len({secret for _path, secret in LINK.findall(page)}) == 2
    assert sorted(Invitation.objects.values_list("note", "batch")) == [("Gao", batch.pk), ("Li Na", batch.pk)]
    for notes in ("x" * 201, "\n".join("x" * 101)):
        assert manager.post(reverse("invitations"), form | {"notes": notes}).status_code == 422
    assert manager.post(reverse("invitations"), form | {"roles": ["manager"]}).status_code == 422
    assert Invitation.objects.count() == 2
    page = manager.get(reverse("invitations"), {"batch": batch.name}).content.decode()
    assert f'<option value="{batch.pk}" selected>' in page


def roles_in_all_studies(person: Person) -> list[str]:
    return sorted(person.study_memberships.values_list("role", flat=True))


def test_only_managers_invite_and_an_invitation_gives_only_groups(
    client: Client, lin: Person, he: Person, ma: Person
) -> None:
    invitation, _secret = invite(roles=["annotator"], days=1, actor=ma)
    for person in (lin, he):
        client.force_login(person)
        assert client.get(reverse("invitations")).status_code == 403
        assert client.post(reverse("invitation-revoke", args=[invitation.pk])).status_code == 403
    client.force_login(ma)
    for wrong in ({"roles": ["admin"]}, {"roles": []}, {"days": "0"}, {"days": "91"}, {"others": "?"}):
        answer = client.post(reverse("invitations"), {"roles": ["annotator"], "days": "7"} | wrong)
        assert answer.status_code == 422
    with pytest.raises(AssayError, match="There is no role admin"):
        invite(roles=["admin"], days=1, actor=ma)
    path, _secret = made_by(client, roles=["manager"])  # as a manager may make one by hand
    Client().post(path, FORM | {"is_superuser": "1", "roles": ["researcher"]})
    gao = Person.objects.get(username="gao")
    assert (gao.is_superuser, gao.is_staff) == (False, False)
    assert list(gao.study_memberships.values_list("role", flat=True)) == ["manager"]


def test_a_manager_withdraws_a_link_but_not_one_that_was_used(manager: Client, ma: Person) -> None:
    path, _secret = made_by(manager)
    url = reverse("invitation-revoke", args=[Invitation.objects.get().pk])
    assert manager.post(url).status_code == 302
    assert manager.post(url).status_code == 302
    assert AuditEvent.objects.filter(verb="revoke_invitation").count() == 1
    assert Client().get(path).status_code == 410
    used, secret = invite(roles=["annotator"], days=1, actor=ma)
    accept_invitation(secret=secret, name="gao", password=GOOD)
    with pytest.raises(Conflict):
        revoke_invitation(invitation_id=used.pk, actor=ma)
    assert manager.post(reverse("invitation-revoke", args=[999])).status_code == 404


def at_once(calls: Sequence[Callable[[], Person]]) -> list[str]:
    """Start all the calls at the same moment, each on its own connection; what they made, or why not."""
    start = Barrier(len(calls))

    def run_call(call: Callable[[], Person]) -> str:
        start.wait(timeout=120)
        try:
            return str(call())
        except AssayError as refusal:
            return type(refusal).__name__
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run_call, calls))


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_several_who_come_at_once_one_is_let_in(ma: Person) -> None:
    _invitation, secret = invite(roles=["annotator"], days=1, actor=ma)
    names = ["gao", "sun", "zhu"]
    came = at_once([partial(accept_invitation, secret=secret, name=name, password=GOOD) for name in names])
    assert sorted(came)[:2] == ["LinkEnded"] * 2
    (made,) = set(came) - {"LinkEnded"}
    assert list(Person.objects.filter(username__in=names).values_list("username", flat=True)) == [made]
    assert str(Invitation.objects.get().accepted_by) == made


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_two_who_choose_one_name_at_once_one_is_told(ma: Person) -> None:
    secrets = [invite(roles=["annotator"], days=1, actor=ma)[1] for _link in range(2)]
    came = at_once(
        [partial(accept_invitation, secret=secret, name="gao", password=GOOD) for secret in secrets]
    )
    assert sorted(came) == ["AssayError", "gao"]
    assert Invitation.objects.filter(accepted_at=None).count() == 1


def test_a_pool_opens_for_those_who_are_invited_into_it(
    manager: Client, ma: Person, guideline: Guideline, dataset: Dataset
) -> None:
    batch = create_batch(BatchSpec(name="first", guideline=guideline, dataset=dataset, open_now=False))
    with pytest.raises(AssayError, match="at least 2 annotators; 0 are named"):
        set_state(batch=batch, state=Batch.State.OPEN)
    _invitation, secret = invite(roles=["annotator"], days=7, batch=batch, actor=ma)
    invite(roles=["adjudicator"], days=7, batch=batch, actor=ma)
    withdrawn, _ = invite(roles=["annotator"], days=7, batch=batch, actor=ma)
    revoke_invitation(invitation_id=withdrawn.pk, actor=ma)
    with pytest.raises(AssayError, match="1 are named"):
        set_state(batch=batch, state=Batch.State.OPEN)
    invite(roles=["annotator"], days=7, batch=batch, actor=ma)
    page = manager.get(reverse("batch", args=[batch.name])).content.decode()
    assert "2 more annotators are invited into it" in page
    set_state(batch=batch, state=Batch.State.OPEN)
    person = accept_invitation(secret=secret, name="gao", password=GOOD)
    assert claim_next_task(batch=batch, person=person) is not None


def test_a_batch_without_annotators_is_made_and_leads_to_the_invitations(
    manager: Client, guideline: Guideline, dataset: Dataset
) -> None:
    address = reverse("batch-new", args=[dataset.name])
    assert "Create the batch and invite people" in manager.get(address).content.decode()
    sent = {"name": "first", "guideline": guideline.pk, "overlap": 2, "lease_minutes": 30, "draft": "invite"}
    answer = manager.post(address, sent)
    assert answer["location"] == f"{reverse('invitations')}?batch=first"
    assert Batch.objects.get().state == Batch.State.DRAFT
    form = manager.get(answer["location"]).context["form"]
    assert (form["batch"].value(), form["roles"].value()) == (Batch.objects.get().pk, ["annotator"])
    sent = {"roles": ["annotator"], "notes": "a\nb", "days": 7, "batch": Batch.objects.get().pk}
    made = manager.post(reverse("invitations"), sent)
    assert "To the batch first" in made.content.decode()
