from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.test import Client

from annotation.models import GoldRelease, Guideline, Job, Person
from annotation.services import jobs
from annotation.services.batches import add_members
from scoring.models import Scorer
from scoring.services import create_scorer
from tests.conftest import ROOT
from tests.scoring.support import make_release

FORM = {"name": "s", "release": "gold", "kind": "embedded", "seed": "0"}


@pytest.fixture
def researcher(client: Client, he: Person) -> Client:
    client.force_login(he)
    return client


@pytest.mark.parametrize("path", ["/scorers/", "/scorers/first-scorer/"])
def test_researchers_and_managers_read_and_nobody_else(
    scorer: Scorer,
    client: Client,
    he: Person,
    ma: Person,
    chen: Person,
    wu: Person,
    stranger: Person,
    path: str,
) -> None:
    for person, status in ((he, 200), (ma, 200), (chen, 403), (wu, 403), (stranger, 403)):
        client.force_login(person)
        assert client.get(path).status_code == status
    client.logout()
    assert client.get(path).status_code == 302


def test_only_researchers_train(
    release: GoldRelease, client: Client, he: Person, ma: Person, chen: Person
) -> None:
    for person, status in ((he, 200), (ma, 403), (chen, 403)):
        client.force_login(person)
        assert client.get("/scorers/-/new/").status_code == status
    client.force_login(ma)
    assert client.post("/scorers/-/new/", FORM).status_code == 403
    assert b"/scorers/-/new/" not in client.get("/scorers/").content
    assert not Scorer.objects.exists()


def test_who_works_in_the_batch_reads_no_more_than_the_name(
    scorer: Scorer, researcher: Client, he: Person
) -> None:
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    assert researcher.get("/scorers/first-scorer/").status_code == 403
    page = researcher.get("/scorers/").content.decode()
    assert "first-scorer" in page
    assert "/scorers/first-scorer/" not in page
    assert "/releases/gold/" not in page
    assert "char-ngram" not in page
    form = researcher.get("/scorers/-/new/").content.decode()
    assert 'value="gold"' not in form
    assert researcher.post("/scorers/-/new/", FORM).status_code == 400


def test_the_form_preselects_the_release_and_starts_a_training(
    guideline: Guideline, release: GoldRelease, lin: Person, researcher: Client
) -> None:
    make_release(guideline, lin, name="newer")
    page = researcher.get("/scorers/-/new/?release=gold").content.decode()
    assert '<option value="gold" selected>' in page
    answer = researcher.post("/scorers/-/new/", FORM | {"leave_one_model_out": "on", "seed": "7"})
    assert (answer.status_code, answer["Location"]) == (302, "/scorers/s/")
    scorer = Scorer.objects.get()
    assert scorer.config == {"evaluate": ["grouped", "leave-one-model-out"]}
    assert (scorer.seed, scorer.backbone, scorer.release) == (7, "char-ngram", release)
    assert Job.objects.get(kind="train_scorer").state == "queued"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a/b"}, "cannot be a name"),
        ({"release": "none"}, "Select a valid choice"),
        ({"kind": "own"}, "Say which"),
        ({"kind": "own", "backbone": "no such place"}, "No backbone no such place"),
        ({"name": "first-scorer"}, "already a scorer named first-scorer"),
    ],
)
def test_what_is_refused_comes_back_with_its_reason(
    scorer: Scorer, researcher: Client, changes: dict[str, str], message: str
) -> None:
    answer = researcher.post("/scorers/-/new/", FORM | changes)
    assert answer.status_code == 400
    assert message in answer.content.decode()
    assert Scorer.objects.count() == 1


def test_a_training_is_watched_and_cancelled_on_its_page(release: GoldRelease, researcher: Client) -> None:
    researcher.post("/scorers/-/new/", FORM)
    job = Job.objects.get(kind="train_scorer")
    page = researcher.get("/scorers/s/").content.decode()
    assert f'hx-get="/jobs/{job.pk}/"' in page
    assert f'action="/jobs/{job.pk}/cancel/"' in page
    researcher.post(f"/jobs/{job.pk}/cancel/")
    page = researcher.get("/scorers/s/").content.decode()
    assert "The training was cancelled" in page
    assert "/scorers/-/new/?release=gold&amp;name=s" in page


def test_a_failure_says_why_on_the_page(
    release: GoldRelease, researcher: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    _scorer, job = create_scorer(name="s", release=release, send=False)

    def fail(*_args: Any, **_options: Any) -> Any:
        raise MemoryError("no room for the weights")

    with monkeypatch.context() as patched:
        patched.setattr("scoring.ngram.NgramBackbone.fit", fail)
        jobs.run(job.pk)
    page = researcher.get("/scorers/s/").content.decode()
    assert "MemoryError: no room for the weights" in page
    assert "this never became a scorer" in page
    # the same name again takes its place
    assert researcher.post("/scorers/-/new/", FORM).status_code == 302
    assert Scorer.objects.get().job != job


def test_the_page_shows_the_stored_figures_and_leads_down_to_the_labels(
    scorer: Scorer, researcher: Client
) -> None:
    page = researcher.get("/scorers/first-scorer/").content.decode()
    accuracy = scorer.evaluation["grouped"]["accuracy"]
    assert f"{accuracy['value']:.3f}" in page
    assert f"{accuracy['low']:.3f} to {accuracy['high']:.3f}" in page
    assert "char-ngram: no pretrained weights" in page
    for link in ("/releases/gold/", "/releases/gold/labels/", "/guidelines/xstest/1.0/"):
        assert f'href="{link}"' in page
    assert scorer.weights_sha256 in page
    assert scorer.release.sha256[:12] in page
    # one annotator alone for each response: people cannot be compared with each other
    assert '<span class="undefined">-</span>' in page
    assert "nan" not in page.lower()


def test_the_chart_of_the_page_can_be_drawn(scorer: Scorer, researcher: Client) -> None:
    page = researcher.get("/scorers/first-scorer/").content.decode()
    source = page.split('<div class="figure__plot"><img src="')[1].split('"')[0]
    drawn = researcher.get(source)
    assert drawn["Content-Type"] == "image/svg+xml"
    assert b"Always the commonest level" in drawn.content


def test_an_unknown_scorer_is_not_found(researcher: Client) -> None:
    assert researcher.get("/scorers/none/").status_code == 404


def test_no_page_imports_a_learning_library() -> None:
    """Everything that the web process loads, and a look for each backbone as the form has it."""
    code = (
        "import sys, django; django.setup(); import config.wsgi; from django.urls import get_resolver;"
        "get_resolver().url_patterns; import scoring.tasks; from scoring.backbones import choose; choose('');"
        "choose('some/name'); print(sorted({'torch', 'transformers', 'sklearn'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    environment = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
