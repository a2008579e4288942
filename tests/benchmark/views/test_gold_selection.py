"""Gold that no known chance has chosen is told beside the numbers that rest on it, and never counted in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.text_templates import render_text
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Guideline, Person
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.releases import cut_release
from benchmark.domain.estimates.selection import GoldSelection, selections_to_json, sum_unknown
from benchmark.models import BenchmarkRun, BoardPart
from benchmark.selectors.estimates.label_plan import PlanGoal
from benchmark.selectors.leaderboards.runs import find_part
from benchmark.services.estimates import create_label_plan
from benchmark.services.sharing import share_run
from benchmark.views.leaderboards.reports.exports import board_to_latex
from benchmark.views.leaderboards.tabs.estimates import list_unknown_selection
from scoring.models import Scorer
from scoring.services import create_abstained_batch
from tests.benchmark.labelling_support import predict_all, run_of, run_with_gold, truth
from tests.benchmark.support import ready_scorer, response_of
from tests.support import label, make_corpus

pytestmark = pytest.mark.django_db

THRESHOLD = {"conformal": {"criteria": {"compliance": {"coverages": {"0.9": {"threshold": 0.35}}}}}}


def build_selection(**changes: Any) -> GoldSelection:
    defaults = {"batch": "b", "model": "M", "dimension": "safe", "stored_method": "part"}
    return GoldSelection(
        **{**defaults, "labels": 5, "without_gold": 0, "responses": 10, "pool": 10, **changes}
    )


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("part", {}),
        ("drawn", {"stored_method": "drawn"}),
        ("grown", {"stored_method": "drawn", "responses": 11}),
        ("grown", {"stored_method": "all", "responses": 11}),
        ("grown", {"stored_method": "drawn", "pool": 11}),
        ("all", {"labels": 10, "stored_method": "abstained"}),  # which left nothing to choose
        ("unrecorded", {"stored_method": "unrecorded", "pool": 3}),
    ],
)
def test_a_batch_is_all_of_it_a_draw_or_a_choice(kind: str, changes: dict[str, Any]):
    (row,) = selections_to_json([build_selection(**changes)])
    assert row["how"] == kind


def test_two_parts_that_are_the_whole_leave_nothing_to_choose():
    rows = selections_to_json(
        [
            build_selection(batch="one"),
            build_selection(batch="two"),
            build_selection(batch="three", dimension="unsafe"),
        ]
    )
    assert [row["how"] for row in rows] == ["all", "all", "part"]
    assert [row["batch"] for row in sum_unknown(rows)] == ["three"]


def work(batch: Batch, person: Person, tasks: int | None = None) -> None:
    done = 0
    while (tasks is None or done < tasks) and (claim := claim_next_task(batch=batch, person=person)):
        label(claim, person, truth(response_of(claim)))
        done += 1
    set_state(batch=batch, state="closed")


def selection(run: BenchmarkRun) -> dict[tuple[str, str], int]:
    """The labels by batch and how they were chosen."""
    content = find_part(run, "estimates")
    assert content is not None
    label_counts: dict[tuple[str, str], int] = {}
    for row in content["selection"]:
        key = (row["batch"], row["how"])
        label_counts[key] = label_counts.get(key, 0) + row["labels"]
    return label_counts


def run_again_with(
    run: BenchmarkRun, guideline: Guideline, batches: Sequence[Batch], name: str = "again"
) -> BenchmarkRun:
    scorer: Scorer = ready_scorer(
        cut_release(ReleaseSpec(name=f"gold of {name}", batches=batches)), guideline, name=name
    )
    predict_all(scorer, run.dataset)
    return run_of(scorer, run.dataset, name=name)


@pytest.mark.both_databases
def test_a_hand_picked_batch_what_a_scorer_abstained_from_and_a_plan_of_the_rest_are_told(
    guideline: Guideline, lin: Person, chen: Person, he: Person, client: Client
):
    run = run_with_gold(guideline, [lin, chen], prompts=80)
    assert selection(run) == {("gold", "part"): 45}
    policy = Policy(overlap=1)
    plan = create_label_plan(
        run=run, goal=PlanGoal(half_width=0.15), name="plan", annotators=[chen], policy=policy, seed=3
    )
    drawn = plan.batch.tasks.count()
    run.scorer.card = THRESHOLD
    run.scorer.save()
    abstained = create_abstained_batch(
        name="unsure", scorer=run.scorer, dataset=run.dataset, annotators=[chen], policy=policy, limit=4
    )
    for batch in (plan.batch, abstained):
        work(batch, chen)
    rerun = run_again_with(run, guideline, [*run.scorer.release.batches.all(), plan.batch, abstained])
    assert selection(rerun) == {("gold", "part"): 45, ("plan", "earlier"): drawn, ("unsure", "abstained"): 4}

    client.force_login(he)
    page = client.get(reverse("run", args=["again"]), {"view": "estimates", "scope": "safe"}).content.decode()
    assert "45 labels are of the batch gold, which has some of the responses" in page
    assert "4 labels are of the batch unsure, which has what a scorer abstained from" in page
    assert (
        f"{drawn} labels are of the batch plan, which was drawn from what earlier labels of unknown selection had left"
        in page
    )
    content = find_part(rerun, "estimates")
    assert content is not None
    best = sum(
        row["labels"] for row in content["selection"] if (row["model"], row["dimension"]) == ("Best", "safe")
    )
    assert f"{best} not drawn by chance" in page
    cell = client.get(
        reverse("run-cell", args=["again"]), {"model": "Best", "dimension": "safe"}
    ).content.decode()
    assert f"{best} not drawn by chance" in cell
    assert "4 labels are of the batch unsure" in board_to_latex(rerun, "en", None)

    _link, secret = share_run(run=rerun, actor=he)
    client.logout()
    outside = client.get(reverse("shared", args=[secret]), {"view": "estimates"}).content.decode()
    assert "4 labels are of a batch, which has what a scorer abstained from" in outside
    assert "unsure" not in outside


@pytest.mark.both_databases
def test_a_batch_of_everything_is_no_choice_unless_something_of_it_lacks(
    guideline: Guideline, chen: Person, capsys: pytest.CaptureFixture[str]
):
    dataset = make_corpus(prompts=10, models=["Best", "Worst"], name="corpus")
    made = {"guideline": guideline, "dataset": dataset, "annotators": [chen], "policy": Policy(overlap=1)}
    half = create_batch(BatchSpec(name="half", **made))
    work(half, chen, tasks=12)
    scorer = ready_scorer(cut_release(ReleaseSpec(name="g", batches=[half])), guideline)
    predict_all(scorer, dataset)
    run = run_of(scorer, dataset)
    assert selection(run) == {("half", "unfinished"): 12}
    call_command("leaderboard", "board", "--estimates")
    assert "12 labels are of the batch half, of whose items 8 have no gold" in capsys.readouterr().out
    full_batch = create_batch(BatchSpec(name="whole", **made))
    work(full_batch, chen)
    rerun = run_again_with(run, guideline, [half, full_batch])
    assert {kind for _batch, kind in selection(rerun)} == {"all"}
    content = find_part(rerun, "estimates")
    assert content is not None
    assert list_unknown_selection(content) == []


def test_a_run_of_before_says_that_it_does_not_know(guideline: Guideline, lin: Person, chen: Person):
    run = run_with_gold(guideline, [lin, chen])
    part = BoardPart.objects.get(run=run, name="estimates")
    del part.content["selection"]
    (selection,) = list_unknown_selection(part.content)
    assert "run it again" in render_text("benchmark/wording/selection.txt", selection=selection)
