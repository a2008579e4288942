"""Runs that several people begin, or begin again, at the same moment."""

from __future__ import annotations

from functools import partial

import pytest

from annotation.models import Batch, Dataset, Guideline, Job
from benchmark.models import BenchmarkRun
from benchmark.services.leaderboards.runs import NameTaken, rerun_board
from scoring.models import Scorer
from tests.annotation.services.test_races import at_once
from tests.benchmark.services.test_runs import make_run
from tests.benchmark.support import ready_scorer, release_of, settle_by_dimension
from tests.benchmark.views.test_freshness import made

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


@pytest.fixture
def scorer(batch: Batch, guideline: Guideline) -> Scorer:
    settle_by_dimension(batch)
    return ready_scorer(release_of(batch), guideline)


def test_two_runs_of_one_stem_run_again_at_once_get_two_names(scorer: Scorer, dataset: Dataset):
    olds = [made(scorer, dataset, "board"), made(scorer, dataset, "board @ older")]
    repeated = at_once([partial(rerun_board, run=old, send=False) for old in olds])
    assert {run.name for run in repeated} == {"board @ scorer-1", "board @ scorer-1 (2)"}
    assert {run.replaces for run in repeated} == set(olds)


def test_two_presses_at_once_run_it_again_once(scorer: Scorer, dataset: Dataset):
    rerun = partial(rerun_board, run=made(scorer, dataset, "board"), send=False)
    pressed = at_once([rerun, rerun])
    assert sorted(type(outcome).__name__ for outcome in pressed) == ["BenchmarkRun", "Conflict"]


def test_of_two_who_take_one_name_at_once_one_is_refused_in_words(scorer: Scorer, dataset: Dataset):
    made = at_once([partial(make_run, scorer, dataset) for _person in range(4)])
    refusals = [outcome for outcome in made if not isinstance(outcome, BenchmarkRun)]
    assert BenchmarkRun.objects.count() == Job.objects.filter(kind="run_benchmark").count() == 1
    assert [type(refusal) for refusal in refusals] == [NameTaken] * 3
    assert str(refusals[0]) == "There is a benchmark run named board already; choose another name."
    assert refusals[0].status == 409
