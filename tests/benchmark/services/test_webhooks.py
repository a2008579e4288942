"""Webhooks of boards and scorers: what the jobs of other apps record is told of, once."""

from __future__ import annotations

import pytest

from annotation.models import AuditEvent, Collection, Dataset, GoldRelease, Guideline, WebhookDelivery
from annotation.selectors.webhooks.messages import build_data
from annotation.services.audit import record
from annotation.services.studies import find_or_make_study
from annotation.services.webhooks.endpoints import create_endpoint
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.services.leaderboards.execution import execute_run, finish_run, write_items
from benchmark.services.leaderboards.runs import create_run
from scoring.domain.verbs import ScoringVerb
from scoring.models import Scorer
from tests.benchmark.support import ready_scorer

pytestmark = pytest.mark.django_db
BASE = "https://assay.example"


@pytest.fixture
def scorer(release: GoldRelease, guideline: Guideline) -> Scorer:
    return ready_scorer(release, guideline)


@pytest.fixture(autouse=True)
def _endpoint(scorer: Scorer) -> None:
    create_endpoint(
        study=find_or_make_study(),
        url="https://receiver.example/",
        events=["run.done", "scorer.promoted"],
        base_url=BASE,
        actor=None,
    )


def quiet(_progress: float, _stage: str = "", **_values: float) -> None:
    """A report that nobody reads."""


def test_a_run_is_done_once_however_often_its_job_is_taken_up(scorer: Scorer, dataset: Dataset):
    run = create_run(
        name="board", scorer=scorer, dataset=dataset, collection=Collection.objects.get(name=""), send=False
    )
    write_items(run, quiet)
    finish_run(run)
    assert execute_run(run, quiet)["run"] == "board"  # a worker that takes it up once more finds it finished
    event = AuditEvent.objects.get(verb=BenchmarkVerb.END_RUN)
    assert (event.actor, event.target, event.study_id) == (None, "run:board", run.study_id)
    delivery = WebhookDelivery.objects.get()
    assert (delivery.type, delivery.batch, delivery.occurred_at) == ("run.done", None, event.at)
    assert build_data(delivery) == {
        "study": "default",
        "run": "board",
        "url": f"{BASE}/s/default/runs/board/",
    }


@pytest.mark.parametrize("verb", [ScoringVerb.PROMOTE_SCORER, ScoringVerb.GO_BACK_TO_SCORER])
def test_a_scorer_that_becomes_the_current_one_is_told_of(verb: ScoringVerb, scorer: Scorer):
    record(actor=None, verb=verb, target=f"scorer:{scorer.name}")
    record(actor=None, verb=ScoringVerb.REFUSE_SCORER, target=f"scorer:{scorer.name}")
    delivery = WebhookDelivery.objects.get()
    assert delivery.type == "scorer.promoted"
    url = f"{BASE}/s/default/scorers/{scorer.name}/"
    assert build_data(delivery) == {"study": "default", "scorer": scorer.name, "url": url}
