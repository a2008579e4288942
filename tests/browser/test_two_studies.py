"""Two studies that have everything alike, in Chromium: what a researcher does in the first changes nothing in the
second, neither a row nor a word of its pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.urls import reverse
from playwright.sync_api import Page, expect

from annotation.core.study_scope import limit_to_studies
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Guideline, Job, OfStudy, Person, Response
from annotation.services import jobs
from annotation.services.releases import cut_release
from benchmark.models import BenchmarkRun, BoardPart, Retraining, RunItem
from benchmark.selectors.leaderboards.freshness import compute_freshness
from benchmark.services.published_tables import add_published
from benchmark.services.sharing import share_run
from scoring.models import Prediction
from scoring.selectors.scorers import find_current_scorer
from tests.benchmark.services.test_two_studies import ROWS
from tests.benchmark.studies import Part, make_part
from tests.benchmark.support import settle
from tests.browser.conftest import SignIn
from tests.support import make_batch, make_corpus

pytestmark = [pytest.mark.browser, pytest.mark.both_databases]
PAGES = (
    "",
    "data/",
    "agreement/",
    "releases/",
    "releases/gold-1/",
    "scorers/",
    "scorers/scorer-1/",
    "scorers/scorer-1/?view=gate",
    "runs/",
    "runs/board/",
    "runs/board/?view=lineage",
    "runs/-/published/",
    "runs/-/judges/",
)


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> None:
    settings.ASSAY_DATA_DIR = tmp_path


def say_by_dimension(response: Response) -> int:
    return 3 if response.prompt.dimension == "safe" else 1


def read_rows(part: Part) -> dict[str, list[dict[str, Any]]]:
    """Every row that is of the study, and what its scorers and boards hold."""
    models = [model for model in apps.get_models() if issubclass(model, OfStudy)]
    rows = {
        model.__name__: list(model._base_manager.filter(study=part.study).order_by("pk").values())
        for model in models
    }
    assert rows["BenchmarkRun"]
    for model, held_by in ((RunItem, "run"), (BoardPart, "run"), (Prediction, "scorer")):
        held = model._base_manager.filter(**{f"{held_by}__study": part.study})
        rows[model.__name__] = list(held.order_by("pk").values())
    return rows


def read_pages(page: Page, part: Part, public: str) -> dict[str, str]:
    texts = {}
    for address in PAGES:
        answer = page.goto(f"/s/{part.study.name}/{address}")
        assert answer is not None
        assert answer.status == 200, address
        page.wait_for_load_state("networkidle")
        texts[address] = page.locator("body").inner_text()
    page.goto(public)
    texts["public"] = page.locator("body").inner_text()
    return texts


def test_what_is_done_in_one_study_changes_nothing_in_the_other(
    sign_in: SignIn, guideline: Guideline, lin: Person, chen: Person, wu: Person, he: Person
) -> None:
    alpha, beta = (make_part(name, guideline, [lin, chen, wu, he], train=True) for name in ("alpha", "beta"))
    with limit_to_studies([beta.study.pk]):
        _link, secret = share_run(run=beta.run, actor=he, with_published=True)
    public = reverse("shared", args=[secret])
    page = sign_in(he)
    texts, rows = read_pages(page, beta, public), read_rows(beta)

    with limit_to_studies([alpha.study.pk]):
        more = make_corpus(prompts=6, models=["Hidden-13B", "Secretive-7B"], name="more")
        batch = make_batch(guideline, more, annotators=[lin, chen], name="second")
        settle(batch, [lin, chen], say_by_dimension)
        cut_release(
            ReleaseSpec(name="gold-2", batches=[alpha.batch, batch], supersedes=alpha.release), actor=he
        )
        add_published(guideline=guideline, dataset=alpha.run.dataset, name="T", source="S", rows=ROWS)

    # One click on "Retrain and re-benchmark" of the new release: its plan names the board of its own study.
    page.goto("/s/alpha/releases/gold-2/")
    page.get_by_role("link", name="Retrain and re-benchmark").click()
    boards = page.locator("main table tbody tr")
    expect(boards).to_have_count(1)
    expect(boards.get_by_role("link", name="board", exact=True)).to_have_attribute(
        "href", "/s/alpha/runs/board/"
    )
    page.get_by_role("button", name=re.compile("^Train, and run 1 board again")).click()
    page.wait_for_url("**/s/alpha/runs/-/retrainings/*/")
    made = Retraining.objects.get()
    assert made.scorer.job is not None
    jobs.run_now(made.scorer.job)
    run = BenchmarkRun.objects.get(retraining=made)
    assert run.job is not None
    jobs.run_now(run.job)
    page.goto("/s/alpha/runs/")
    expect(page.locator("main")).to_contain_text(run.name)

    # The new scorer becomes the current one of its study.
    page.goto(f"/s/alpha/scorers/{made.scorer.name}/?view=gate")
    page.locator("main form .button--primary").first.click()
    page.wait_for_load_state()
    jobs.run_now(Job.objects.get(kind="promote_scorer"))
    page.reload()

    with limit_to_studies([alpha.study.pk]):
        assert find_current_scorer("xstest") == made.scorer
        assert compute_freshness(alpha.run).is_stale
    assert read_rows(beta) == rows
    later = read_pages(page, beta, public)
    assert {address: text for address, text in later.items() if text != texts[address]} == {}


def test_a_researcher_of_one_study_is_nowhere_in_the_other(
    sign_in: SignIn, guideline: Guideline, lin: Person, chen: Person, wu: Person, he: Person
) -> None:
    make_part("alpha", guideline, [lin, chen, wu, he])
    other = Person.objects.create_user("other")
    make_part("beta", guideline, [lin, chen, wu, other])
    page = sign_in(he)
    page.goto("/")
    expect(page.locator("body")).not_to_contain_text("beta")
    for address in PAGES:
        answer = page.goto(f"/s/beta/{address}")
        assert answer is not None
        assert answer.status == 404, address
