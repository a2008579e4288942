"""The pages of mail: the address and its settings, a forgotten password, stopping, invitations, operations."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.core.log_lines import mask_secrets
from annotation.domain.mail.mail import MailKind
from annotation.models import AuditEvent, Invitation, MailProfile, OutgoingMail, Person, SetupLink
from annotation.services.mail.contents import build_stop_token
from annotation.services.mail.outbox import post_mail
from config.operations.metrics import render_metrics
from tests.mail import MailHost, get_text, give_address, list_states, run_host, send_all, use_server
from tests.support import api_token

pytestmark = pytest.mark.django_db
GOOD = "glacier-lantern-42"
PRESENT = "present-lantern-7"


@pytest.fixture
def host(settings: Any) -> Iterator[MailHost]:
    with run_host() as started:
        use_server(settings, started.url)
        yield started


@pytest.fixture
def admin() -> Client:
    return visit(Person.objects.create_superuser("root", password=GOOD))


def visit(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def with_password(person: Person) -> Client:
    person.set_password(PRESENT)
    person.save()
    return visit(person)


def find_path(text: str, page: str) -> str:
    (path,) = set(re.findall(rf"http://testserver(/{page}/[^/\s]+/)", text))
    return str(path)


def get_page(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def test_the_account_leads_to_the_address_which_a_link_confirms(host: MailHost, lin: Person) -> None:
    client = with_password(lin)
    assert reverse("account-mail") in get_page(client, "/account/")
    sent = {"address": "lin@example.org", "password": PRESENT}
    answer = client.post("/account/mail/address/", sent, follow=True)
    assert "A link is on its way to lin@example.org" in answer.content.decode()
    send_all()
    path = find_path(get_text(host.messages[0]), "account/mail/confirm")
    stranger = Client().get(path)
    assert (stranger.status_code, stranger["Location"].startswith("/sign-in/")) == (302, True)
    page = client.get(path)
    assert (page.status_code, page["Referrer-Policy"]) == (200, "strict-origin")
    assert not MailProfile.objects.get().address  # a program that follows links confirms nothing
    assert "Your mail goes to lin@example.org now." in client.post(path, follow=True).content.decode()
    assert client.get(path).status_code == 404
    assert MailProfile.objects.get().address == "lin@example.org"


def test_an_address_needs_the_present_password_and_is_seen_by_nobody_else(
    host: MailHost, lin: Person, chen: Person, ma: Person
) -> None:
    client = with_password(lin)
    for password in ("", "wrong-password"):
        answer = client.post("/account/mail/address/", {"address": "lin@example.org", "password": password})
        assert answer.status_code == 422
    answer = client.post("/account/mail/address/", {"address": "lin", "password": PRESENT})
    assert "is no e-mail address" in answer.content.decode()
    assert not OutgoingMail.objects.exists()
    give_address(lin, "private@example.org")
    for person, pages in ((ma, ("/people/", "/people/lin/", "/audit/")), (chen, ("/account/mail/",))):
        for page in pages:
            assert "private@example.org" not in get_page(visit(person), page)
    answer = client.post("/account/mail/remove/", {"password": "wrong"})
    assert (answer.status_code, MailProfile.objects.get().address) == (422, "private@example.org")
    client.post("/account/mail/remove/", {"password": PRESENT})
    assert MailProfile.objects.get().address == ""


def test_another_persons_link_confirms_nothing(host: MailHost, lin: Person, chen: Person) -> None:
    client = with_password(lin)
    client.post("/account/mail/address/", {"address": "chen@example.org", "password": PRESENT})
    send_all()
    path = find_path(get_text(host.messages[0]), "account/mail/confirm")
    assert visit(chen).post(path).status_code == 404
    assert not MailProfile.objects.exclude(address="").exists()


def test_so_many_mails_to_addresses_and_no_more(host: MailHost, lin: Person) -> None:
    client = with_password(lin)
    for place in range(7):
        sent = {"address": f"victim{place}@example.org", "password": PRESENT}
        answer = client.post("/account/mail/address/", sent)
    assert answer.status_code == 422
    assert "Too many mails in an hour" in answer.content.decode()
    assert OutgoingMail.objects.count() == 5


def test_the_settings_of_mail(lin: Person) -> None:
    client = visit(lin)
    assert "digest" in get_page(client, "/account/mail/")
    sent = {"language": "zh-hans", "alarms": "on", "digest": "weekly"}
    assert client.post("/account/mail/settings/", sent).status_code == 302
    profile = MailProfile.objects.get()
    choices = (profile.language, profile.alarms, profile.failed_jobs, profile.due_dates, profile.digest)
    assert choices == ("zh-hans", True, False, False, "weekly")
    assert client.post("/account/mail/settings/", {**sent, "digest": "hourly"}).status_code == 422
    assert MailProfile(person=lin, language="en").digest == "off"


def test_pages_say_where_no_mail_is_sent(lin: Person, ma: Person) -> None:
    page = get_page(visit(lin), "/account/mail/")
    assert "This site sends no mail" in page
    assert "account/mail/address" not in page
    assert "forgotten" not in get_page(Client(), "/sign-in/")
    forgotten = get_page(Client(), "/sign-in/forgotten/")
    assert "Ask a manager of your study" in forgotten
    assert 'name="address"' not in forgotten
    Client().post("/sign-in/forgotten/", {"address": "lin@example.org"})
    assert 'name="send"' not in get_page(visit(ma), "/people/-/invitations/")
    assert not OutgoingMail.objects.exists()


# A forgotten password.


def test_a_forgotten_password_is_set_by_mail_and_all_else_ends(host: MailHost, lin: Person) -> None:
    give_address(lin)
    token, elsewhere, guest = api_token(person=lin), visit(lin), Client()
    assert "/sign-in/forgotten/" in get_page(guest, "/sign-in/")
    answer = guest.post("/sign-in/forgotten/", {"address": " LIN@example.org "})
    assert answer.status_code == 200
    send_all()
    path = find_path(get_text(host.messages[0]), "set-up")
    assert guest.get(path).status_code == 200
    answer = guest.post(path, {"password": GOOD, "again": GOOD})
    assert answer["Location"] == "/"
    assert Person.objects.get(username="lin").check_password(GOOD)
    assert elsewhere.get("/account/").status_code == 302
    api = Client().get("/api/v1/batches/", headers={"Authorization": f"Token {token}"})
    assert api.status_code == 401
    later = guest.get(path)
    assert later.status_code == 410
    assert "ask for it on the sign-in page" in later.content.decode()
    notice = get_page(guest, "/account/")
    assert "A link was sent to the mail address of the account" in notice
    assert "It was used on" in notice
    used = AuditEvent.objects.get(verb="use_setup_link")
    assert (used.target, used.data["made_by"], used.address) == ("person:lin", "mail", "127.0.0.1")


def test_a_link_that_nobody_used_troubles_nobody(host: MailHost, lin: Person) -> None:
    """Strangers may ask for links: the person's pages stay as they are."""
    give_address(lin)
    Client().post("/sign-in/forgotten/", {"address": "lin@example.org"})
    send_all()
    assert SetupLink.objects.count() == 1
    assert "Links were made by which" not in get_page(visit(lin), "/account/mail/")


def test_the_answer_is_the_same_whether_the_address_exists_or_not(host: MailHost, lin: Person) -> None:
    give_address(lin)
    answers = {}
    for address in ("lin@example.org", "nil@example.org"):
        client = Client()
        answer = client.post("/sign-in/forgotten/", {"address": address})
        body = re.sub(r"\b[A-Za-z0-9]{64}\b", "", answer.content.decode())  # the token against forged forms
        headers = sorted((name, value) for name, value in answer.items() if name != "X-Request-ID")
        answers[address] = (answer.status_code, headers, body.replace(address, "X"))
    assert answers["lin@example.org"] == answers["nil@example.org"]


def test_the_answer_takes_the_same_time(host: MailHost, lin: Person, settings: Any) -> None:
    """Whether somebody has the address is asked by the worker. The medians of pairs differ by less than a third."""
    settings.ACCOUNT_RATE_LIMITS = {}
    give_address(lin)
    client = Client()
    seconds: dict[str, list[float]] = {"lin": [], "nil": []}
    for _attempt in range(25):
        for name, measured in seconds.items():
            start = time.perf_counter()
            client.post("/sign-in/forgotten/", {"address": f"{name}@example.org"})
            measured.append(time.perf_counter() - start)
    present, absent = (statistics.median(measured) for measured in seconds.values())
    assert abs(present - absent) < max(present, absent) / 3, (present, absent)


def test_resets_are_limited_by_the_client_and_silently_by_the_address(host: MailHost, lin: Person) -> None:
    give_address(lin)
    for _attempt in range(5):
        assert Client().post("/sign-in/forgotten/", {"address": "lin@example.org"}).status_code == 200
    assert OutgoingMail.objects.count() == 3
    statuses = [
        Client().post("/sign-in/forgotten/", {"address": f"{place}@example.org"}).status_code
        for place in range(20)
    ]
    assert statuses[-1] == 429
    assert OutgoingMail.objects.count() < 20


def test_what_is_no_address_is_said_without_a_mail(host: MailHost) -> None:
    answer = Client().post("/sign-in/forgotten/", {"address": "lin@example.org\r\nBcc: all@example.org"})
    assert answer.status_code == 422
    assert not OutgoingMail.objects.exists()


# Stopping by a link.


def test_one_click_stops_a_kind_without_signing_in(lin: Person) -> None:
    give_address(lin, digest="daily", language="zh-hans")
    path = reverse("mail-stop", args=[build_stop_token(lin, "digest")])
    client = Client(enforce_csrf_checks=True)
    page = client.get(path)
    assert (page.status_code, page["Referrer-Policy"]) == (200, "strict-origin")
    assert "停止此类邮件" in page.content.decode()
    assert MailProfile.objects.get().digest == "daily"  # programs look at links
    answer = client.post(path, {"List-Unsubscribe": "One-Click"})
    assert answer.status_code == 200
    assert MailProfile.objects.get().digest == "off"
    assert Client().post(f"{path[:-3]}xx/").status_code == 404
    assert mask_secrets(f"POST {path}") == "POST /mail/stop/***/"
    assert mask_secrets("GET /sign-in/?next=/account/mail/confirm/abc/").endswith("/confirm/***/")
    assert mask_secrets("?next=%2Faccount%2Fmail%2Fconfirm%2Fabc%2F").endswith("confirm%2F***%2F")


# Invitations.


def invite_by(client: Client, notes: str, **changes: Any) -> Any:
    sent = {"notes": notes, "roles": ["annotator"], "days": "7", "others": "", "send": "on", **changes}
    return client.post("/people/-/invitations/", sent)


def test_a_manager_sends_links_and_the_list_says_what_became_of_them(host: MailHost, ma: Person) -> None:
    host.refusals["gone@example.org"] = "550 no such mailbox"
    client = visit(ma)
    answer = invite_by(client, "New Person <new@example.org>\ngone@example.org")
    page = answer.content.decode()
    assert "They are being sent by mail" in page
    assert page.count("on its way to") == 2
    send_all()
    assert host.recipients == ["new@example.org"]
    page = get_page(client, "/people/-/invitations/")
    assert re.search(r"sent to new@example.org \(", page)
    assert "550 no such mailbox" in page
    path = find_path(get_text(host.messages[0]), "join")
    account = {"name": "newcomer", "display_name": "", "password": GOOD, "again": GOOD, "others": ""}
    assert Client().post(path, account)["Location"] == "/"
    assert AuditEvent.objects.filter(verb="send_invitation").count() == 2


def test_a_mail_that_was_refused_is_sent_again_with_the_same_link(host: MailHost, ma: Person) -> None:
    host.refusals["full@example.org"] = "552 mailbox full"
    client = visit(ma)
    invite_by(client, "full@example.org")
    invitation = Invitation.objects.get()
    resend = reverse("invitation-resend", args=[invitation.pk])
    assert client.post(resend).status_code == 409  # it is on its way
    send_all()
    assert f'action="{resend}"' in get_page(client, "/people/-/invitations/")
    host.refusals.clear()
    answer = client.post(resend, follow=True)
    assert "The invitation is sent again" in answer.content.decode()
    assert f'action="{resend}"' not in answer.content.decode()
    send_all()
    assert host.recipients == ["full@example.org"]
    account = {"name": "newcomer", "display_name": "", "password": GOOD, "again": GOOD, "others": ""}
    assert Client().post(find_path(get_text(host.messages[0]), "join"), account)["Location"] == "/"
    assert AuditEvent.objects.filter(verb="send_invitation").count() == 2
    OutgoingMail.objects.update(state="failed")
    assert client.post(resend).status_code == 409  # it was accepted
    assert f'action="{resend}"' not in get_page(client, "/people/-/invitations/")


def test_a_line_without_an_address_sends_nothing_at_all(host: MailHost, ma: Person) -> None:
    answer = invite_by(visit(ma), "new@example.org\nLin Wei")
    assert answer.status_code == 422
    assert "is no e-mail address" in answer.content.decode()
    assert not Invitation.objects.exists()
    assert invite_by(visit(ma), "Lin Wei", send="").status_code == 200
    assert Invitation.objects.count() == 1
    assert not OutgoingMail.objects.exists()


def test_so_many_invitations_a_day_by_mail(host: MailHost, ma: Person, settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = settings.ACCOUNT_RATE_LIMITS | {"mail_invitation": "2/d/key"}
    client = visit(ma)
    invite_by(client, "a@example.org\nb@example.org")
    assert Invitation.objects.count() == 2
    answer = invite_by(client, "c@example.org")
    assert answer.status_code == 422
    assert "Too many mails in a day" in answer.content.decode()


# For operators.


def test_operations_show_what_waits_and_what_failed(
    host: MailHost, ma: Person, lin: Person, admin: Client
) -> None:
    host.refusals["gone@example.org"] = "550 no such mailbox"
    invite_by(visit(ma), "gone@example.org")
    send_all()
    host.data_answer = "451 try later"
    give_address(lin)
    post_mail(kind=MailKind.ADDRESS_CHANGED, person=lin, address="later@example.org", language="en")
    send_all()
    page = get_page(admin, "/operations/")
    assert "550 no such mailbox" in page
    assert "451 try later" in page
    assert "In the last 7 days: 0 sent, 1 not sent." in page
    assert "send_mail" not in page
    assert "send_mail" in get_page(admin, "/operations/?state=done")
    metrics = render_metrics()[0].decode()
    assert 'assay_mail{state="waiting"} 1.0' in metrics
    assert 'assay_mail{state="failed"} 1.0' in metrics
    assert "assay_oldest_waiting_mail_seconds" in metrics


def test_operations_say_that_no_mail_is_sent(admin: Client) -> None:
    assert "EMAIL_URL is empty" in get_page(admin, "/operations/")
    assert "assay_mail" not in render_metrics()[0].decode()


def run_doctor(*names: str) -> str:
    output = StringIO()
    try:
        call_command("doctor", "--only", *names, stdout=output)
    except SystemExit:
        output.write("exit 1")
    return output.getvalue()


def test_the_doctor_asks_the_server_and_the_outbox(host: MailHost, settings: Any, lin: Person) -> None:
    assert "answers" in run_doctor("mail server")
    assert "0 sent, 0 wait" in run_doctor("mail")
    give_address(lin)
    post_mail(kind=MailKind.ADDRESS_CHANGED, person=lin, address="x@example.org", language="en")
    OutgoingMail.objects.update(created_at=timezone.now() - timedelta(hours=1))
    assert "the oldest for 60 minutes" in run_doctor("mail")
    use_server(settings, "smtp://127.0.0.1:1")
    report = run_doctor("mail server")
    assert "FAULT" in report
    assert "send_test_mail" in report


def test_send_test_mail(host: MailHost) -> None:
    output = StringIO()
    call_command("send_test_mail", "lin@example.org", stdout=output)
    assert output.getvalue() == f"smtp://127.0.0.1:{host.port} took a mail to lin@example.org.\n"
    assert host.messages[0]["Subject"] == "A test mail from Assay"
    host.refusals["lin@example.org"] = "550 no"
    with pytest.raises(SystemExit):
        call_command("send_test_mail", "lin@example.org")
    assert list_states() == []


@pytest.mark.parametrize("page", ["/account/mail/", "/sign-in/forgotten/"])
def test_pages_in_chinese(host: MailHost, lin: Person, page: str) -> None:
    client = visit(lin) if page.startswith("/account") else Client()
    text = client.get(page, headers={"Accept-Language": "zh-hans"}).content.decode()
    assert re.search("邮箱", text)
    assert "Mail goes" not in text


def test_where_passwords_are_switched_off_no_link_is_sent(host: MailHost, settings: Any):
    settings.LOCAL_PASSWORDS = False
    give_address(Person.objects.create_user("lin"), "lin@example.org")
    answer = Client().post(reverse("password-forgotten"), {"address": "lin@example.org"})
    assert b"Passwords are off on this site" in answer.content
    assert not OutgoingMail.objects.exists()
