from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.batch_spec import Policy
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    EvaluatedModel,
    Guideline,
    Membership,
    Person,
    Prompt,
    Task,
)
from annotation.selectors.batches.needs import list_needs
from annotation.selectors.people import BatchRestriction, list_restrictions
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import join_batch
from annotation.services.people.people import (
    activate_person,
    add_person,
    deactivate_person,
    set_display_name,
    set_languages,
    set_own_models,
    set_roles,
)
from annotation.services.people.setup_links import make_setup_link
from tests.support import api_token, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db
GOOD = "glacier-lantern-42"


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def admin(db: None) -> Person:
    return Person.objects.create_superuser("root", password=GOOD)


PAGES = ("people", "person-new")
ABOUT_ONE = (
    "person-roles",
    "person-name",
    "person-languages",
    "person-models",
    "person-link",
    "person-active",
)


def test_only_managers_open_the_pages(
    client: Client, lin: Person, wu: Person, he: Person, stranger: Person, ma: Person
) -> None:
    person_url = reverse("person", args=["lin"])
    for person in (lin, wu, he, stranger):
        client.force_login(person)
        assert [client.get(page).status_code for page in (*map(reverse, PAGES), person_url)] == [403] * 3
        assert [client.post(reverse(name, args=["lin"])).status_code for name in ABOUT_ONE] == [403] * len(
            ABOUT_ONE
        )
    client.force_login(ma)
    assert [client.get(page).status_code for page in (*map(reverse, PAGES), person_url)] == [200] * 3


def test_anonymous_is_sent_to_sign_in(client: Client, lin: Person) -> None:
    for url in (*map(reverse, PAGES), reverse("person", args=["lin"]), reverse("account")):
        assert client.get(url)["location"].startswith(reverse("login"))
    for name in ABOUT_ONE:
        assert client.post(reverse(name, args=["lin"]))["location"].startswith(reverse("login"))


def test_a_manager_adds_a_person_who_sets_a_password_by_a_link(manager: Client, ma: Person) -> None:
    sent = {"name": "gao", "display_name": "高", "roles": ["annotator", "adjudicator"]}
    answer = manager.post(reverse("person-new"), sent)
    assert answer.status_code == 200
    assert "/set-up/" in answer.content.decode()
    made = Person.objects.get(username="gao")
    assert set(made.study_memberships.values_list("role", flat=True)) == {"annotator", "adjudicator"}
    assert not made.has_usable_password()
    assert AuditEvent.objects.filter(verb="add_person", actor=ma, target="person:gao").count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "lin"}, "already a person named lin"),
        ({"name": "a b"}, "cannot be a person"),
        ({"roles": ["king"]}, "Select a valid choice"),
    ],
)
def test_a_person_who_cannot_be_is_refused_in_words(
    manager: Client, lin: Person, changes: dict[str, object], words: str
) -> None:
    before = Person.objects.count()
    answer = manager.post(reverse("person-new"), {"name": "gao", "roles": []} | changes)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Person.objects.count() == before


def test_a_manager_changes_groups_and_name(manager: Client, lin: Person) -> None:
    manager.post(reverse("person-roles", args=["lin"]), {"roles": ["researcher"]})
    manager.post(reverse("person-name", args=["lin"]), {"display_name": "Lin Yi"})
    lin.refresh_from_db()
    assert list(lin.study_memberships.values_list("role", flat=True)) == ["researcher"]
    assert str(lin) == "Lin Yi"


def test_a_manager_cannot_shut_themselves_out(manager: Client, ma: Person) -> None:
    assert manager.post(reverse("person-active", args=["ma"]), {"active": "0"}).status_code == 409
    assert manager.post(reverse("person-roles", args=["ma"]), {"roles": ["annotator"]}).status_code == 409
    ma.refresh_from_db()
    assert ma.is_active
    assert ma.study_memberships.filter(role="manager").exists()


@pytest.mark.both_databases
def test_shutting_out_gives_back_what_is_at_hand_and_ends_session_and_token(
    manager: Client, batch: Batch, lin: Person
) -> None:
    label_next(batch, lin, 3)
    held = claim_next_task(batch=batch, person=lin)
    assert held is not None
    token = api_token(person=lin)
    elsewhere = Client()
    elsewhere.force_login(lin)
    assert manager.post(reverse("person-active", args=["lin"]), {"active": "0"}).status_code == 302
    held.refresh_from_db()
    held.task.refresh_from_db()
    assert (held.state, held.task.slots_taken) == ("released", 0)
    assert lin.assignments.filter(state="submitted").count() == 1
    assert elsewhere.get(reverse("account")).status_code == 302
    api = Client().post(
        reverse("api-schema").replace("schema/", f"batches/{batch.name}/next/"),
        headers={"Authorization": f"Token {token}"},
    )
    assert api.status_code == 401
    assert AuditEvent.objects.get(verb="deactivate").data == {"released": 1}
    assert manager.post(reverse("person-active", args=["lin"]), {"active": "1"}).status_code == 302
    next_claim = claim_next_task(batch=batch, person=Person.objects.get(pk=lin.pk))
    assert next_claim is not None
    assert next_claim != held  # what was given back comes last


def test_shutting_out_twice_changes_nothing(lin: Person, ma: Person) -> None:
    assert deactivate_person(person=lin, actor=ma) == 0
    assert deactivate_person(person=lin, actor=ma) == 0
    assert AuditEvent.objects.filter(verb="deactivate").count() == 1
    activate_person(person=lin, actor=ma)
    activate_person(person=lin, actor=ma)
    assert AuditEvent.objects.filter(verb="activate").count() == 1


def test_a_manager_has_no_power_over_an_admin(manager: Client, ma: Person, admin: Person) -> None:
    with pytest.raises(Forbidden):
        make_setup_link(person=admin, actor=ma)
    with pytest.raises(Forbidden):
        deactivate_person(person=admin, actor=ma)
    with pytest.raises(Forbidden):
        set_roles(person=admin, roles=[], actor=ma)
    with pytest.raises(Forbidden):
        set_display_name(person=admin, display_name="x", actor=ma)
    sent = {"active": "0", "roles": []}
    assert [manager.post(reverse(name, args=["root"]), sent).status_code for name in ABOUT_ONE] == [
        403
    ] * len(ABOUT_ONE)
    assert manager.get(reverse("person", args=["root"])).status_code == 200
    with pytest.raises(Conflict):
        deactivate_person(person=admin, actor=admin)


# ---------------------------------------------------------------- languages and own models


@pytest.fixture
def bilingual(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person, wu: Person
) -> Batch:
    """Eight tasks, four in Chinese and four in English, planned evenly for lin, chen and zhou."""
    for language, keys in (("zh", ["p0", "p1"]), ("en", ["p2", "p3"])):
        Prompt.objects.filter(key__in=keys).update(language=language)
    return make_batch(
        guideline,
        dataset,
        annotators=[lin, chen, zhou],
        adjudicators=[wu],
        policy=Policy(pairing="balanced"),
    )


def planned_for(person: Person, **filters: object) -> int:
    return Task.objects.filter(panel__members__person=person, **filters).count()


def test_a_manager_says_what_somebody_reads(manager: Client, bilingual: Batch, lin: Person) -> None:
    page = manager.get(reverse("person", args=["lin"])).content.decode()
    assert 'value="zh"' in page
    assert 'value="en"' in page
    url = reverse("person-languages", args=["lin"])
    assert manager.post(url, {"languages": ["zh"], "others": "pt_BR， ZH"}).status_code == 302
    lin.refresh_from_db()
    assert lin.languages == ["zh", "pt-BR"]
    page = manager.get(reverse("person", args=["lin"])).content.decode()
    assert "4 of 8 open items are not for this person" in page
    assert AuditEvent.objects.get(verb="set_languages").data == {"languages": ["zh", "pt-BR"]}
    assert manager.post(url, {"others": ""}).status_code == 302
    lin.refresh_from_db()
    assert lin.languages == []
    assert "are not for this person" not in manager.get(reverse("person", args=["lin"])).content.decode()


@pytest.mark.parametrize("bad", ["Chinese, simplified!", "中文", "x" * 21, "e"])
def test_what_is_no_language_tag_is_refused_in_words(manager: Client, lin: Person, bad: str) -> None:
    answer = manager.post(reverse("person-languages", args=["lin"]), {"others": bad})
    assert answer.status_code == 422
    assert "is no language tag" in answer.content.decode()
    lin.refresh_from_db()
    assert lin.languages == []


@pytest.mark.both_databases
def test_what_was_planned_in_another_language_goes_to_others_at_once(
    bilingual: Batch, lin: Person, chen: Person, zhou: Person, ma: Person
) -> None:
    assert planned_for(lin, prompt__language="en") > 0
    Membership.objects.filter(person=lin).update(cursor=10**6)
    set_languages(person=lin, languages=["zh-Hans", "zh"], actor=ma)
    assert planned_for(lin, prompt__language="en") == 0
    assert planned_for(lin, prompt__language="zh") > 0
    # Whoever is left takes it all: every English task is chen's and zhou's.
    assert (planned_for(chen, prompt__language="en"), planned_for(zhou, prompt__language="en")) == (4, 4)
    assert Membership.objects.get(person=lin).cursor == Membership.START
    assert list_needs(bilingual, limit=9) == []
    while label_next(bilingual, lin, 3):
        pass
    assert {
        assignment.task.prompt.language for assignment in lin.assignments.select_related("task__prompt")
    } == {"zh"}


@pytest.mark.both_databases
def test_own_models_go_to_others_and_are_nobodys_where_too_few_are_left(
    bilingual: Batch, lin: Person, chen: Person, ma: Person
) -> None:
    own = EvaluatedModel.objects.filter(name="Hidden-13B")
    set_own_models(person=lin, models=own, actor=ma)
    assert planned_for(lin, response__model__name="Hidden-13B") == 0
    assert list_needs(bilingual, limit=9) == []
    set_own_models(person=chen, models=own, actor=ma)
    for person in (lin, chen):
        while label_next(bilingual, person, 3):
            pass
        assert {assignment.task.response.model.name for assignment in person.assignments.all()} <= {
            "Secretive-7B"
        }
    for _task in range(8):
        label_next(bilingual, Person.objects.get(username="zhou"), 3)
    # The four of the model have zhou's label and need a second person.
    assert len(list_needs(bilingual, limit=9)) == 4
    set_own_models(person=chen, models=[], actor=ma)
    assert list_needs(bilingual, limit=9) == []
    events = AuditEvent.objects.filter(verb="set_own_models").order_by("pk")
    assert [event.data["models"] for event in events] == [["Hidden-13B"], ["Hidden-13B"], []]


def test_what_is_at_hand_may_be_finished(bilingual: Batch, lin: Person, ma: Person) -> None:
    held = claim_next_task(batch=bilingual, person=lin)
    assert held is not None
    other = {"zh": "en", "en": "zh"}[held.task.prompt.language]
    set_languages(person=lin, languages=[other], actor=ma)
    held.refresh_from_db()
    assert held.state == "claimed"
    assert label_next(bilingual, lin, 3) is not None
    held.refresh_from_db()
    assert held.state == "submitted"


def test_saying_the_same_again_changes_and_records_nothing(bilingual: Batch, lin: Person, ma: Person) -> None:
    own = list(EvaluatedModel.objects.filter(name="Hidden-13B"))
    for _time in range(2):
        set_languages(person=lin, languages=["zh"], actor=ma)
        set_own_models(person=lin, models=own, actor=ma)
    verbs = AuditEvent.objects.filter(target="person:lin").values_list("verb", flat=True)
    assert sorted(verbs) == ["add_person", "set_languages", "set_own_models"]


def test_a_closed_batch_stays_as_it_is(bilingual: Batch, lin: Person, ma: Person) -> None:
    set_state(batch=bilingual, state="closed")
    before = planned_for(lin)
    set_languages(person=lin, languages=["zh"], actor=ma)
    assert planned_for(lin) == before
    assert list_restrictions(lin, reader=ma) == []


def test_a_model_that_is_judged_blind_is_neither_shown_nor_changed(
    client: Client, bilingual: Batch, lin: Person, ma: Person
) -> None:
    make_corpus(prompts=1, models=["Open-3B", "Known-1B"], name="other")
    hidden = EvaluatedModel.objects.get(name="Hidden-13B")
    set_own_models(person=lin, models=[hidden], actor=ma)
    client.force_login(ma)
    assert "Hidden-13B" in client.get(reverse("person", args=["lin"])).content.decode()
    assert list_restrictions(lin, reader=ma) == [BatchRestriction(bilingual, 8, 4)]
    join_batch(batch=bilingual, role="annotator", people=[ma])
    page = client.get(reverse("person", args=["lin"])).content.decode()
    assert "Open-3B" in page
    for name in ("Hidden-13B", "Secretive-7B", "open items are not for this person"):
        assert name not in page
    url = reverse("person-models", args=["lin"])
    assert client.post(url, {"models": [hidden.pk]}).status_code == 422
    known = EvaluatedModel.objects.get(name="Known-1B")
    assert client.post(url, {"models": [known.pk]}).status_code == 302
    assert set(lin.own_models.all()) == {hidden, known}
    assert client.post(url, {}).status_code == 302
    assert set(lin.own_models.all()) == {hidden}


def test_the_command_says_what_a_new_person_reads_and_built(dataset: Dataset) -> None:
    out = StringIO()
    arguments = [
        "gao",
        "--languages",
        "zh,en",
        "pt-BR",
        "--own-models",
        "Hidden-13B",
        "--json",
    ]
    call_command("add_person", *arguments, stdout=out)
    made = json.loads(out.getvalue())
    assert (made["languages"], made["own_models"]) == (["zh", "en", "pt-BR"], ["Hidden-13B"])
    gao = Person.objects.get(username="gao")
    assert gao.languages == ["zh", "en", "pt-BR"]
    assert [model.name for model in gao.own_models.all()] == ["Hidden-13B"]
    with pytest.raises(AssayError, match="no language tag"):
        add_person(name="sun", languages=["?"])


# ---------------------------------------------------------------- one's own account


def test_everybody_changes_their_own_name_and_password(client: Client, stranger: Person) -> None:
    client.force_login(stranger)
    client.post(reverse("account-name"), {"display_name": "Someone"})
    wrong = {"old_password": "not it", "password": GOOD}
    assert client.post(reverse("account-password"), wrong).status_code == 422
    right = {"old_password": "stranger-password", "password": GOOD}
    assert client.post(reverse("account-password"), right).status_code == 302
    assert client.get(reverse("account")).status_code == 200  # this session goes on
    stranger.refresh_from_db()
    assert str(stranger) == "Someone"
    assert Client().login(username="stranger", password=GOOD)


def test_the_address_of_a_form_leads_back_to_its_page(manager: Client, lin: Person) -> None:
    """What a form answers may be a page at its own address, where one can ask for another language or sign in anew."""
    token = {"name": "nightly", "scope": "read", "days": "30"}
    made = {reverse("person-link", args=["lin"]): {}, reverse("account-token"): token}
    for address, fields in made.items():
        assert manager.post(address, fields).status_code == 200
        switched = manager.post(
            reverse("set_language"), {"language": "zh-hans", "next": address}, follow=True
        )
        assert switched.status_code == 200, address
    for view in ("roles", "name", "languages", "models", "exposure"):
        answer = manager.get(reverse(f"person-{view}", args=["lin"]))
        assert answer.url == reverse("person", args=["lin"])  # type: ignore[attr-defined]
    for view in ("name", "care", "topics", "password"):
        assert manager.get(reverse(f"account-{view}")).url == reverse("account")  # type: ignore[attr-defined]


def test_the_menu_leads_to_the_account_and_names_the_groups(client: Client, wu: Person) -> None:
    client.force_login(wu)
    page = client.get(reverse("account")).content.decode()
    assert f'href="{reverse("account")}"' in page
    assert "Adjudicator" in page
