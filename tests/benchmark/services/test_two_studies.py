"""Two studies that have everything alike, names too: what is done in the first changes nothing in the second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from annotation.core.errors import AssayError, Conflict
from annotation.core.study_scope import limit_to_studies
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Dataset, GoldRelease, Guideline, Job, Person
from annotation.selectors.batches import get_batch
from annotation.selectors.releases.releases import get_release
from annotation.services import jobs
from annotation.services.releases import cut_release
from benchmark.models import JudgeTemplate
from benchmark.selectors.judges.judges import find_latest_template, get_judge
from benchmark.selectors.leaderboards.freshness import compute_freshness
from benchmark.selectors.leaderboards.runs import get_run, list_current_runs
from benchmark.selectors.published_tables import list_published_tables, list_reference_rows
from benchmark.services.judges.judges import create_judge, save_template
from benchmark.services.published_tables import add_published
from scoring.models import GateAttempt, Promotion, Scorer
from scoring.selectors.regression_cases import must_fail_items
from scoring.selectors.scorers import find_current_scorer, get_scorer, list_scorer_statuses
from scoring.services import promote
from scoring.services.regression_cases import add_must_fail
from tests.benchmark.studies import Part, make_part
from tests.benchmark.support import settle_by_dimension
from tests.scoring.gate_support import scorer_that_says
from tests.support import make_batch

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ROWS: list[Any] = [
    {
        "model": "Published-1B",
        "dimensions": {"safe": {"full_compliance_rate": 0.9}},
        "overall": {},
        "n": {},
    }
]


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> None:
    """Scorers lie by number, and another test's scorer had the same number."""
    settings.ASSAY_DATA_DIR = tmp_path


@pytest.fixture
def parts(guideline: Guideline, lin: Person, chen: Person, wu: Person, he: Person) -> tuple[Part, Part]:
    first, second = (make_part(name, guideline, [lin, chen, wu, he]) for name in ("alpha", "beta"))
    return first, second


def test_equal_names_are_of_the_study_that_the_work_is_about(parts: tuple[Part, Part]):
    for part in parts:
        with limit_to_studies([part.study.pk]):
            assert get_batch("first") == part.batch
            assert get_release("gold-1") == part.release
            assert get_scorer("scorer-1") == part.scorer
            assert get_run("board") == part.run
            assert list(Dataset.objects.all()) == [part.run.dataset]
            assert list(list_current_runs("xstest")) == [part.run]
    with pytest.raises(IntegrityError), transaction.atomic():
        Scorer.objects.filter(pk=parts[0].scorer.pk).update(study=parts[1].study)


def test_a_promotion_is_of_its_study_alone(parts: tuple[Part, Part], guideline: Guideline, he: Person):
    first, second = parts
    with limit_to_studies([first.study.pk]):
        better = scorer_that_says(first.release, guideline, name="better")
        job = promote(scorer=better, actor=he, reason="It is a test.", send=False)
    jobs.run_now(Job.objects.get(pk=job.pk))  # a worker is limited to the study of the job
    with limit_to_studies([first.study.pk]):
        assert find_current_scorer("xstest") == better
        assert "newer_scorer" in compute_freshness(first.run).kinds
    with limit_to_studies([second.study.pk]):
        assert find_current_scorer("xstest") is None
        assert not compute_freshness(second.run).is_stale
        assert list_scorer_statuses([second.scorer])[second.scorer.pk].last is None
        other = scorer_that_says(second.release, guideline, name="other")
        jobs.run_now(promote(scorer=other, actor=he, reason="It is a test.", send=False))
        assert find_current_scorer("xstest") == other
    assert sorted(Promotion.objects.values_list("study__name", "number")) == [("alpha", 1), ("beta", 1)]
    assert sorted(GateAttempt.objects.values_list("study__name", "number")) == [("alpha", 1), ("beta", 1)]


def test_a_new_release_makes_no_other_study_stale(
    parts: tuple[Part, Part], guideline: Guideline, lin: Person, chen: Person
):
    first, second = parts
    with limit_to_studies([first.study.pk]):
        batch = make_batch(guideline, first.run.dataset, annotators=[lin, chen], name="second")
        settle_by_dimension(batch)
        cut_release(ReleaseSpec(name="gold-2", batches=[first.batch, batch], supersedes=first.release))
        assert compute_freshness(first.run).is_stale
    with limit_to_studies([second.study.pk]):
        assert not compute_freshness(second.run).is_stale
    assert not compute_freshness(second.run).is_stale


def test_a_release_is_cut_of_one_study(parts: tuple[Part, Part]):
    first, second = parts
    with pytest.raises(Conflict, match="several studies"):
        cut_release(ReleaseSpec(name="mixed", batches=[first.batch, second.batch]))
    assert not GoldRelease.objects.filter(name="mixed").exists()


def test_regression_cases_are_asked_of_the_scorers_of_their_study(parts: tuple[Part, Part], he: Person):
    first, second = parts
    response = first.batch.tasks.select_related("response__prompt__dataset")[0].response
    with limit_to_studies([first.study.pk]):
        (case,) = add_must_fail(guideline_name="xstest", response=response, refused=[3], actor=he)
        assert list(must_fail_items("xstest")) == [case]
    with limit_to_studies([second.study.pk]):
        assert not must_fail_items("xstest").exists()


def test_published_tables_and_templates_stay_where_they_were_put(
    parts: tuple[Part, Part], guideline: Guideline, he: Person
):
    first, second = parts
    with limit_to_studies([first.study.pk]):
        add_published(guideline=guideline, dataset=first.run.dataset, name="T", source="S", rows=ROWS)
        save_template(guideline=guideline, system="", text="{prompt} {response} {levels}", actor=he)
        create_judge(
            name="judge", guideline=guideline, endpoint="http://127.0.0.1:9/v1", served_model="m", actor=he
        )
        assert [row["model"] for row in list_reference_rows(first.run, None)] == ["Published-1B"]
    with limit_to_studies([second.study.pk]):
        assert list_reference_rows(second.run, None) == []
        assert not list_published_tables().exists()
        assert find_latest_template("xstest") is None
        with pytest.raises(AssayError, match="No judge is named"):
            get_judge("judge")
    assert list(JudgeTemplate.objects.values_list("study__name", "number")) == [("alpha", 1)]


def test_a_command_among_several_studies_must_be_told_which(
    parts: tuple[Part, Part], capsys: pytest.CaptureFixture[str]
):

    with pytest.raises(SystemExit):
        call_command("leaderboard", "board")
    assert "several studies (alpha, beta, default)" in capsys.readouterr().err
    call_command("leaderboard", "board", "--study", "beta")
    assert "Secretive-7B" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        call_command("leaderboard", "board", "--study", "gamma")
    assert "There is no study named gamma. Known: alpha, beta, default." in capsys.readouterr().err
