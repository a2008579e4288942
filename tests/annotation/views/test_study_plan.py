"""The plan of a study, on its page, beside a new batch, and as a command."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.domain.planning import AgreementDesign, plan_agreement
from annotation.forms.batches.study_plan import USUAL
from annotation.models import Dataset, Guideline, Person
from tests.annotation.views.test_work_pages import text

pytestmark = pytest.mark.django_db
PAGE = "/batches/-/study-plan/"


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def run(*arguments: str) -> Any:
    out = io.StringIO()
    call_command("plan_study", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_the_page_plans_what_is_usual_and_what_is_asked_for(manager: Client):
    page = manager.get(PAGE)
    assert page.status_code == 200
    assert [plan.design.raters for plan in page.context["plans"]] == [2, 3, 4, 5]
    wider = manager.get(PAGE, {"half_width": "0.1", "models": "3"})
    assert wider.context["plans"][0].prompts < page.context["plans"][0].prompts
    assert wider.context["comparison"].design.models == 3
    for chart in ("agreement_chart", "comparison_chart"):
        picture = manager.get(page.context[chart])
        assert picture.status_code == 200
        assert b"<svg" in b"".join(picture) if picture.streaming else b"<svg" in picture.content


def test_a_script_is_given_the_panel_alone(manager: Client):
    panel = manager.get(PAGE, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in panel
    assert 'id="study-plan"' in panel


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ({"rate": "99", "difference": "20"}, "choose a smaller difference"),
        ({"half_width": "0"}, "half-width of alpha is above 0"),
        ({"shares": "a b"}, "are no shares"),
        ({"models": "1"}, "greater than or equal to 2"),
    ],
)
def test_what_has_no_plan_says_why(manager: Client, query: dict[str, str], refusal: str):
    page = manager.get(PAGE, query)
    assert page.status_code == 422
    assert refusal in text(page)
    assert page.context["comparison"] is None


def test_the_form_of_a_new_batch_leads_to_it(manager: Client, dataset: Dataset, guideline: Guideline):
    for address in (reverse("batch-dataset"), reverse("batch-new", args=[dataset.name])):
        assert PAGE in manager.get(address).content.decode()


def test_the_command_prints_the_same_plan(manager: Client):
    data = run("--half-width", "0.05", "--difference", "10", "--models", "5")
    page = manager.get(PAGE)
    assert [row["prompts"] for row in data["agreement"]] == [plan.prompts for plan in page.context["plans"]]
    assert data["comparison"]["prompts"] == page.context["comparison"].prompts
    (row,) = run("--half-width", "0.05", "--raters", "3", "--models", "4", "--shares", "50 50")["agreement"]
    design = AgreementDesign(USUAL["alpha"], (0.5, 0.5), 3, 4, USUAL["similarity"])  # type: ignore[arg-type]
    assert row["prompts"] == plan_agreement(design, 0.05).prompts


def test_the_command_wants_to_know_what_is_wanted(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        run()
    assert "what is wanted" in capsys.readouterr().err
