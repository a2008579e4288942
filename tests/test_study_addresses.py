"""Two studies on one site: who is a member of one is told nothing of the other, by no address and by no list."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import get_script_prefix

from annotation.core.study_scope import get_study_scope, limit_to_studies
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Guideline, Person, Study
from annotation.services.people.people import add_person, set_roles
from annotation.services.people.tokens import make_token
from annotation.services.releases import cut_release
from annotation.services.studies import create_study
from tests.benchmark.support import ready_scorer, settle_by_dimension
from tests.support import make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
OFFICE = ("manager", "researcher")


@pytest.fixture
def studies(guideline: Guideline, lin: Person, chen: Person) -> dict[str, Study]:
    """``alpha`` and ``beta``, each with a batch ``pilot`` and one of its own, a release, a scorer and a manager."""
    made = {}
    for name in ("alpha", "beta"):
        study = made[name] = create_study(name=name)
        with limit_to_studies([study.pk]):
            for person in (lin, chen):
                set_roles(person=person, roles=["annotator"])
            dataset = make_corpus(prompts=4, models=[f"Model-of-{name}"], name=f"data-{name}")
            pilot = make_batch(guideline, dataset, annotators=[lin, chen], name="pilot")
            settle_by_dimension(pilot)
            pilot.state = Batch.State.CLOSED
            pilot.save(update_fields=["state"])
            make_batch(guideline, dataset, annotators=[lin, chen], name=f"only-{name}")
            release = cut_release(ReleaseSpec(name=f"gold-{name}", batches=[pilot]))
            ready_scorer(release, guideline, name=f"scorer-{name}")
            add_person(name=f"boss-{name}", roles=OFFICE)
    return made


def visit(name: str) -> Client:
    client = Client()
    client.force_login(Person.objects.get(username=name))
    return client


PAGES = (
    "/batches/only-{}/",
    "/batches/only-{}/tasks/",
    "/batches/only-{}/people/",
    "/batches/-/new/data-{}/",
    "/releases/gold-{}/",
    "/releases/gold-{}/datasheet/",
    "/agreement/?batch=only-{}",
    "/people/boss-{}/",
)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_of_another_study_is_not_there(studies: dict[str, Study], page: str):
    boss = visit("boss-alpha")
    assert boss.get(page.format("alpha")).status_code == 200
    answer, missing = boss.get(page.format("beta")), boss.get(page.format("none"))
    assert (answer.status_code, missing.status_code) == (404, 404)
    with transaction.atomic():
        assert boss.post(page.format("beta")).status_code == boss.post(page.format("none")).status_code


def test_a_scorer_of_another_study_is_not_there(studies: dict[str, Study]):
    boss = visit("boss-alpha")
    for tab in ("", "export/"):
        missing = [boss.get(f"/scorers/scorer-{name}/{tab}").status_code for name in ("beta", "none")]
        assert missing == [404, 404]


def test_numbers_of_rows_lead_to_no_other_study(studies: dict[str, Study]):
    boss = visit("boss-alpha")
    (own, other) = (Batch.objects.get(name=f"only-{name}").tasks.first() for name in ("alpha", "beta"))
    assert own is not None
    assert other is not None
    assert boss.get(f"/tasks/{own.pk}/").status_code == 200
    assert boss.get(f"/tasks/{other.pk}/").status_code == 404


@pytest.mark.parametrize(
    "page",
    ["/", "/batches/", "/batches/-/new/", "/releases/", "/scorers/", "/runs/", "/people/", "/agreement/"],
)
def test_no_list_names_another_study(studies: dict[str, Study], page: str):
    for prefix in ("", "/s/alpha"):
        answer = visit("boss-alpha").get(f"{prefix}{page}")
        assert answer.status_code == 200
        assert "beta" not in answer.content.decode()


def test_an_address_with_a_study_is_within_it(studies: dict[str, Study]):
    boss = visit("boss-alpha")
    page = boss.get("/s/alpha/batches/pilot/").content.decode()
    assert 'href="/s/alpha/batches/pilot/tasks/"' in page
    assert 'href="/batches/' not in page
    for name in ("beta", "gamma"):
        assert boss.get(f"/s/{name}/batches/pilot/").status_code == 404
    assert (get_script_prefix(), get_study_scope()) == ("/", None)
    answer = Client().get("/s/beta/batches/pilot/")
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/?next=/s/beta/batches/pilot/")


def test_among_several_studies_an_address_without_one_leads_to_what_has_the_name(studies: dict[str, Study]):
    boss = visit("boss-alpha")
    with limit_to_studies([studies["beta"].pk]):
        set_roles(person=Person.objects.get(username="boss-alpha"), roles=["researcher"])
    page = boss.get("/releases/gold-beta/").content.decode()
    assert 'href="/s/beta/releases/gold-beta/datasheet/"' in page
    assert boss.get("/batches/only-alpha/").status_code == 200
    assert boss.get("/batches/only-beta/").status_code == 403  # a researcher there, and no manager
    assert boss.get("/releases/none/").status_code == 404
    for several in ("/releases/", "/batches/pilot/"):
        answer = boss.get(several)
        assert (answer.status_code, answer["Location"]) == (302, "/")
    home = boss.get("/").content.decode()
    assert 'href="/s/alpha/"' in home
    assert 'href="/s/beta/"' in home
    assert boss.post("/batches/pilot/state/", {"state": "open"}).status_code == 404


def test_a_program_is_within_a_study_as_well(studies: dict[str, Study], lin: Person):
    _token, text = make_token(person=lin, name="loop", scope="work", days=1, actor=lin)
    client = Client(headers={"Authorization": f"Token {text}"})
    json_type = "application/json"
    answer = client.post("/api/v1/batches/only-beta/next/", "{}", content_type=json_type)
    assert answer.status_code == 200
    held = json.loads(answer.content)["assignment"]
    sent = json.dumps({"labels": {"compliance": 3}})
    headers = {"Idempotency-Key": "k1"}
    done = client.post(f"/api/v1/assignments/{held}/submit/", sent, content_type=json_type, headers=headers)
    assert done.status_code == 201
    assert client.post("/api/v1/batches/pilot/next/", "{}", content_type=json_type).status_code == 400
    within = client.post("/api/v1/s/beta/batches/only-beta/next/", "{}", content_type=json_type)
    assert within.status_code == 200
    assert (
        client.post("/api/v1/s/beta/batches/only-alpha/next/", "{}", content_type=json_type).status_code
        == 404
    )
    assert (
        client.post("/api/v1/s/gamma/batches/only-beta/next/", "{}", content_type=json_type).status_code
        == 404
    )


def test_who_is_shared_by_two_studies_keeps_their_account(studies: dict[str, Study], lin: Person):
    boss = visit("boss-alpha")
    page = boss.get("/people/lin/").content.decode()
    assert "beta" not in page
    for act, sent in (("link", {}), ("active", {"active": "0"}), ("name", {"display_name": "X"})):
        assert boss.post(f"/people/lin/{act}/", sent).status_code == 403
    assert boss.post("/people/lin/groups/", {"roles": ["adjudicator"]}).status_code == 302
    of_both = lin.study_memberships.filter(study__in=studies.values())
    roles = set(of_both.values_list("study__name", "role"))
    assert roles == {("alpha", "adjudicator"), ("beta", "annotator")}


def test_a_manager_takes_somebody_in_by_their_whole_name(studies: dict[str, Study]):
    boss, other = visit("boss-alpha"), Person.objects.get(username="boss-beta")
    for name in ("boss", "boss-bet", "Boss-Beta", "nobody"):
        answer = boss.post("/people/-/add/", {"username": name, "roles": ["annotator"]})
        assert answer.status_code == 422
        assert f"Nobody signs in as {name}." in answer.content.decode()
    assert boss.post("/people/-/add/", {"username": "boss-beta", "roles": []}).status_code == 422
    answer = boss.post("/people/-/add/", {"username": "boss-beta", "roles": ["annotator"]})
    assert answer["Location"] == "/people/boss-beta/"
    page = boss.get("/people/boss-beta/").content.decode()
    assert "They work in another study, too" in page
    assert 'action="/people/boss-beta/groups/"' in page
    assert 'action="/people/boss-beta/name/"' not in page
    assert boss.post("/people/boss-beta/groups/", {"roles": ["viewer"]}).status_code == 302
    roles = other.study_memberships.order_by("study__name", "role").values_list("study__name", "role")
    assert list(roles) == [("alpha", "viewer"), ("beta", "manager"), ("beta", "researcher")]


def test_an_admin_may_open_every_study(studies: dict[str, Study]):
    Person.objects.create_superuser("root")
    root = visit("root")
    for name in ("alpha", "beta"):
        assert root.get(f"/s/{name}/batches/").status_code == 200
        assert root.get(f"/batches/only-{name}/").status_code == 200
    assert root.get("/").status_code == 200


def test_an_admin_makes_a_study_with_its_managers(studies: dict[str, Study], lin: Person):
    Person.objects.create_superuser("root")
    root, boss = visit("root"), visit("boss-alpha")
    assert "New study" in root.get("/studies/").content.decode()
    assert "New study" not in boss.get("/studies/").content.decode()
    assert boss.post("/studies/-/new/", {"name": "own", "managers": "boss-alpha"}).status_code == 403
    for wrong in ({"name": "alpha"}, {"name": "a/b"}, {"managers": "boss"}, {"managers": ""}):
        assert root.post("/studies/-/new/", {"name": "own", "managers": "lin", **wrong}).status_code == 422
    form = {"name": "own", "title": "Safety of answers", "managers": "lin\nboss-alpha\n"}
    assert root.post("/studies/-/new/", form)["Location"] == "/s/own/"
    made = Study.objects.get(name="own")
    assert set(made.memberships.values_list("person__username", "role")) == {
        ("lin", "manager"),
        ("boss-alpha", "manager"),
    }
    assert "Safety of answers" in boss.get("/studies/").content.decode()
    assert boss.post("/s/own/people/-/study/", {"title": "Harm"}).status_code == 302
    assert boss.post("/s/beta/people/-/study/", {"title": "Harm"}).status_code == 404
    made.refresh_from_db()
    assert made.title == "Harm"


def test_the_operator_makes_a_study_and_sets_roles_in_it(
    lin: Person, chen: Person, capsys: pytest.CaptureFixture[str]
):
    call_command("add_study", "gamma", "--managers", "lin", "--json")
    assert json.loads(capsys.readouterr().out) == {"study": "gamma", "managers": ["lin"]}
    call_command("set_roles", "chen", "--roles", "annotator", "adjudicator", "--study", "gamma")
    gamma = Study.objects.get(name="gamma")
    assert set(gamma.memberships.values_list("person__username", "role")) == {
        ("lin", "manager"),
        ("chen", "annotator"),
        ("chen", "adjudicator"),
    }
    call_command("set_roles", "chen", "--study", "gamma")
    assert not gamma.memberships.filter(person=chen).exists()
    assert chen.study_memberships.filter(role="annotator").exists()  # of the other study
    for refused in (("add_study", "gamma"), ("add_study", "delta", "--managers", "nobody")):
        with pytest.raises(SystemExit):
            call_command(*refused)
    assert not Study.objects.filter(name="delta").exists()
