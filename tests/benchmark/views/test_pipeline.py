"""The strip of the first page: what stands at each stage of a study, and the action that comes next."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from annotation.core.study_scope import limit_to_studies
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, GoldRelease, Guideline, Person
from annotation.selectors.access import has_opened
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from annotation.services.studies import create_study
from benchmark.selectors.pipeline import read_pipeline
from tests.benchmark.boards import finished_run
from tests.benchmark.sharing_support import promoted
from tests.benchmark.support import ready_scorer, settle_by_dimension
from tests.support import make_corpus

pytestmark = pytest.mark.django_db


def read_stages(person: Person, language: str = "en") -> dict[str, str]:
    """The words of each stage, by its name, and ``next``: the name of the one that is marked."""
    client = Client()
    client.force_login(person)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    assert 'hx-get="/pipeline/"' in client.get("/").content.decode()
    content = client.get("/pipeline/").content.decode()
    stages = {}
    for marked, stage in re.findall(
        r'<li class="pipeline__stage\s*(pipeline__stage--next)?">(.*?)</li>', content, re.DOTALL
    ):
        name, words = re.findall(r">([^<]+)</h3>(.*)", stage, re.DOTALL)[0]
        stages[name] = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", words)).strip()
        if marked:
            stages["next"] = name
    return stages


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("Data", "0 prompts 0 responses Import data", "No batch yet", "No board yet")),
        ("zh-hans", ("数据", "0 个提示 0 条回复 导入数据", "还没有批次", "还没有榜单")),
    ],
)
def test_an_empty_study_begins_with_data(ma: Person, language: str, words: tuple[str, ...]):
    stages = read_stages(ma, language)
    assert stages["next"] == words[0]
    assert [word for word in words[1:] if word not in stages.values()] == []


def test_prompts_without_responses_ask_for_responses(ma: Person, he: Person):
    make_corpus(prompts=3, models=())
    assert read_stages(ma)["Data"] == "3 prompts 0 responses Import responses"
    assert read_stages(he)["Data"] == "3 prompts 0 responses Collect responses"


def test_each_stage_says_what_comes_next(batch: Batch, guideline: Guideline, ma: Person, he: Person):
    total = batch.tasks.count()
    stages = read_stages(ma)
    assert (stages["next"], stages["Labelling"]) == (
        "Labelling",
        f"0 tasks settled {total} to be labelled All batches",
    )
    settle_by_dimension(batch)
    stages = read_stages(ma)
    assert (stages["next"], stages["Labelling"]) == (
        "Labelling",
        f"{total} tasks settled Close the batch first",
    )
    set_state(batch=batch, state=Batch.State.CLOSED, actor=ma)
    assert (read_stages(he)["next"], read_stages(he)["Gold"]) == (
        "Gold",
        "No release yet Cut a release of first",
    )
    assert read_stages(ma)["Gold"] == "No release yet"  # who cuts none is offered none
    release = cut_release(ReleaseSpec(name="gold", batches=[batch]))
    assert (read_stages(he)["next"], read_stages(he)["Scorer"]) == ("Scorer", "No scorer yet Train on gold")
    scorer = ready_scorer(release, guideline, "scorer")
    assert read_stages(he)["Scorer"] == "No current scorer Judge scorer at the gate"
    promoted(scorer)
    stages = read_stages(he)
    assert (stages["next"], stages["Scorer"]) == ("Board", "Current scorer scorer")
    assert stages["Board"] == "No board yet Run a benchmark"
    finished_run(guideline)
    GoldRelease.objects.exclude(pk=release.pk).update(manifest=release.manifest)
    assert "board" in read_stages(he)["Board"]


def test_it_opens_no_results_and_counts_none_that_are_sealed(
    batch: Batch, lin: Person, ma: Person, he: Person
):
    settle_by_dimension(batch)
    set_roles(person=lin, roles=["annotator", "manager", "researcher"])
    assert "without 1 batch in which you work" in read_stages(lin)["Labelling"]
    assert "settled" not in read_stages(lin)["Labelling"].replace("0 tasks settled", "")
    read_stages(he)
    assert not has_opened(batch, he)


def test_it_counts_its_own_study_alone(batch: Batch, ma: Person):
    before = read_stages(ma)
    with limit_to_studies([create_study(name="other").pk]):
        make_corpus(prompts=5, models=["Other-7B"], name="other")
    assert read_stages(ma) == before


def test_it_takes_as_many_queries_whatever_there_is(batch: Batch, guideline: Guideline, he: Person):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            read_pipeline(Person.objects.get(pk=he.pk))
        return len(queries)

    finished_run(guideline, name="first")
    few = count()
    for number in range(4):
        finished_run(guideline, name=f"more-{number}")
    assert count() == few
