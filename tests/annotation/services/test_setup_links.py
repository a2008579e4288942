"""Set-up links: the person sets their own password, and is told of every link."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.core.errors import Conflict, Forbidden, NotFound
from annotation.models import ApiToken, AuditEvent, Person, SetupLink
from annotation.selectors.people import list_setup_link_notices
from annotation.services.people.invitations import LinkEnded
from annotation.services.people.people import activate_person, deactivate_person, set_display_name, set_roles
from annotation.services.people.setup_links import make_setup_link, revoke_setup_link, use_setup_link
from tests.annotation.services.test_races import at_once
from tests.support import api_token

pytestmark = pytest.mark.django_db
GOOD = "glacier-lantern-42"
SENT = {"password": GOOD, "again": GOOD}
NOTICE = "Links were made by which your password can be set"


def visit(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def made_by(manager: Person, name: str = "lin") -> str:
    """The path of the link that the page shows once."""
    answer = visit(manager).post(f"/people/{name}/link/")
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    (path,) = re.findall(r"http://testserver(/set-up/[^/\"]+/)", answer.content.decode())
    return str(path)


def test_the_person_sets_their_own_password_and_is_told(lin: Person, ma: Person) -> None:
    token, elsewhere, guest = api_token(person=lin), visit(lin), Client()
    path = made_by(ma)
    assert elsewhere.get("/account/").status_code == 200  # making a link ends nothing
    page = guest.get(path)
    assert page.status_code == 200
    assert ("no-store" in page["Cache-Control"], page["Referrer-Policy"]) == (True, "strict-origin")
    assert guest.post(path, SENT)["location"] == "/"
    home = guest.get("/", follow=True).content.decode()
    assert NOTICE in home
    assert "ma made a link on" in home
    assert "It was used on" in home
    assert elsewhere.get("/account/").status_code == 302  # that session ended
    answer = Client().get("/api/v1/batches/", headers={"Authorization": f"Token {token}"})
    assert answer.status_code == 401
    assert ApiToken.objects.get().ended_why == "password"
    assert Client().login(username="lin", password=GOOD)
    used = AuditEvent.objects.get(verb="use_setup_link")
    assert (used.actor, used.target, used.data["made_by"]) == (lin, "person:lin", "ma")
    assert AuditEvent.objects.get(verb="make_setup_link").data["had_password"] is True


def test_a_link_works_once_and_its_secret_is_nowhere(lin: Person, ma: Person) -> None:
    path = made_by(ma)
    secret = path.split("/")[2]
    assert len(secret) * 6 >= 256
    assert secret not in visit(ma).get("/people/lin/").content.decode()
    assert secret not in str([*SetupLink.objects.values_list(), *AuditEvent.objects.values_list("data")])
    Client().post(path, SENT)
    second_answer = Client().post(path, {"password": GOOD + "x", "again": GOOD + "x"})
    assert second_answer.status_code == 410
    assert Client().login(username="lin", password=GOOD)


BAD: list[dict[str, str]] = [
    {},
    {"password": GOOD},
    {"password": GOOD, "again": "x"},
    {"password": "1", "again": "1"},
    {"password": "12345678", "again": "12345678"},
]


@pytest.mark.parametrize("sent", BAD)
def test_a_bad_password_is_refused_and_the_link_still_works(
    lin: Person, ma: Person, sent: dict[str, str]
) -> None:
    path = made_by(ma)
    assert Client().post(path, sent).status_code == 422
    assert Client().post(path, SENT).status_code == 302


def ended(link: SetupLink, ma: Person) -> dict[str, Callable[[], object]]:
    lin = link.person
    return {
        "expired": lambda: SetupLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1)),
        "withdrawn": lambda: revoke_setup_link(link_id=link.pk, person=lin, actor=ma),
        "another": lambda: make_setup_link(person=lin, actor=ma),
        "maker left": lambda: set_roles(person=ma, roles=[]),
        "maker shut out": lambda: Person.objects.filter(pk=ma.pk).update(is_active=False),
        "password": lambda: (lin.set_password(GOOD + "x"), lin.save()),
        "became an admin": lambda: Person.objects.filter(pk=lin.pk).update(is_superuser=True),
        "shut out and back": lambda: (
            deactivate_person(person=lin, actor=ma),
            activate_person(person=lin, actor=ma),
        ),
    }


WAYS = (
    "expired",
    "withdrawn",
    "another",
    "maker left",
    "maker shut out",
    "password",
    "became an admin",
    "shut out and back",
)


@pytest.mark.parametrize("ending", WAYS)
def test_a_link_ends(lin: Person, ma: Person, ending: str) -> None:
    path = made_by(ma)
    ended(SetupLink.objects.get(), ma)[ending]()
    assert [Client().get(path).status_code, Client().post(path, SENT).status_code] == [410, 410]
    assert not Client().login(username="lin", password=GOOD)


def test_whoever_is_somebody_else_cannot_use_it_while_signed_in(lin: Person, ma: Person) -> None:
    path, manager = made_by(ma), visit(ma)
    page = manager.get(path)
    assert "This link is for somebody else" in page.content.decode()
    assert manager.post(path, SENT).status_code == 409
    assert not Client().login(username="lin", password=GOOD)
    assert Client().get("/set-up/nonsense/").status_code == 404


def test_a_takeover_is_told_to_whoever_was_taken_over(lin: Person, ma: Person, he: Person) -> None:
    """The manager uses the link, signs in as the person and says that it was read; the person comes back by another."""
    thief = Client()
    thief.post(made_by(ma), SENT)
    assert NOTICE in thief.get("/account/").content.decode()
    thief.post("/account/links/seen/")
    assert NOTICE not in thief.get("/account/").content.decode()
    set_roles(person=he, roles=["manager"])
    owner = Client()
    owner.post(made_by(he), {"password": GOOD + "2", "again": GOOD + "2"})
    page = owner.get("/account/").content.decode()
    notice = page.partition(NOTICE)[2].partition("</section>")[0]
    assert "ma made a link on" in notice
    assert "he made a link on" in notice
    assert notice.count("It was used on") == 2


def test_the_notice_stays_until_it_is_read_and_comes_back_when_the_link_is_used(
    lin: Person, ma: Person
) -> None:
    client = visit(lin)
    assert NOTICE not in client.get("/account/").content.decode()
    path = made_by(ma)
    assert all("It was not used yet" in client.get("/account/").content.decode() for _ in range(2))
    assert client.post("/account/links/seen/").status_code == 302
    page = client.get("/account/").content.decode()
    assert NOTICE not in page
    assert "ma made a link on" in page  # the account still lists it
    Client().post(path, SENT)
    assert NOTICE in visit(Person.objects.get(pk=lin.pk)).get("/account/").content.decode()


def test_nobody_elses_links_are_told(lin: Person, chen: Person, ma: Person) -> None:
    made_by(ma)
    assert NOTICE not in visit(chen).get("/account/").content.decode()
    visit(chen).post("/account/links/seen/")
    assert SetupLink.objects.get().seen_at is None


def test_whom_a_manager_makes_no_link_for(lin: Person, ma: Person, he: Person) -> None:
    admin = Person.objects.create_superuser("root")
    with pytest.raises(Forbidden):
        make_setup_link(person=admin, actor=ma)
    with pytest.raises(Conflict):
        make_setup_link(person=ma, actor=ma)
    deactivate_person(person=lin, actor=ma)
    with pytest.raises(Conflict):
        make_setup_link(person=lin, actor=ma)
    assert visit(he).post("/people/ma/link/").status_code == 403
    make_setup_link(person=ma, actor=admin)


def test_a_link_is_withdrawn_under_its_own_person_alone(lin: Person, chen: Person, ma: Person) -> None:
    link, _secret = make_setup_link(person=lin, actor=ma)
    with pytest.raises(NotFound):
        revoke_setup_link(link_id=link.pk, person=chen, actor=ma)
    assert visit(ma).post(f"/people/lin/link/{link.pk}/revoke/").status_code == 302
    assert AuditEvent.objects.filter(verb="revoke_setup_link", actor=ma).count() == 1


def test_a_new_person_comes_with_a_link(ma: Person) -> None:
    answer = visit(ma).post("/people/-/new/", {"name": "gao", "roles": ["annotator"]})
    (path,) = re.findall(r"http://testserver(/set-up/[^/\"]+/)", answer.content.decode())
    guest = Client()
    assert guest.post(path, SENT).status_code == 302
    assert guest.get("/account/").status_code == 200


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_several_at_once_one_sets_the_password(lin: Person, ma: Person) -> None:
    _link, secret = make_setup_link(person=lin, actor=ma)
    passwords = [f"{GOOD}-{number}" for number in range(3)]
    came = at_once([partial(use_setup_link, secret=secret, password=password) for password in passwords])
    assert sorted(type(outcome).__name__ for outcome in came) == ["LinkEnded", "LinkEnded", "Person"]
    assert sum(Client().login(username="lin", password=password) for password in passwords) == 1
    with pytest.raises(LinkEnded):
        use_setup_link(secret=secret, password=GOOD)


def test_a_borrowed_display_name_does_not_hide_who_made_the_link(lin: Person, ma: Person) -> None:
    set_display_name(person=ma, display_name="lin", actor=ma)
    make_setup_link(person=lin, actor=ma)
    client = Client()
    client.force_login(lin)
    assert "lin (ma) made a link" in client.get(reverse("work")).content.decode()


def test_a_takeover_is_told_after_a_long_leave_as_well(lin: Person, ma: Person) -> None:
    """Whoever used the link said that it was read, too."""
    _link, secret = make_setup_link(person=lin, actor=ma)
    use_setup_link(secret=secret, password=GOOD)
    long_ago = timezone.now() - timedelta(days=400)
    SetupLink.objects.update(created_at=long_ago, accepted_at=long_ago, seen_at=long_ago)
    assert list_setup_link_notices(lin) == []
    make_setup_link(person=lin, actor=ma)
    assert [state for _link, state in list_setup_link_notices(lin)] == ["waiting", "accepted"]
