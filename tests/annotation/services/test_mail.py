"""Mail through real servers: what is sent, to whom, what it says, and what becomes of it when a server will not."""

from __future__ import annotations

import re
import ssl
import stat
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from annotation.core.errors import AssayError
from annotation.core.mail_server import MailServerAway, MailSession, parse_mail_url
from annotation.domain.mail.mail import MailKind, check_address, clean_name, extract_address
from annotation.models import (
    Alarm,
    AuditEvent,
    Batch,
    Invitation,
    Job,
    MailProfile,
    OutgoingMail,
    Person,
    SetupLink,
)
from annotation.selectors.people import hash_secret
from annotation.services import jobs
from annotation.services.batches.batches import add_members
from annotation.services.mail import addresses
from annotation.services.mail.outbox import claim_mail, derive_secret, post_mail, release_dead_claims
from annotation.services.mail.reminders import post_alarm, post_reminders
from annotation.services.mail.sending import send_test_mail
from annotation.services.people.invitations import invite, revoke_invitation
from annotation.services.people.people import deactivate_person, set_display_name
from annotation.services.people.setup_links import use_setup_link
from tests.mail import (
    SENDER,
    MailHost,
    accept_password,
    get_html,
    get_text,
    give_address,
    list_states,
    run_host,
    run_stalling_host,
    send_all,
    use_server,
)
from tests.support import add_role, label_next

pytestmark = pytest.mark.django_db
PASSWORD = "glacier-lantern-42"


@pytest.fixture
def host(settings: Any) -> Iterator[MailHost]:
    with run_host() as started:
        use_server(settings, started.url)
        yield started


def find_link(text: str, page: str) -> str:
    (secret,) = set(re.findall(rf"http://testserver/{page}/([^/\s]+)/", text))
    return str(secret)


def raise_alarm(batch: Batch, *, paused: bool = False) -> Alarm:
    return Alarm.objects.create(
        batch=batch,
        at=timezone.now(),
        criterion="compliance",
        value=0.31,
        low=0.2,
        high=0.4,
        units=40,
        threshold=0.667,
        paused=paused,
    )


def fail_job(actor: Person) -> Job:
    """A job that fails in a worker's hands."""
    job = jobs.enqueue(kind="nobody_does_this", payload={}, title="Secretive-7B, jsonl", actor=actor)
    return jobs.run(job.pk)


# The address.


def test_a_link_confirms_an_address_once_and_for_its_person_alone(
    host: MailHost, lin: Person, chen: Person
) -> None:
    addresses.request_address(person=lin, address="Lin@Example.org")
    send_all()
    (message,) = host.messages
    assert host.recipients == ["Lin@example.org"]
    secret = find_link(get_text(message), "account/mail/confirm")
    assert not OutgoingMail.objects.filter(payload__icontains=secret).exists()
    profile = MailProfile.objects.get(person=lin)
    assert (profile.address, profile.pending_sha256) == ("", hash_secret(secret))
    with pytest.raises(AssayError):
        addresses.confirm_address(person=chen, secret=secret)
    assert addresses.confirm_address(person=lin, secret=secret) == "Lin@example.org"
    with pytest.raises(AssayError):
        addresses.confirm_address(person=lin, secret=secret)
    events = AuditEvent.objects.filter(target="person:lin").order_by("pk").values_list("verb", flat=True)
    assert list(events)[-2:] == ["ask_mail_address", "set_mail_address"]


def test_an_earlier_link_ends_with_a_new_one_and_any_after_a_day(host: MailHost, lin: Person) -> None:
    for address in ("first@example.org", "second@example.org"):
        addresses.request_address(person=lin, address=address)
    send_all()
    (message,) = host.messages  # of the first nothing is sent any more
    assert message["To"] == "second@example.org"
    assert list_states() == ["dropped", "sent"]
    secret = find_link(get_text(message), "account/mail/confirm")
    MailProfile.objects.update(pending_until=timezone.now() - timedelta(minutes=1))
    with pytest.raises(AssayError):
        addresses.confirm_address(person=lin, secret=secret)


def test_the_former_address_is_told_of_a_change_and_of_the_end(host: MailHost, lin: Person) -> None:
    give_address(lin, "old@example.org")
    addresses.request_address(person=lin, address="new@example.org")
    send_all()
    secret = find_link(get_text(host.messages[0]), "account/mail/confirm")
    addresses.confirm_address(person=lin, secret=secret)
    addresses.remove_address(person=lin)
    addresses.remove_address(person=lin)
    send_all()
    assert host.recipients == ["new@example.org", "old@example.org", "new@example.org"]
    assert "changed or removed" in get_text(host.messages[1])
    assert post_mail(kind=MailKind.DIGEST, person=lin) is not None
    send_all()
    assert len(host.messages) == 3  # who has no address gets none


@pytest.mark.parametrize("address", ["lin", "lin@", "@example.org", "lin@localhost", "a b@example.org"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(AssayError):
        check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "lin@example.org\nBcc: all@example.org",
        "lin@example.org\r\n\r\nHello",
        "lin@example.org, wu@example.org",
        "<lin@example.org>",
        "lin@example.org>",
        '"lin wu"@example.org',
        "lin@exa mple.org",
        "lín@example.org",
        "lin@[127.0.0.1]",
        f"{'l' * 65}@example.org",
    ],
)
def test_an_address_cannot_carry_a_header_or_a_second_address(address: str) -> None:
    with pytest.raises(AssayError):
        check_address(address)


def test_an_international_domain_is_written_as_servers_take_it() -> None:
    assert check_address("lin@例子.中国") == "lin@xn--fsqu00a.xn--fiqs8s"
    assert extract_address("Lin Wei <lin@example.org>") == "lin@example.org"
    assert extract_address("Lin Wei, lin@example.org;") == "lin@example.org"
    assert extract_address("Lin Wei") == ""


# Nothing is sent where the site sends nothing.


def test_without_a_server_no_row_is_written(lin: Person, ma: Person, batch: Batch) -> None:
    give_address(lin, digest="daily")
    give_address(ma)
    assert post_mail(kind=MailKind.DIGEST, person=lin) is None
    post_alarm(raise_alarm(batch))
    post_reminders(timezone.now().replace(hour=23))
    fail_job(ma)
    addresses.request_password_reset(address="lin@example.org")
    with pytest.raises(AssayError, match="sends no mail"):
        addresses.request_address(person=lin, address="lin@example.org")
    with pytest.raises(AssayError, match="sends no mail"):
        invite(roles=["annotator"], days=1, address="new@example.org", actor=ma)
    with pytest.raises(AssayError, match="EMAIL_URL is empty"):
        send_test_mail("lin@example.org")
    assert not OutgoingMail.objects.exists()


# A forgotten password.


def test_a_reset_goes_to_every_account_of_the_address_and_works_once(
    host: MailHost, lin: Person, chen: Person, wu: Person
) -> None:
    give_address(lin, "lab@example.org")
    give_address(chen, "LAB@example.org")
    give_address(wu)
    addresses.request_password_reset(address="Lab@Example.ORG")
    send_all()
    (message,) = host.messages
    assert host.recipients == ["lab@example.org"]
    text = get_text(message)
    secrets = re.findall(r"http://testserver/set-up/([^/\s]+)/", text)
    assert len(secrets) == 2
    assert ("The account lin" in text, "The account chen" in text, "account wu" in text) == (
        True,
        True,
        False,
    )
    assert "List-Unsubscribe" not in message
    person = use_setup_link(secret=secrets[0], password=PASSWORD)
    assert person == lin
    with pytest.raises(AssayError):
        use_setup_link(secret=secrets[0], password=PASSWORD)
    verbs = set(AuditEvent.objects.values_list("verb", flat=True))
    assert verbs >= {"ask_password_reset", "send_password_reset", "use_setup_link", "set_password"}


def test_an_address_that_is_nobodys_writes_the_same_row_and_nothing_is_sent(
    host: MailHost, lin: Person, django_assert_num_queries: Any
) -> None:
    give_address(lin)
    numbers = []
    for address in ("lin@example.org", "nobody@example.org"):
        with django_assert_num_queries(4):
            addresses.request_password_reset(address=address)
        mail = OutgoingMail.objects.order_by("pk").last()
        assert mail is not None
        numbers.append((mail.state, mail.person, mail.payload))
    assert numbers[0] == numbers[1]
    send_all()
    assert host.recipients == ["lin@example.org"]
    assert list_states() == ["sent", "dropped"]


def test_a_reset_ends_after_an_hour_and_with_the_account(host: MailHost, lin: Person, ma: Person) -> None:
    give_address(lin)
    addresses.request_password_reset(address="lin@example.org")
    send_all()
    secret = find_link(get_text(host.messages[0]), "set-up")
    SetupLink.objects.update(expires_at=timezone.now())
    with pytest.raises(AssayError, match="expired"):
        use_setup_link(secret=secret, password=PASSWORD)
    deactivate_person(person=lin, actor=ma)
    addresses.request_password_reset(address="lin@example.org")
    send_all()
    assert len(host.messages) == 1


def test_the_database_alone_opens_no_link(host: MailHost, lin: Person) -> None:
    """The secret is of the row and SECRET_KEY; the row and the link have neither it nor the key."""
    give_address(lin)
    addresses.request_password_reset(address="lin@example.org")
    send_all()
    secret = find_link(get_text(host.messages[0]), "set-up")
    mail = OutgoingMail.objects.get()
    row = str({f.name: getattr(mail, f.name) for f in OutgoingMail._meta.concrete_fields})
    assert secret not in row
    assert SetupLink.objects.get().secret_sha256 == hash_secret(secret)
    assert derive_secret(mail.uuid, str(lin.pk)) == secret
    assert len({derive_secret(mail.uuid), derive_secret(uuid4()), derive_secret(mail.uuid, "1")}) == 3


# Invitations.


def test_an_invitation_is_sent_and_its_link_lets_one_person_in(host: MailHost, ma: Person) -> None:
    invitation, secret = invite(roles=["annotator"], days=3, address="new@example.org", actor=ma)
    send_all()
    (message,) = host.messages
    assert message["To"] == "new@example.org"
    assert find_link(get_text(message), "join") == secret
    assert find_link(get_html(message), "join") == secret
    assert Invitation.objects.get().secret_sha256 == hash_secret(secret)
    assert invitation.mails.get().state == "sent"


def test_an_invitation_that_was_withdrawn_is_not_sent(host: MailHost, ma: Person) -> None:
    invitation, _secret = invite(roles=["annotator"], days=3, address="new@example.org", actor=ma)
    revoke_invitation(invitation_id=invitation.pk, actor=ma)
    send_all()
    assert (host.messages, list_states()) == ([], ["dropped"])


def test_a_mail_is_of_the_transaction_that_causes_it(host: MailHost, ma: Person) -> None:
    def invite_and_fail() -> None:
        with transaction.atomic():
            invite(roles=["annotator"], days=3, address="new@example.org", actor=ma)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        invite_and_fail()
    assert not OutgoingMail.objects.exists()


# Alarms and failed jobs.


def test_an_alarm_goes_to_the_managers_who_may_read_results(
    host: MailHost, batch: Batch, ma: Person, lin: Person, he: Person
) -> None:
    for person in (ma, lin, he):
        give_address(person)
    post_alarm(raise_alarm(batch, paused=True))
    send_all()
    (message,) = host.messages
    assert host.recipients == ["ma@example.org"]
    text = get_text(message)
    assert "below its threshold" in text
    assert "is paused" in text
    assert "http://testserver/batches/first/" in text
    for number in ("0.31", "0.2", "0.667", "40"):
        assert number not in text


def test_a_manager_who_works_in_the_batch_is_not_told_of_its_agreement(
    host: MailHost, batch: Batch, ma: Person
) -> None:
    give_address(ma)
    add_role(ma, "annotator")
    add_members(batch=batch, role="annotator", people=[ma])
    post_alarm(raise_alarm(batch))
    send_all()
    assert (host.messages, list_states()) == ([], ["dropped"])


def test_an_alarm_that_was_seen_and_a_switch_that_is_off_send_nothing(
    host: MailHost, batch: Batch, ma: Person
) -> None:
    give_address(ma)
    alarm = raise_alarm(batch)
    post_alarm(alarm)
    post_alarm(alarm)
    assert OutgoingMail.objects.count() == 1
    Alarm.objects.update(seen_at=timezone.now())
    send_all()
    assert (host.messages, list_states()) == ([], ["dropped"])
    MailProfile.objects.update(alarms=False)
    post_alarm(raise_alarm(batch))
    assert OutgoingMail.objects.count() == 1


def test_a_failed_job_is_told_to_who_started_it_without_its_title(
    host: MailHost, ma: Person, he: Person
) -> None:
    give_address(ma)
    give_address(he)
    job = fail_job(ma)
    assert job.state == Job.State.FAILED
    send_all()
    (message,) = host.messages
    assert host.recipients == ["ma@example.org"]
    text = get_text(message)
    assert f"http://testserver/jobs/{job.pk}/" in text
    assert "Secretive-7B" not in message.as_string() + text


def test_a_collection_that_stopped_is_told_to_the_managers_of_its_study_too(
    host: MailHost, batch: Batch, ma: Person, he: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    for person in (ma, he, chen):
        give_address(person)
    monkeypatch.setattr("annotation.services.mail.reminders.TOLD_TO_MANAGERS", {"nobody_does_this"})
    job = fail_job(he)
    assert job.study_id == batch.study_id
    send_all()
    assert sorted(host.recipients) == ["he@example.org", "ma@example.org"]
    own, other = sorted(host.messages, key=lambda message: str(message["To"]))
    assert "which you started" in get_text(own)
    assert "of your study" in get_text(other)
    assert "Secretive-7B" not in get_text(own) + get_text(other)


# Due dates.


def set_due(batch: Batch, days: int) -> None:
    due = timezone.localdate() + timedelta(days=days)
    Batch.objects.filter(pk=batch.pk).update(due_date=due)


def at_noon() -> Any:
    return timezone.localtime().replace(hour=12)


def test_who_has_items_left_is_told_before_a_batch_is_due(
    host: MailHost, batch: Batch, lin: Person, chen: Person, ma: Person
) -> None:
    for person in (lin, ma):
        give_address(person)
    set_due(batch, 5)
    post_reminders(at_noon())
    assert not OutgoingMail.objects.exists()
    set_due(batch, 3)
    post_reminders(at_noon().replace(hour=7, minute=59))
    assert not OutgoingMail.objects.exists()
    for _time in range(3):
        post_reminders(at_noon())
    send_all()
    assert host.recipients == ["lin@example.org"]
    text = get_text(host.messages[0])
    assert "items are left for you" in text
    assert "http://testserver/work/first/" in text


def test_who_is_done_is_not_told(host: MailHost, batch: Batch, lin: Person) -> None:
    give_address(lin)
    while label_next(batch, lin, 1) is not None:
        pass
    set_due(batch, 1)
    post_reminders(at_noon())
    send_all()
    assert (host.messages, list_states()) == ([], ["dropped"])


def test_a_date_that_passed_is_told_to_the_managers_of_an_open_batch(
    host: MailHost, batch: Batch, lin: Person, ma: Person
) -> None:
    for person in (lin, ma):
        give_address(person)
    set_due(batch, -1)
    post_reminders(at_noon())
    Batch.objects.update(state=Batch.State.PAUSED)
    send_all()
    assert host.messages == []
    Batch.objects.update(state=Batch.State.OPEN)
    OutgoingMail.objects.all().delete()
    post_reminders(at_noon())
    send_all()
    assert host.recipients == ["ma@example.org"]
    assert "is still open" in get_text(host.messages[0])


# The digest.


def test_a_digest_is_off_until_it_is_chosen_and_says_what_waits(
    host: MailHost, batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    give_address(lin)
    give_address(chen, digest="daily")
    give_address(zhou, digest="daily")  # for whom nothing waits
    Batch.objects.get().memberships.filter(person=zhou).delete()
    for _time in range(2):
        post_reminders(at_noon())
    send_all()
    assert host.recipients == ["chen@example.org"]
    text = get_text(host.messages[0])
    assert "items to label in first" in text
    assert "http://testserver/work/first/" in text
    # What is random in an address may hold any letters.
    words = re.sub(r"http\S+", "", f"{host.messages[0]['Subject']} {text} {get_html(host.messages[0])}")
    assert not re.search(r"Secretive|Hidden|lin@|\blin\b|zhou", words)


def test_a_weekly_digest_comes_on_monday_or_tuesday_once(host: MailHost, batch: Batch, lin: Person) -> None:
    give_address(lin, digest="weekly")
    monday = at_noon() - timedelta(days=at_noon().weekday())
    for day in range(-7, 7):
        post_reminders(monday + timedelta(days=day))
    assert OutgoingMail.objects.count() == 2


# Stopping.


def test_a_mail_that_nobody_asked_for_has_a_one_click_stop(host: MailHost, batch: Batch, lin: Person) -> None:
    give_address(lin, digest="daily")
    post_reminders(at_noon())
    send_all()
    (message,) = host.messages
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    url = message["List-Unsubscribe"].strip("<>")
    assert url in get_text(message)
    token = url.removeprefix("http://testserver/mail/stop/").rstrip("/")
    assert addresses.stop_mail(token=token) == "digest"
    assert MailProfile.objects.get().digest == "off"
    with pytest.raises(AssayError):
        addresses.stop_mail(token=f"{token[:-1]}{'A' if token[-1] != 'A' else 'B'}")
    assert AuditEvent.objects.filter(verb="stop_mail").count() == 1
    addresses.stop_mail(token=token)
    assert AuditEvent.objects.filter(verb="stop_mail").count() == 1


# Names and headers.

HOSTILE = "Evil\r\nBcc: all@evil.example\r\n\r\n<script>alert(1)</script> http://evil.example \u202egnp.exe"


def test_hostile_names_are_inert(host: MailHost, ma: Person) -> None:
    set_display_name(person=ma, display_name=HOSTILE[:150], actor=ma)
    invite(roles=["annotator"], days=3, address="new@example.org", actor=ma)
    send_all()
    (message,) = host.messages
    assert host.recipients == ["new@example.org"]
    assert message["Bcc"] is None
    text, html = get_text(message), get_html(message)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    for part in (text, html):
        assert "http://evil" not in part
        assert "evil.example" not in part
        assert "\u202e" not in part
    assert len(re.findall(r"href=", html)) == 1


def test_a_hostile_batch_name_makes_one_line_of_a_subject(host: MailHost, batch: Batch, ma: Person) -> None:
    give_address(ma)
    Batch.objects.update(name="a\r\nBcc: all@evil.example\nX: y" + "z" * 60)
    batch.refresh_from_db()
    post_alarm(raise_alarm(batch))
    send_all()
    (message,) = host.messages
    assert (message["Bcc"], message["X"]) == (None, None)
    assert message["Subject"].startswith("Low agreement in a Bcc: all")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("first\nsecond\tthird", "first second third"),
        ("\u202eabc\u200b\x00d", "abc d"),
        ("v1.0 of XSTest", "v1.0 of XSTest"),
        ("王伟", "王伟"),
        ("a" * 100, "a" * 79 + "…"),
    ],
)
def test_a_name_is_one_clean_line(name: str, line: str) -> None:
    assert clean_name(name) == line


def test_both_languages_and_both_parts(host: MailHost, batch: Batch, lin: Person, chen: Person) -> None:
    give_address(lin, digest="daily")
    give_address(chen, digest="daily", language="zh-hans")
    post_reminders(at_noon())
    send_all()
    english, chinese = sorted(host.messages, key=lambda message: message["To"] != "lin@example.org")
    assert (english["Content-Language"], chinese["Content-Language"]) == ("en", "zh-CN")
    assert english["Subject"] == "Assay: 1 thing waits for you"
    assert re.search(r"[\u4e00-\u9fff]", chinese["Subject"])
    for part in (get_text(chinese), get_html(chinese)):
        assert "waits for you" not in part
        assert "Stop mails" not in part
    for message in (english, chinese):
        assert message["From"] == f"Assay <{SENDER}>"
        assert message["Auto-Submitted"] == "auto-generated"
        assert message.get_content_type() == "multipart/alternative"
        assert message.as_bytes().isascii()


# Servers that will not.


def post_invitation(ma: Person, address: str = "new@example.org") -> OutgoingMail:
    invitation, _secret = invite(roles=["annotator"], days=3, address=address, actor=ma)
    return invitation.mails.get()


def test_a_recipient_who_is_refused_fails_and_the_others_are_sent(host: MailHost, ma: Person) -> None:
    host.refusals["gone@example.org"] = "550 5.1.1 no such mailbox"
    gone = post_invitation(ma, "gone@example.org")
    post_invitation(ma, "here@example.org")
    send_all()
    gone.refresh_from_db()
    assert (gone.state, gone.error, gone.attempts) == ("failed", "550 5.1.1 no such mailbox", 1)
    assert host.recipients == ["here@example.org"]
    send_all()
    assert len(host.messages) == 1


def test_a_refusal_for_now_is_tried_again_later_with_the_same_link_and_number(
    host: MailHost, ma: Person
) -> None:
    host.data_answer = "451 try later"
    mail = post_invitation(ma)
    for attempt, pause in enumerate((1, 2, 4), 1):
        send_all()
        mail.refresh_from_db()
        assert (mail.state, mail.error, mail.attempts) == ("waiting", "451 try later", attempt)
        assert timedelta(minutes=pause - 1) < mail.due_at - timezone.now() <= timedelta(minutes=pause)
        assert send_all() == []
        OutgoingMail.objects.update(due_at=timezone.now())
    host.data_answer = ""
    send_all()
    (message,) = host.messages
    assert message["Message-ID"] == f"<{mail.uuid}@example.org>"
    mail.refresh_from_db()
    assert (mail.state, mail.error) == ("sent", "")


def test_a_mail_that_is_not_worth_sending_any_more_is_given_up(host: MailHost, ma: Person) -> None:
    host.data_answer = "451 try later"
    mail = post_invitation(ma)
    send_all()
    OutgoingMail.objects.update(due_at=timezone.now(), expires_at=timezone.now())
    send_all()
    mail.refresh_from_db()
    assert (mail.state, mail.error) == ("failed", "451 try later")


def test_a_dead_server_holds_all_back_after_one_attempt(settings: Any, ma: Person) -> None:
    with run_stalling_host() as port:
        pass  # nobody listens there now
    use_server(settings, f"smtp://127.0.0.1:{port}")
    first, second = post_invitation(ma), post_invitation(ma)
    (job,) = send_all()
    assert job.result == {"waiting": 1}
    for mail, attempts in ((first, 1), (second, 0)):
        mail.refresh_from_db()
        assert (mail.state, mail.attempts) == ("waiting", attempts)
        assert mail.due_at > timezone.now() + timedelta(seconds=50)
    assert "refused" in OutgoingMail.objects.get(pk=first.pk).error
    with run_host() as host:
        use_server(settings, host.url)
        OutgoingMail.objects.update(due_at=timezone.now())
        send_all()
        assert len(host.messages) == 2


@pytest.mark.parametrize("drip", [b"", b"220-", b"220-wait\r\n"], ids=["silent", "one line", "many lines"])
def test_a_slow_server_holds_a_worker_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, drip: bytes
) -> None:
    monkeypatch.setattr("annotation.core.mail_server.IDLE_SECONDS", 0.6)
    monkeypatch.setattr("annotation.core.mail_server.MAX_SECONDS", 1.0)
    with run_stalling_host(drip=drip) as port:
        server = parse_mail_url(f"smtp://127.0.0.1:{port}")
        assert server is not None
        session = MailSession(server, name="example.org")
        start = timezone.now()
        with pytest.raises(MailServerAway):
            session.open()
        assert timezone.now() - start < timedelta(seconds=4)


def test_a_server_that_breaks_off_in_the_middle_loses_nothing(host: MailHost, ma: Person) -> None:
    host.data_answer = "421 shutting down"
    mail = post_invitation(ma)
    send_all()
    mail.refresh_from_db()
    assert (mail.state, mail.error) == ("waiting", "421 shutting down")


def test_a_password_is_sent_and_a_wrong_one_is_told(settings: Any) -> None:
    authenticator = accept_password("assay@example.org", "p@ss:w/rd#1")
    with run_host(authenticator=authenticator, auth_require_tls=False) as host:
        use_server(settings, f"smtp://assay%40example.org:p%40ss%3Aw%2Frd%231@127.0.0.1:{host.port}")
        assert send_test_mail("lin@example.org") == "lin@example.org"
        assert host.recipients == ["lin@example.org"]
        use_server(settings, f"smtp://assay:wrong@127.0.0.1:{host.port}")
        with pytest.raises(AssayError, match="535") as refusal:
            send_test_mail("lin@example.org")
        assert "wrong" not in str(refusal.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    paths = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    files = ["-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return paths


def test_submission_begins_tls_and_checks_the_certificate(
    settings: Any, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    options = {"authenticator": accept_password("assay", "secret-1"), "auth_required": True}
    with run_host(tls_context=context, require_starttls=True, **options) as host:
        use_server(settings, f"submission://assay:secret-1@localhost:{host.port}")
        with pytest.raises(AssayError, match="certificate verify failed"):
            send_test_mail("lin@example.org")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        send_test_mail("lin@example.org")
        assert host.recipients == ["lin@example.org"]
        use_server(settings, f"smtp://localhost:{host.port}")
        with pytest.raises(AssayError, match="530"):
            send_test_mail("lin@example.org")


def test_a_server_without_tls_gets_no_password(settings: Any) -> None:
    with run_host() as host:
        use_server(settings, f"submission://assay:secret-1@localhost:{host.port}")
        with pytest.raises(AssayError, match="STARTTLS"):
            send_test_mail("lin@example.org")
        assert host.messages == []


def test_mails_as_files_are_whole_and_the_same_for_the_same_mail(
    settings: Any, tmp_path: Path, ma: Person
) -> None:
    use_server(settings, f"file://{tmp_path}/mail")
    mail = post_invitation(ma)
    send_all()
    OutgoingMail.objects.update(state="waiting", due_at=timezone.now())
    send_all()
    (file,) = (tmp_path / "mail").iterdir()
    assert file.name == f"{mail.uuid}.eml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"To: new@example.org" in file.read_bytes()


# Claims.


def test_a_claim_is_free_again_once_its_job_runs_no_more(host: MailHost, ma: Person) -> None:
    mail = post_invitation(ma)
    job = Job.objects.create(kind="send_mail", state=Job.State.RUNNING, attempt=1)
    claimed = claim_mail(job)
    assert claimed is not None
    assert claimed.pk == mail.pk
    assert claim_mail(job) is None
    assert release_dead_claims() == 0  # it runs
    Job.objects.update(attempt=2)  # another worker has taken the job over
    assert release_dead_claims() == 1
    Job.objects.all().delete()
    send_all()
    assert len(host.messages) == 1


def test_a_mail_that_cannot_be_written_fails_alone(host: MailHost, ma: Person, lin: Person) -> None:
    give_address(lin)
    broken = post_mail(kind=MailKind.ALARM, person=lin)  # without its alarm
    assert broken is not None
    post_invitation(ma)
    send_all()
    broken.refresh_from_db()
    assert (broken.state, broken.error) == ("failed", "KeyError: 'alarm'")
    assert len(host.messages) == 1
