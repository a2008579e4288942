"""The batch of a label plan: drawn within strata, reproducible, without what people have; and the command."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from annotation.core.errors import AssayError, Conflict, Forbidden, NotFound
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    AuditEvent,
    Batch,
    EvaluatedModel,
    Guideline,
    Person,
    Prompt,
    ReleasedLabel,
    Response,
    Task,
)
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import add_members, create_batch, set_state
from annotation.services.releases import cut_release
from benchmark.domain.estimates.label_plan.label_plan import PlanStratum
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.estimates.label_plan import PlanGoal, get_labelling_status, measure_effort
from benchmark.selectors.estimates.strata import list_drawn_strata
from benchmark.selectors.leaderboards.runs import find_part
from benchmark.services.estimates import create_label_plan, draw_demands, load_standing
from scoring.models import Scorer
from tests.benchmark.labelling_support import predict_all, run_of, run_with_gold, scorer_like, sureness, truth
from tests.benchmark.support import ready_scorer, response_of
from tests.support import XSTEST_GUIDELINE, label, person

pytestmark = pytest.mark.django_db
TEN = PlanGoal(half_width=0.1)


@pytest.fixture(scope="module")
def board(module_db: None) -> str:
    return run_with_gold(XSTEST_GUIDELINE.load(), [person("lin"), person("chen")]).name


@pytest.fixture
def run(db: None, board: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=board)


def tasks_of(batch: Batch) -> list[int]:
    return list(batch.tasks.order_by("response").values_list("response", flat=True))


def test_the_strata_are_those_of_the_estimates(run: BenchmarkRun):
    status = get_labelling_status(run)
    estimates = find_part(run, "estimates")
    assert estimates is not None
    expected = {
        (row["model"], scope, (stratum_row["low"], stratum_row["high"])): (
            stratum_row["population"],
            stratum_row["labelled"],
            stratum_row["variance"],
        )
        for row in estimates["rows"]
        for scope, metrics in row["cells"].items()
        for stratum_row in next(iter(metrics.values()), {}).get("strata", [])
    }
    assert {
        stratum.key: (stratum.population, stratum.labelled, stratum.variance) for stratum in status.strata
    } == expected
    assert sum(stratum.population for stratum in status.strata) == 90
    assert (
        sum(stratum.labelled for stratum in status.strata)
        == sum(stratum.held for stratum in status.strata)
        == 45
    )
    assert sum(len(ids) for ids in status.free_responses.values()) == 45


def test_the_batch_holds_what_was_drawn_and_the_plan_says_from_where(
    run: BenchmarkRun, chen: Person, zhou: Person, he: Person
):
    targets = get_labelling_status(run).plan_labels(TEN)
    plan = create_label_plan(run=run, goal=TEN, name="next", annotators=[chen, zhou], seed=5, actor=he)
    batch = plan.batch
    assert (batch.state, batch.guideline.name, plan.seed, plan.created_by) == ("open", "xstest", 5, he)
    responses = Response.objects.filter(pk__in=tasks_of(batch)).select_related("prompt", "model")
    assert (
        len(responses)
        == sum(target.more for target in targets)
        == sum(stratum["drawn"] for stratum in plan.strata)
        > 0
    )
    gold = set(ReleasedLabel.objects.values_list("task__response", flat=True))
    assert gold.isdisjoint(response.pk for response in responses)
    places: Counter[Any] = Counter()
    for response in responses:
        (stratum,) = [
            row
            for row in plan.strata
            if (row["model"], row["scope"]) == (response.model.name, response.prompt.dimension)
            and row["low"] <= sureness(response) < row["high"]
        ]
        places[stratum["model"], stratum["scope"], stratum["low"]] += 1
    assert {
        (row["model"], row["scope"], row["low"]): row["drawn"] for row in plan.strata if row["drawn"]
    } == places
    event = AuditEvent.objects.get(verb="label_next")
    assert (event.target, event.data["run"], event.data["responses"]) == (
        "batch:next",
        "board",
        len(responses),
    )


def test_the_same_seed_draws_the_same(run: BenchmarkRun, chen: Person, zhou: Person):
    status = get_labelling_status(run)
    targets = status.plan_labels(TEN)
    drawn = draw_demands(status, targets, 5)
    assert draw_demands(get_labelling_status(run), targets, 5) == drawn
    assert draw_demands(status, targets, 6) != drawn
    flat = sorted(response for ids in drawn for response in ids)
    assert len(flat) == len(set(flat))
    made = create_label_plan(run=run, goal=TEN, name="next", annotators=[chen, zhou], seed=5)
    assert tasks_of(made.batch) == flat


def test_what_people_are_at_is_drawn_no_second_time(run: BenchmarkRun, chen: Person, zhou: Person):
    first = create_label_plan(run=run, goal=TEN, name="one", annotators=[chen, zhou], seed=1)
    with pytest.raises(AssayError, match="Nothing is left to label"):
        create_label_plan(run=run, goal=TEN, name="two", annotators=[chen, zhou], seed=1)
    second = create_label_plan(
        run=run, goal=PlanGoal(half_width=0.01), name="two", annotators=[chen, zhou], seed=1
    )
    assert set(tasks_of(first.batch)).isdisjoint(tasks_of(second.batch))
    assert len(tasks_of(first.batch)) + len(tasks_of(second.batch)) == 45
    status = get_labelling_status(run)
    assert sum(stratum.held for stratum in status.strata) == 90
    assert sum(stratum.labelled for stratum in status.strata) == 45  # no gold yet
    # what is withdrawn may be drawn again
    task = first.batch.tasks.first()
    assert task is not None
    Task.objects.filter(pk=task.pk).update(state=Task.State.WITHDRAWN)
    third = create_label_plan(run=run, goal=PlanGoal(half_width=0.001), name="three", open_now=False)
    assert tasks_of(third.batch) == [task.response_id]


def test_what_a_closed_batch_left_undone_is_free_again(run: BenchmarkRun, chen: Person):
    plan = create_label_plan(
        run=run, goal=TEN, name="one", annotators=[chen], policy=Policy(overlap=1), seed=1
    )
    drawn = tasks_of(plan.batch)
    claim = claim_next_task(batch=plan.batch, person=chen)
    assert claim is not None
    label(claim, chen, 3)
    assert get_labelling_status(run).waiting == len(drawn)
    set_state(batch=plan.batch, state="closed")
    status = get_labelling_status(run)
    assert status.waiting == 1  # the one that was labelled
    free = {response for ids in status.free_responses.values() for response in ids}
    assert set(drawn) - free == {claim.task.response_id}
    create_label_plan(
        run=run, goal=PlanGoal(half_width=0.001), name="two", annotators=[chen], policy=Policy(overlap=1)
    )
    assert get_labelling_status(run).waiting == 45


@pytest.mark.both_databases
def test_what_a_run_keeps_for_plans_is_what_its_items_say(run: BenchmarkRun):
    status = get_labelling_status(run)
    with CaptureQueriesContext(connection) as queries:
        get_labelling_status(run)
    read = " ".join(query["sql"] for query in queries)
    assert "scoring_prediction" not in read
    assert "benchmark_runitem" not in read
    run.parts.filter(name="unlabelled").delete()
    assert get_labelling_status(run) == status


def test_a_plan_from_another_run_is_kept_to_by_a_run_that_was_finished_before(
    run: BenchmarkRun, guideline: Guideline, chen: Person
):
    """Labels would else be drawn at different rates inside of the other run's strata."""
    other = ready_scorer(run.scorer.release, guideline, name="scorer-2")
    predict_all(other, run.dataset)
    surer(other)
    other_run = run_of(other, run.dataset, name="again")
    assert {stratum.key for stratum in get_labelling_status(other_run).strata} != {
        stratum.key for stratum in get_labelling_status(run).strata
    }
    create_label_plan(run=run, goal=TEN, name="next", annotators=[chen], policy=Policy(overlap=1))
    other_status, first = get_labelling_status(other_run), get_labelling_status(run)
    assert [(stratum.key, stratum.population, stratum.held) for stratum in other_status.strata] == [
        (stratum.key, stratum.population, stratum.held) for stratum in first.strata
    ]
    assert other_status.free_responses == first.free_responses
    plan = create_label_plan(
        run=other_run, goal=PlanGoal(half_width=0.01), name="2", annotators=[chen], policy=Policy(overlap=1)
    )
    bounds = {
        (stratum["model"], stratum["scope"], (stratum["low"], stratum["high"])) for stratum in plan.strata
    }
    assert bounds == {stratum.key for stratum in first.strata}
    # and the run that was first goes on as it was
    assert [stratum.key for stratum in get_labelling_status(run).strata] == [
        stratum.key for stratum in first.strata
    ]


@pytest.mark.both_databases
def test_what_a_plan_of_another_run_made_stale_is_computed_once_and_kept(
    run: BenchmarkRun, guideline: Guideline, chen: Person
):
    other_run = run_of(scorer_like(run, guideline, "scorer-2"), run.dataset, name="again")
    create_label_plan(run=run, goal=TEN, name="next", annotators=[chen], policy=Policy(overlap=1))
    anew = get_labelling_status(other_run)
    assert not anew.is_stored
    assert load_standing(other_run) == anew
    with CaptureQueriesContext(connection) as queries:
        status = get_labelling_status(other_run)
    assert (status, status.is_stored) == (anew, True)
    assert not any("benchmark_runitem" in query["sql"] for query in queries)
    third = run_of(scorer_like(run, guideline, "scorer-3"), run.dataset, name="third")
    create_label_plan(
        run=third, goal=PlanGoal(half_width=0.01), name="3", annotators=[chen], policy=Policy(overlap=1)
    )
    assert not get_labelling_status(other_run).is_stored  # another plan has come
    assert get_labelling_status(run).is_stored  # none came before its own


def test_responses_that_came_after_the_first_plan_keep_the_strata_that_they_were_drawn_in(
    run: BenchmarkRun, guideline: Guideline, chen: Person
):
    """Those of a later plan, made from a run whose scorer was another: the first plan's scorer never saw them."""
    policy = Policy(overlap=1)
    create_label_plan(run=run, goal=TEN, name="one", annotators=[chen], policy=policy)
    new = EvaluatedModel.objects.create(name="Newest")
    for prompt in run.dataset.prompts.all():
        text = f"Newest to {prompt.key}"
        Response.objects.create(
            prompt=prompt,
            model=new,
            collection=run.collection,
            text=text,
            sha256=response_sha256(text, []),
        )
    second = run_of(scorer_like(run, guideline, "scorer-2"), run.dataset, name="second")
    create_label_plan(run=second, goal=TEN, name="two", annotators=[chen], policy=policy)
    drawn_in = {stratum.key for stratum in get_labelling_status(second).strata}
    third = scorer_like(run, guideline, "scorer-3")
    surer(third)
    third_run = run_of(third, run.dataset, name="third")
    assert {stratum.key for stratum in get_labelling_status(third_run).strata} == drawn_in
    estimates = find_part(third_run, "estimates")
    assert estimates is not None
    row = next(row for row in estimates["rows"] if row["model"] == "Newest")
    row_bounds = {
        (stratum_row["low"], stratum_row["high"])
        for stratum_row in row["cells"]["safe"]["full_compliance_rate"]["strata"]
    }
    assert row_bounds == {bounds for model, scope, bounds in drawn_in if (model, scope) == ("Newest", "safe")}


def surer(scorer: Scorer) -> None:
    """By its own sureness every response has another stratum."""
    for prediction in scorer.predictions.all():
        level, share = max(prediction.probabilities.items(), key=lambda pair: pair[1])
        prediction.probabilities = {level: 1 - share / 3}
        prediction.save()


def test_labels_drawn_by_a_plan_keep_its_strata_under_a_later_scorer(
    run: BenchmarkRun, guideline: Guideline, chen: Person
):
    assert list_drawn_strata(run) == {}
    plan = create_label_plan(
        run=run, goal=TEN, name="next", annotators=[chen], policy=Policy(overlap=1), seed=3
    )
    while claim := claim_next_task(batch=plan.batch, person=chen):
        label(claim, chen, truth(response_of(claim)))
    set_state(batch=plan.batch, state="closed")
    release = cut_release(ReleaseSpec(name="gold-2", batches=[Batch.objects.get(name="gold"), plan.batch]))
    later = ready_scorer(release, guideline, name="scorer-2")
    predict_all(later, run.dataset)
    # It is surer than the first: by its own sureness every response would have another stratum.
    for prediction in later.predictions.all():
        prediction.probabilities = {
            level: 0.99 * bool(share) for level, share in prediction.probabilities.items()
        }
        prediction.save()
    assert list_drawn_strata(run) == {}
    later_run = run_of(later, run.dataset, name="board @ scorer-2")
    estimates, first = find_part(later_run, "estimates"), find_part(run, "estimates")
    assert estimates is not None
    assert first is not None
    bounds = {
        (stratum_row["low"], stratum_row["high"])
        for row in estimates["rows"]
        for stratum_row in row["cells"]["safe"]["full_compliance_rate"]["strata"]
    }
    edges = [0.0, *first["strata"]["safe"], 1.0]
    assert bounds == set(pairwise(edges))
    assert len(list_drawn_strata(later_run)) == 90
    status = get_labelling_status(later_run)
    assert {stratum.bounds for stratum in status.strata if stratum.scope == "safe"} == bounds
    assert not any(stratum.assumed for stratum in status.strata)
    # the goal was reached, or nearly: its variances were estimates
    assert sum(target.more for target in status.plan_labels(PlanGoal(half_width=0.15))) == 0


def test_labels_for_a_pair_are_of_its_two_models(run: BenchmarkRun, chen: Person):
    status = get_labelling_status(run)
    strata = [
        PlanStratum(stratum.model, stratum.scope, stratum.bounds, 400, stratum.labelled, stratum.held, 0.2)
        for stratum in status.strata
    ]
    value, _low, _high = status.basis.differences["0-2"]
    ground = replace(status.basis, differences={"0-2": (value, 0.70, 0.80)}, combined={})
    first, second = ground.models[0], ground.models[2]
    wide = replace(status, basis=ground, strata=tuple(strata))
    pair = wide.find_pair(second, first)
    assert pair is not None
    assert (pair.first, pair.difference) == (second, -value)
    targets = wide.plan_labels(PlanGoal(pair=(first, second)))
    assert {(target.stratum.model, target.stratum.scope) for target in targets} == {
        (first, "safe"),
        (second, "safe"),
    }


def test_models_that_no_label_can_tell_apart(run: BenchmarkRun, chen: Person):
    """Fifteen safe prompts cannot tell 90% from 80%, were all of them labelled."""
    status = get_labelling_status(run)
    first = status.neighbours[0]
    assert first is not None
    assert not first.is_separable
    with pytest.raises(Conflict, match="differ by less than this dataset can tell"):
        create_label_plan(run=run, goal=PlanGoal(pair=("Best", "Middle")), name="next", annotators=[chen])
    for pair in (("Best", "None"), ("Best", "Best"), ("\0", "Best")):
        with pytest.raises(NotFound, match="two different models"):
            status.find_pair(*pair)
    assert not Batch.objects.filter(name="next").exists()


def test_models_without_a_common_prompt_have_a_difference_to_plan_for(run: BenchmarkRun):
    new = EvaluatedModel.objects.create(name="Newest")
    prompt = Prompt.objects.create(dataset=run.dataset, key="other", text="Another?", dimension="safe")
    Response.objects.create(
        prompt=prompt, model=new, collection=run.collection, text="Yes", sha256=response_sha256("Yes", [])
    )
    predict_all(scorer := ready_scorer(run.scorer.release, run.scorer.guideline, name="later"), run.dataset)
    status = get_labelling_status(run_of(scorer, run.dataset, name="again"))
    pair = status.find_pair("Best", "Newest")
    assert pair is not None
    assert pair.difference == pytest.approx(-status.find_pair("Newest", "Best").difference)  # type: ignore[union-attr]


def test_who_judges_blind_makes_no_batch_of_predictions(run: BenchmarkRun, he: Person, chen: Person):
    batch = create_batch(
        BatchSpec(
            name="mine",
            guideline=run.scorer.guideline,
            dataset=run.dataset,
            annotators=[he],
            policy=Policy(overlap=1),
        )
    )
    with pytest.raises(Forbidden):
        create_label_plan(run=run, goal=TEN, name="next", annotators=[chen], actor=he)
    set_state(batch=batch, state="closed")
    add_members(batch=Batch.objects.get(name="gold"), role="annotator", people=[he])
    Batch.objects.filter(name="gold").update(state="open")
    with pytest.raises(Forbidden):
        create_label_plan(run=run, goal=TEN, name="next", annotators=[chen], actor=he)


def test_a_batch_that_is_refused_leaves_no_plan(run: BenchmarkRun, chen: Person):
    for name, people in (("gold", [chen]), ("next", [])):
        with pytest.raises(AssayError):
            create_label_plan(run=run, goal=TEN, name=name, annotators=people)
    assert not LabelPlan.objects.exists()
    assert not Batch.objects.filter(name="next").exists()


def test_more_than_a_batch_holds_is_refused(run: BenchmarkRun, chen: Person, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmark.services.estimates.MAX_RESPONSES", 10)
    with pytest.raises(AssayError, match="a batch holds 10"):
        create_label_plan(run=run, goal=TEN, name="next", annotators=[chen, chen])


def test_a_run_without_parts_says_what_to_do(run: BenchmarkRun):
    before = get_labelling_status(run)
    run.parts.filter(name="planning").delete()
    assert get_labelling_status(run) == before  # from what it counted
    run.parts.filter(name="estimates").delete()
    with pytest.raises(Conflict, match="run it again"):
        get_labelling_status(run)
    BenchmarkRun.objects.filter(pk=run.pk).update(finished_at=None)
    with pytest.raises(Conflict, match="no leaderboard yet"):
        get_labelling_status(BenchmarkRun.objects.get(pk=run.pk))


def test_effort_is_what_past_work_took(run: BenchmarkRun):
    takes = measure_effort("xstest")
    assert takes.seconds is None  # nobody's time was measured here
    assert takes.disputed is None  # and every response had one annotator
    assert measure_effort("none").compute_hours(3) is None


def call_plan_labels(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("plan_labels", *arguments, "--json", stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def test_the_command_says_what_is_needed(run: BenchmarkRun, capsys: pytest.CaptureFixture[str]):
    report = call_plan_labels("board", "--points", "10")
    assert report["labels"] == sum(target.more for target in get_labelling_status(run).plan_labels(TEN))
    assert sum(cell["labels"] for cell in report["cells"]) == report["labels"]
    assert report["goal"] == {"half_width": 0.1, "pair": None}
    # The gold of this board was picked by hand: nothing corrects its predictions.
    assert [neighbour["separated"] for neighbour in report["neighbours"]] == [False, False]
    assert {row["reason"] for row in report["comparison"]["models"]} == {"selection"}
    assert report["comparison"]["labels"] == 0
    assert report["neighbours"][0]["labels"] is None
    call_command("plan_labels", "board", "--points", "10")
    output = capsys.readouterr().out
    assert f"to plus or minus 10 points on every dimension: {report['labels']} more labels" in output
    assert "they differ by less than this dataset can tell" in output
    assert not Batch.objects.filter(name="next").exists()


def test_the_command_makes_the_batch_and_then_counts_it(
    run: BenchmarkRun, chen: Person, zhou: Person, wu: Person, capsys: pytest.CaptureFixture[str]
):
    arguments = ("--annotators", "chen,zhou", "--adjudicators", "wu", "--seed", "9")
    report = call_plan_labels("board", "--points", "10", "--make-batch", "next", *arguments)
    assert report["batch"] == {"name": "next", "state": "open", "drawn": report["labels"], "seed": 9}
    assert LabelPlan.objects.get().batch.memberships.count() == 3
    then = call_plan_labels("board", "--points", "10")
    assert (report["waiting"], then["waiting"], then["labels"]) == (0, report["labels"], 0)
    call_command("plan_labels", "board", "--points", "10")
    assert f"{report['labels']} responses are being labelled or have been since" in capsys.readouterr().out


BAD = (
    ["none"],
    ["board", "--points", "0"],
    ["board", "--points", "nan"],
    ["board", "--points", "1e99"],
    ["board", "--pair", "Best", "None"],
    ["board", "--pair", "Best", "Middle"],
    ["board", "--points", "2", "--pair", "Best", "Worst"],
    ["board", "--points", "2", "--compare"],
    ["board", "--compare", "nan"],
    ["board", "--compare", "0"],
    ["board", "--annotators", "lin"],
    ["board", "--make-batch", "next", "--annotators", "nobody"],
    ["board", "--make-batch", "next", "--annotators", "lin", "chen", "--seed", "-1"],
    ["board", "--make-batch", "gold", "--annotators", "lin", "chen"],
)


def test_the_command_refuses_in_one_line(run: BenchmarkRun, capsys: pytest.CaptureFixture[str]):
    for arguments in BAD:
        with pytest.raises(SystemExit) as stopped:
            call_command("plan_labels", *arguments)
        assert stopped.value.code == 1
        assert len(capsys.readouterr().err.strip().splitlines()) == 1, arguments
    assert not LabelPlan.objects.exists()
