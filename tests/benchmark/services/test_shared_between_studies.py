"""A dataset, a release and a scorer that a study shares: another one reads them and works from them, changes nothing of
them, and learns nobody's name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.core.study_scope import limit_to_studies
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    AuditEvent,
    Batch,
    Collection,
    Dataset,
    Export,
    GoldRelease,
    Guideline,
    Job,
    Person,
    Study,
    StudyMembership,
)
from annotation.selectors.releases.releases import get_release
from annotation.services import jobs
from annotation.services.batches.members import add_members
from annotation.services.datasets import delete_dataset
from annotation.services.exports.base import Options
from annotation.services.exports.downloads import start_export
from annotation.services.lists import set_archived, set_row_title
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from annotation.services.sharing import end_sharing, move_dataset, share
from annotation.services.studies import create_study
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.leaderboards.freshness import compute_freshness
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.published_tables import add_published
from scoring.domain.training_spec import TrainingSpec
from scoring.models import GateAttempt, Promotion, Scorer
from scoring.selectors.scorers import find_current_scorer, list_scorer_statuses
from scoring.services import create_scorer, promote
from tests.benchmark.services.test_two_studies import ROWS
from tests.benchmark.sharing_support import finish
from tests.benchmark.studies import Part, make_part
from tests.scoring.gate_support import scorer_that_says
from tests.support import make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> None:
    settings.ASSAY_DATA_DIR = tmp_path


@pytest.fixture
def owned(
    request: pytest.FixtureRequest,
    guideline: Guideline,
    lin: Person,
    chen: Person,
    wu: Person,
    he: Person,
    ma: Person,
    zhou: Person,
) -> Part:
    """What the study alpha has; everybody works there or nowhere. With the parameter True its scorer is trained."""
    StudyMembership.objects.all().delete()
    return make_part("alpha", guideline, [lin, chen, wu, he], train=getattr(request, "param", False))


@pytest.fixture
def gamma(owned: Part, ma: Person, zhou: Person) -> Study:
    """A study with nothing in it. Ma manages both, and Zhou researches in this one."""
    study = create_study(name="gamma")
    for place, person, roles in (
        (owned.study, ma, ["manager"]),
        (study, ma, ["manager"]),
        (study, zhou, ["researcher", "manager"]),
    ):
        with limit_to_studies([place.pk]):
            set_roles(person=person, roles=roles)
    return study


def sign_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def share_scorer(owned: Part, study: Study, actor: Person) -> None:
    with limit_to_studies([owned.study.pk]):
        share(row=owned.scorer, study=study, actor=actor)


def close(batch: Batch) -> None:
    batch.state = Batch.State.CLOSED
    batch.save(update_fields=["state"])


def test_what_is_shared_is_read_once_and_again_after_a_change(
    owned: Part, gamma: Study, ma: Person, django_assert_num_queries: Any
):
    with limit_to_studies([gamma.pk]):
        assert not Dataset.objects.exists()
        with django_assert_num_queries(0):
            assert "shared_with" not in str(
                Dataset.objects.filter(pk__in=GoldRelease.objects.values("pk")).query
            )
        share_scorer(owned, gamma, ma)
        assert Dataset.objects.exists()
        with django_assert_num_queries(3):
            assert [kind.objects.count() for kind in (Dataset, GoldRelease, Scorer)] == [1, 1, 1]


def test_a_job_reads_what_was_shared_since_its_worker_began(owned: Part, gamma: Study):
    with limit_to_studies(None):
        with limit_to_studies([gamma.pk]):
            assert not Dataset.objects.exists()
        owned.run.dataset.shared_with.add(gamma)  # as another process does
        with limit_to_studies([gamma.pk], afresh=True):
            assert Dataset.objects.exists()


def test_what_a_refused_act_began_to_share_is_forgotten(owned: Part, gamma: Study, ma: Person):
    with limit_to_studies([gamma.pk]):
        Dataset.objects.create(study=gamma, name=owned.run.dataset.name)
        with pytest.raises(Conflict, match="same kind and name"):
            share_scorer(owned, gamma, ma)
        assert not Scorer.objects.exists()
        assert not GoldRelease.objects.exists()


def test_a_scorer_is_shared_with_what_it_learned_from(owned: Part, gamma: Study, ma: Person):
    share_scorer(owned, gamma, ma)
    with limit_to_studies([gamma.pk]):
        assert list(Scorer.objects.all()) == [owned.scorer]
        assert list(GoldRelease.objects.all()) == [owned.release]
        assert list(Dataset.objects.all()) == [owned.run.dataset]
        assert not BenchmarkRun.objects.exists()
        assert not Batch.objects.exists()
        assert get_release("gold-1").is_borrowed
    with limit_to_studies([owned.study.pk]):
        assert not get_release("gold-1").is_borrowed
        with pytest.raises(Conflict, match="already"):
            share(row=owned.scorer, study=gamma, actor=ma)
    events = AuditEvent.objects.filter(verb="share").order_by("pk")
    assert [(event.target, event.actor, event.data["study"], event.data["to"]) for event in events] == [
        (target, ma, "alpha", "gamma")
        for target in ("scorer:scorer-1", "goldrelease:gold-1", f"dataset:{owned.run.dataset.name}")
    ]
    assert events[1].data["sha256"] == owned.release.sha256


def test_boards_scorers_batches_and_promotions_from_what_is_shared_are_of_the_study_that_makes_them(
    owned: Part, gamma: Study, guideline: Guideline, ma: Person, zhou: Person, lin: Person, chen: Person
):
    share_scorer(owned, gamma, ma)
    close(owned.batch)
    with limit_to_studies([gamma.pk]):
        board = create_run(
            name="board",  # as the one of alpha
            scorer=owned.scorer,
            dataset=owned.run.dataset,
            collection=Collection.objects.get(name=""),
            actor=zhou,
            send=False,
        )
        finish(board)
        assert board.study == gamma
        assert RunItem.objects.filter(run=board, basis="gold").count() == owned.release.labels
        own, _job = create_scorer(TrainingSpec(name="own", release=owned.release.pk), actor=zhou, send=False)
        assert own.study == gamma
        with pytest.raises(AssayError, match="scorer-1"):
            create_scorer(TrainingSpec(name="scorer-1", release=owned.release.pk), actor=zhou, send=False)
        for person in (lin, chen):
            set_roles(person=person, roles=["annotator"])
        batch = make_batch(guideline, owned.run.dataset, annotators=[lin, chen], name="of-gamma")
        assert batch.study == gamma
        with pytest.raises(Forbidden, match="changed there alone"):
            cut_release(ReleaseSpec(name="heir", batches=[batch], supersedes=owned.release), actor=zhou)
    with limit_to_studies([owned.study.pk]):
        assert list(BenchmarkRun.objects.all()) == [owned.run]
        assert list(Scorer.objects.all()) == [owned.scorer]
        assert not compute_freshness(owned.run).is_stale


def test_a_shared_scorer_is_the_current_one_where_it_is_promoted(
    owned: Part, gamma: Study, guideline: Guideline, ma: Person, zhou: Person
):
    close(owned.batch)
    with limit_to_studies([owned.study.pk]):
        scorer = scorer_that_says(owned.release, guideline, name="better")
        share(row=scorer, study=gamma, actor=ma)
    with limit_to_studies([gamma.pk]):
        job = promote(scorer=scorer, actor=zhou, reason="It is a test.", send=False)
    jobs.run_now(Job.objects.get(pk=job.pk))
    for model in (Promotion, GateAttempt):
        assert list(model._base_manager.values_list("study__name", "number")) == [("gamma", 1)]
    with limit_to_studies([gamma.pk]):
        assert find_current_scorer("xstest") == scorer
        assert list_scorer_statuses([scorer])[scorer.pk].is_current
    with limit_to_studies([owned.study.pk]):
        assert find_current_scorer("xstest") is None
        assert not list_scorer_statuses([scorer])[scorer.pk].is_current
        assert not compute_freshness(owned.run).is_stale


def test_nothing_that_is_shared_is_changed_elsewhere(owned: Part, gamma: Study, ma: Person, tmp_path: Path):
    share_scorer(owned, gamma, ma)
    dataset = owned.run.dataset
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": "new", "text": "A new prompt", "dimension": "safe"}\n', encoding="utf-8")
    with limit_to_studies([gamma.pk]):
        for row in (owned.scorer, owned.release, dataset):
            for act in (
                lambda row=row: set_archived(row=row, archived=True, actor=ma),
                lambda row=row: set_row_title(row=row, title="Another", actor=ma),
                lambda row=row: share(row=row, study=owned.study, actor=ma),
                lambda row=row: end_sharing(row=row, study=gamma, actor=ma),
            ):
                with pytest.raises(Forbidden, match="of the study alpha"):
                    act()
        with pytest.raises(Forbidden, match="of the study alpha"):
            delete_dataset(dataset=dataset, actor=ma)
        with pytest.raises(Forbidden, match="of the study alpha"):
            move_dataset(dataset=dataset, study=gamma, actor=ma)
    with pytest.raises(SystemExit):
        call_command("import_prompts", str(file), "--dataset", dataset.name, "--study", "gamma")
    assert not dataset.prompts.filter(key="new").exists()
    assert not Dataset._base_manager.filter(study=gamma).exists()
    client = sign_in(ma)
    for address in (f"data/{dataset.name}", "releases/gold-1", "scorers/scorer-1"):
        assert client.get(f"/s/alpha/{address}/sharing/").status_code == 200
        assert client.get(f"/s/gamma/{address}/sharing/").status_code == 403


def test_sharing_ends_where_nothing_rests_on_it(owned: Part, gamma: Study, ma: Person, zhou: Person):
    share_scorer(owned, gamma, ma)
    close(owned.batch)
    with limit_to_studies([gamma.pk]):
        create_run(
            name="board",
            scorer=owned.scorer,
            dataset=owned.run.dataset,
            collection=Collection.objects.get(name=""),
            actor=zhou,
            send=False,
        )
    with limit_to_studies([owned.study.pk]):
        for row, uses in (
            (owned.scorer, "1 benchmark run"),
            (owned.release, "1 scorer"),
            (owned.run.dataset, "1 benchmark run, 1 gold release"),
        ):
            with pytest.raises(Conflict, match=uses):
                end_sharing(row=row, study=gamma, actor=ma)
        BenchmarkRun._base_manager.filter(study=gamma).delete()
        for row in (owned.scorer, owned.release, owned.run.dataset):
            assert end_sharing(row=row, study=gamma, actor=ma)
            assert not end_sharing(row=row, study=gamma, actor=ma)
    with limit_to_studies([gamma.pk]):
        assert not Scorer.objects.exists()
        assert not Dataset.objects.exists()
    assert AuditEvent.objects.filter(verb="end_sharing").count() == 3


def test_who_judges_blind_in_one_study_opens_nothing_of_it_in_another(
    owned: Part, gamma: Study, ma: Person, lin: Person
):
    """Lin annotates in the open batch of alpha, and researches in gamma."""
    share_scorer(owned, gamma, ma)
    with limit_to_studies([gamma.pk]):
        set_roles(person=lin, roles=["researcher"])
    client = sign_in(lin)
    for page in ("releases/gold-1/", "releases/gold-1/download/gold.jsonl", "scorers/scorer-1/"):
        assert client.get(f"/s/gamma/{page}").status_code == 403
    for page in ("", "data/", f"data/{owned.run.dataset.name}/", "scorers/", "releases/", "runs/-/new/"):
        answer = client.get(f"/s/gamma/{page}")
        assert answer.status_code == 200
        assert "Hidden-13B" not in answer.content.decode()
    assert "it opens for you when your batch closes" in client.get("/s/gamma/releases/").content.decode()


def test_who_judges_a_shared_dataset_blind_elsewhere_opens_nothing_of_it_at_home(
    owned: Part, gamma: Study, guideline: Guideline, ma: Person, lin: Person, chen: Person, he: Person
):
    """He researches in alpha, and annotates in a batch that gamma makes of the dataset."""
    close(owned.batch)
    client = sign_in(he)
    assert client.get("/s/alpha/releases/gold-1/").status_code == 200
    with limit_to_studies([owned.study.pk]):
        dataset = make_corpus(prompts=2, models=["Hidden-13B"], name="fresh")
        share(row=dataset, study=gamma, actor=ma)
    with limit_to_studies([gamma.pk]):
        for person in (he, chen):
            set_roles(person=person, roles=["annotator"])
        make_batch(guideline, dataset, annotators=[he, chen], name="of-gamma")
    page = client.get("/s/alpha/data/fresh/").content.decode()
    assert "Hidden-13B" not in page
    assert "You judge responses of this dataset blind" in page
    assert client.get("/s/alpha/releases/gold-1/").status_code == 200


def test_what_is_sealed_in_one_study_is_nothing_to_another_that_shares_nothing(
    owned: Part, gamma: Study, guideline: Guideline, zhou: Person, lin: Person
):
    """Zhou annotates in alpha's open batch. Gamma has a dataset of the same name, and a published table."""
    with limit_to_studies([owned.study.pk]):
        set_roles(person=zhou, roles=["annotator"])
        add_members(batch=owned.batch, role="annotator", people=[zhou])
    with limit_to_studies([gamma.pk]):
        dataset = make_corpus(prompts=2, models=["Hidden-13B"], name=owned.run.dataset.name)
        add_published(guideline=guideline, dataset=dataset, name="T", source="S", rows=ROWS)
    client = sign_in(zhou)
    assert "Hidden-13B" in client.get(f"/s/gamma/data/{dataset.name}/").content.decode()
    assert "T" in client.get("/s/gamma/runs/-/published/").content.decode()
    assert client.get("/s/gamma/agreement/").context["sealed"] == 0
    assert client.get("/s/gamma/people/-/hours/").context["report"].is_partial is False


@pytest.mark.parametrize("owned", [True], indirect=True)
def test_pages_of_what_is_shared_lead_nowhere_that_is_closed_and_name_nobody(
    owned: Part, gamma: Study, ma: Person, zhou: Person, he: Person
):
    """Every link of every page, as somebody of the other study alone."""
    StudyMembership.objects.filter(person=zhou).exclude(study=gamma).delete()
    for person in Person.objects.filter(username__in=("lin", "chen", "wu", "he")):
        person.display_name = f"Named-{person.username}"
        person.save()
    GoldRelease._base_manager.update(created_by=he)
    Scorer._base_manager.update(created_by=he)
    share_scorer(owned, gamma, ma)
    close(owned.batch)
    client = sign_in(zhou)
    dataset = owned.run.dataset.name
    waiting = [
        "/data/",
        "/releases/",
        "/scorers/",
        f"/data/{dataset}/",
        "/releases/gold-1/",
        "/scorers/scorer-1/",
    ]
    seen: set[str] = set()
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        answer = client.get(address)
        assert answer.status_code in {200, 302}, address
        if answer.status_code == 302 or "text/html" not in answer["Content-Type"]:
            b"".join(answer.streaming_content) if answer.streaming else None
            continue
        content = answer.content.decode()
        main = content.partition("<main")[2]
        if address.startswith((f"/data/{dataset}", "/releases/", "/scorers/")):
            assert "Named-" not in main, address
            assert not re.search(r"\b(lin|chen|wu)\b", main), address
        for link in re.findall(r'href="([^"#]+)', main):
            path = link.replace("&amp;", "&")
            target = path if path.startswith("/") else f"{address.partition('?')[0]}{path}"
            if re.match(r"/(data|releases|scorers|runs|batches|tasks|agreement|report)", target):
                waiting.append(target)
    assert len(seen) > 25
    assert client.get(f"/data/{dataset}/sharing/").status_code == 403


def test_the_files_of_a_shared_release_are_the_same(owned: Part, gamma: Study, ma: Person, zhou: Person):
    share_scorer(owned, gamma, ma)
    close(owned.batch)
    files = {}
    for study, person in (("alpha", ma), ("gamma", zhou)):
        client = sign_in(person)
        for file in ("gold.jsonl", "gold.csv", "manifest.json", "datasheet.en.md", "datasheet.zh.md"):
            answer = client.get(f"/s/{study}/releases/gold-1/download/{file}")
            assert answer.status_code == 200
            content = b"".join(answer.streaming_content) if answer.streaming else answer.content
            assert files.setdefault(file, content) == content, file
    answer = sign_in(zhou).post(
        "/s/gamma/releases/gold-1/exports/", {"format": "labels", "table": "csv", "real_names": "on"}
    )
    export = Export.objects.get()
    assert answer.status_code == 302
    assert not export.options.get("real_names")
    with limit_to_studies([gamma.pk]), pytest.raises(Forbidden, match="pseudonyms"):
        start_export(
            release=owned.release,
            format_name="labels",
            options=Options(table="jsonl", real_names=True),
            actor=zhou,
            send=False,
        )


def test_a_name_is_of_one_row_in_every_study(owned: Part, gamma: Study, ma: Person):
    with limit_to_studies([gamma.pk]):
        make_corpus(prompts=1, models=[], name=owned.run.dataset.name)
    with limit_to_studies([owned.study.pk]):
        with pytest.raises(Conflict, match="same kind and name"):
            share(row=owned.release, study=gamma, actor=ma)
        assert not owned.release.shared_with.exists()


def test_a_dataset_on_which_nothing_rests_is_moved(owned: Part, gamma: Study, ma: Person, zhou: Person):
    with limit_to_studies([owned.study.pk]):
        dataset = make_corpus(prompts=2, models=["Hidden-13B"], name="misplaced")
    client = sign_in(ma)
    address = f"/s/alpha/data/{owned.run.dataset.name}/sharing/"
    answer = client.post(address, {"act": "move", "study": "gamma"})
    assert answer.status_code == 422
    assert "cannot be moved: 1 batch, 1 benchmark run, 16 tasks, 8 predictions" in answer.content.decode()
    address = "/s/alpha/data/misplaced/sharing/"
    stranger = create_study(name="delta")
    assert client.post(address, {"act": "move", "study": "delta"}).status_code == 404
    assert client.post(address, {"act": "move", "study": "alpha"}).status_code == 404
    page = client.get(address).content.decode()
    assert "gamma" in page
    assert stranger.name not in page
    assert client.post(address, {"act": "move", "study": "gamma"}).status_code == 302
    dataset = Dataset._base_manager.get(pk=dataset.pk)
    assert dataset.study == gamma
    assert client.get(address).status_code == 404
    assert client.get("/s/gamma/data/misplaced/").status_code == 200
    (event,) = AuditEvent.objects.filter(verb="move")
    assert event.data == {"study": "alpha", "to": "gamma"}


def test_an_address_without_a_study_leads_to_what_is_shared(
    owned: Part, gamma: Study, ma: Person, zhou: Person
):
    """Zhou sees two studies, of which one is given the release."""
    share_scorer(owned, gamma, ma)
    close(owned.batch)
    with limit_to_studies([create_study(name="delta").pk]):
        set_roles(person=zhou, roles=["researcher"])
    page = sign_in(zhou).get("/releases/gold-1/")
    assert page.status_code == 200
    assert "/s/gamma/releases/gold-1/labels/" in page.content.decode()
    # Ma sees both studies that have it.
    assert sign_in(ma).get("/releases/gold-1/").status_code == 302
