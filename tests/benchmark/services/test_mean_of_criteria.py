"""A board of the mean over criteria, one of which people may leave out: from gold, and from gold and predictions."""

from __future__ import annotations

import io
import json
import random
from statistics import fmean
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Dataset, GoldRelease, Guideline, Person, ReleasedLabel, Response
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.guidelines import load_guideline
from annotation.services.releases import cut_release
from benchmark.models import BenchmarkRun
from benchmark.selectors.estimates.label_plan import PlanGoal, get_labelling_status
from benchmark.selectors.estimates.sensitivity import compute_run_sensitivity
from benchmark.selectors.leaderboards.items import list_counted_responses
from benchmark.selectors.leaderboards.runs import find_part
from benchmark.services.estimates import create_label_plan
from scoring.models import Prediction, Scorer
from tests.benchmark.domain.test_mean_of_criteria import CRITERION, NAMES, TEXT
from tests.benchmark.labelling_support import run_of
from tests.benchmark.support import ready_scorer, response_of
from tests.support import make_corpus

pytestmark = pytest.mark.django_db
POLICY = Policy(overlap=1)
OPTIONAL = "    optional: true\n"
PAGES = ("", "?view=pairs", "?view=estimates", "?view=groups", "?view=sensitivity", "?view=lineage")


@pytest.fixture
def support(db: None) -> Guideline:
    criteria = "".join(CRITERION % (name, "all") + (OPTIONAL if name == "sense" else "") for name in NAMES)
    text = TEXT % ("", criteria, "mean_of_criteria")
    return load_guideline(text=text, path="support.yaml", publish=True)


def judge(response: Response) -> dict[str, int]:
    """What people say; they leave the last criterion out where the first is low."""
    rng = random.Random(f"{response.model.name} {response.prompt.key}")
    best = 4 if response.model.name == "Best" else 3
    labels = {name: rng.randint(best - 3, best) for name in NAMES}
    labels["sense"] = max(0, labels["sense"] - 1)
    return labels if labels["care"] >= 2 else {name: labels[name] for name in NAMES[:2]}


def label_all(batch: Batch, person: Person) -> None:
    while claim := claim_next_task(batch=batch, person=person):
        work = Submission(judge(response_of(claim)))
        submit(assignment_id=claim.pk, person=person, key=str(uuid4()), work=work)
    set_state(batch=batch, state="closed")


def predict_all(scorer: Scorer, dataset: Dataset) -> None:
    """One level off by chance; of every criterion, for a scorer does not know what people leave out."""
    learned = set(
        ReleasedLabel.objects.filter(release=scorer.release).values_list("task__response", flat=True)
    )
    for response in Response.objects.filter(prompt__dataset=dataset).select_related("prompt", "model"):
        rng = random.Random(f"said {response.model.name} {response.prompt.key}")
        labels = {"sense": 1, **judge(response)}
        for name in NAMES:
            level = min(4, max(0, labels[name] + rng.choice((-1, 0, 0, 1))))
            Prediction.objects.create(
                scorer=scorer,
                response=response,
                criterion=name,
                value=level,
                probabilities={str(value): 0.6 if value == level else 0.1 for value in range(5)},
                fold=0 if response.pk in learned else None,
            )


def run_on(release: GoldRelease, guideline: Guideline, dataset: Dataset, name: str) -> BenchmarkRun:
    scorer = ready_scorer(release, guideline, name=f"scorer of {name}")
    predict_all(scorer, dataset)
    return run_of(scorer, dataset, name=name)


@pytest.fixture
def runs(support: Guideline, lin: Person) -> tuple[BenchmarkRun, BenchmarkRun]:
    """First one model has gold; then a plan has drawn some of the other's responses, which have gold by now."""
    dataset = make_corpus(prompts=100, models=["Best", "Worst"], name="corpus", dimensions=("",))
    best = Response.objects.filter(model__name="Best").values_list("pk", flat=True)
    spec = BatchSpec(
        name="all of Best",
        guideline=support,
        dataset=dataset,
        annotators=[lin],
        policy=POLICY,
        among=tuple(best),
    )
    batch = create_batch(spec)
    label_all(batch, lin)
    first = run_on(cut_release(ReleaseSpec(name="first", batches=[batch])), support, dataset, "before")
    plan = create_label_plan(
        run=first, goal=PlanGoal(half_width=2.5), name="plan", annotators=[lin], policy=POLICY, seed=3
    )
    label_all(plan.batch, lin)
    both = cut_release(ReleaseSpec(name="both", batches=[batch, plan.batch]))
    return first, run_on(both, support, dataset, "board")


def average_criteria(model: str) -> float:
    """Of everything that people would say of a model."""
    answers = [judge(response) for response in Response.objects.filter(model__name=model)]
    return 25 * fmean(fmean(own[name] for own in answers if name in own) for name in NAMES)


def command(*arguments: str) -> Any:
    out = io.StringIO()
    call_command("leaderboard", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def rows_of(run: BenchmarkRun) -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in run.board["rows"]}


def test_gold_alone_is_the_mean_of_each_criterion_alike(runs: tuple[BenchmarkRun, BenchmarkRun]):
    row = rows_of(runs[0])["Best"]
    assert (row["ground"], row["reason"]) == ("gold", None)
    assert row["overall"]["average"]["value"] == pytest.approx(average_criteria("Best"))
    labels = [
        value for own in map(judge, Response.objects.filter(model__name="Best")) for value in own.values()
    ]
    assert row["overall"]["average"]["value"] != pytest.approx(25 * fmean(labels), abs=0.3)
    other = rows_of(runs[0])["Worst"]
    assert (other["ground"], other["overall"]["average"]["low"]) == ("predicted", None)


def test_a_plan_makes_the_other_comparable_though_people_left_answers_out(
    runs: tuple[BenchmarkRun, BenchmarkRun],
):
    run = runs[1]
    row = rows_of(run)["Worst"]
    assert (row["ground"], row["reason"]) == ("combined", None)
    statistic = row["overall"]["average"]
    assert statistic["low"] < average_criteria("Worst") < statistic["high"]
    counted = [own for own in list_counted_responses(run) if own.model == "Worst" and own.gold]
    partial = [own for own in counted if len(own.gold) == 2]
    assert 20 <= len(counted) < 100
    assert partial
    assert all(len(own.predicted) == 3 for own in counted)
    estimates = find_part(run, "estimates")
    assert estimates is not None
    cells = {own["model"]: own["cells"]["overall"]["average"] for own in estimates["rows"]}
    assert cells["Worst"]["combined"]["value"] == pytest.approx(statistic["value"])
    assert cells["Worst"]["people"]["n"] == len(counted)
    sensitivity = compute_run_sensitivity(run)
    assert dict(zip(sensitivity["models"], sensitivity["values"], strict=True)) == {
        name: pytest.approx(own["overall"]["average"]["value"]) for name, own in rows_of(run).items()
    }
    assert get_labelling_status(run).compute_weights("Worst") == {"all": 1.0}


def test_the_command_and_the_pages_have_it_with_its_decimals(
    runs: tuple[BenchmarkRun, BenchmarkRun], client: Client, he: Person
):
    run = runs[1]
    printed = command("board", "--pairs", "--estimates")
    assert printed["rows"] == run.board["rows"]
    value = rows_of(run)["Worst"]["overall"]["average"]["value"]
    out = io.StringIO()
    call_command("leaderboard", "board", "--pairs", stdout=out)
    assert f" {value:.2f}" in out.getvalue()
    difference = printed["pairs"]["pairs"]["0-1"]["overall"]["value"]
    assert f"+{difference:.2f}" in out.getvalue()
    client.force_login(he)
    for page in PAGES:
        assert client.get(f"/runs/board/{page}").status_code == 200, page
    board = client.get("/runs/board/").content.decode()
    assert f"{value:.2f}" in board
    report = client.get("/runs/board/export/?format=report").content.decode()
    assert f"{value:.2f} [" in report
    assert "Overall is the unweighted mean of the unrounded values of the criteria" in report
    assert client.get("/runs/board/label-plan/").status_code == 200
