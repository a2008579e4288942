"""Each gold label keeps the chance with which its response was selected, on its way to figures and to other sites."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

from annotation.core.errors import Conflict
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import BatchDraw, Collection, GoldRelease, Guideline, Person, Response
from annotation.selectors.releases.selection import list_chances
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.batches.draws import record_draw
from annotation.services.exports import Options, export_release
from annotation.services.imports import BundleNames, import_bundle
from annotation.services.releases import cut_release
from benchmark.domain.estimates.selection import is_by_chance
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.estimates.label_plan import PlanGoal
from benchmark.selectors.leaderboards.runs import find_part
from benchmark.services.estimates import create_label_plan
from scoring.services import create_abstained_batch
from tests.benchmark.labelling_support import predict_all, run_of, truth
from tests.benchmark.support import ready_scorer, response_of
from tests.support import label, make_corpus

pytestmark = pytest.mark.django_db
POLICY = Policy(overlap=1)
record_draws = import_module("benchmark.migrations.0007_draws_of_earlier_plans").record_draws


def label_all(batch: object, person: Person) -> None:
    while claim := claim_next_task(batch=batch, person=person):
        label(claim, person, truth(response_of(claim)))
    set_state(batch=batch, state="closed")


@pytest.fixture
def plan(guideline: Guideline, chen: Person) -> LabelPlan:
    """Everything of one model has gold; of another one a plan has drawn a part, which has gold by now."""
    dataset = make_corpus(prompts=60, models=["Best", "Worst"], name="corpus")
    spec = BatchSpec(
        name="all of Best", guideline=guideline, dataset=dataset, annotators=[chen], policy=POLICY
    )
    best = Response.objects.filter(model__name="Best").values_list("pk", flat=True)
    batch = create_batch(spec.model_copy(update={"among": tuple(best)}))
    label_all(batch, chen)
    scorer = ready_scorer(cut_release(ReleaseSpec(name="first", batches=[batch])), guideline)
    predict_all(scorer, dataset)
    run = run_of(scorer, dataset)
    made = create_label_plan(
        run=run, goal=PlanGoal(half_width=0.2), name="plan", annotators=[chen], policy=POLICY, seed=3
    )
    label_all(made.batch, chen)
    return made


def cut_both(plan: LabelPlan, name: str = "both") -> GoldRelease:
    batches = [*plan.run.scorer.release.batches.all(), plan.batch]
    return cut_release(ReleaseSpec(name=name, batches=batches))


def run_on(release: GoldRelease, plan: LabelPlan, guideline: Guideline, name: str) -> BenchmarkRun:
    scorer = ready_scorer(release, guideline, name=name)
    predict_all(scorer, plan.run.dataset)
    return run_of(scorer, plan.run.dataset, name=name)


def read_selection(run: BenchmarkRun) -> list[dict[str, object]]:
    content = find_part(run, "estimates")
    assert content is not None
    selection: list[dict[str, object]] = content["selection"]
    return selection


def weigh_by_cell(release: GoldRelease) -> dict[tuple[str, str], float]:
    """The responses that the labels stand for: the sum of what each is weighed with."""
    cells: dict[tuple[str, str], float] = defaultdict(float)
    chances = list_chances(release)
    for response in Response.objects.filter(pk__in=chances).select_related("model", "prompt"):
        chance = chances[response.pk]
        assert chance is not None
        cells[response.model.name, response.prompt.dimension] += 1 / chance
    return dict(cells)


@pytest.mark.both_databases
def test_chances_weigh_the_labels_back_to_all_responses(plan: LabelPlan, guideline: Guideline):
    release = cut_both(plan)
    assert weigh_by_cell(release) == pytest.approx(
        {(model, dimension): 30 for model in ("Best", "Worst") for dimension in ("safe", "unsafe")}
    )
    chances = release.items.filter(task__batch=plan.batch).values_list("chance", flat=True)
    assert all(0 < chance < 1 for chance in chances if chance is not None)
    assert {row["how"] for row in release.manifest["selection"]} == {"all", "drawn"}
    selection = read_selection(run_on(release, plan, guideline, "again"))
    assert is_by_chance(selection, "Worst", ["safe", "unsafe"])
    assert is_by_chance(selection, "Best", ["safe", "unsafe"])
    assert not is_by_chance(None, "Best", ["safe"])


def test_a_second_draw_of_the_same_strata_adds_its_chance(plan: LabelPlan, chen: Person):
    more = create_label_plan(
        run=plan.run, goal=PlanGoal(half_width=0.1), name="more", annotators=[chen], policy=POLICY, seed=4
    )
    label_all(more.batch, chen)
    batches = [*plan.run.scorer.release.batches.all(), plan.batch, more.batch]
    release = cut_release(ReleaseSpec(name="three", batches=batches))
    assert list(weigh_by_cell(release).values()) == pytest.approx([30] * 4)
    # which took nothing of some strata, so that by itself it stands for no known part
    second = cut_release(ReleaseSpec(name="second alone", batches=[more.batch]))
    assert set(list_chances(second).values()) == {None}


def test_a_pool_that_grew_since_the_draw_leaves_no_chance_and_older_releases_as_they_are(
    plan: LabelPlan, guideline: Guideline
):
    before = cut_both(plan)
    worst = Response.objects.filter(model__name="Worst", prompt__dimension="safe").first()
    assert worst is not None
    collection, _created = Collection.objects.get_or_create(name="")
    prompt = worst.prompt.dataset.prompts.create(key="new", text="A new question?", dimension="safe")
    Response.objects.create(
        prompt=prompt, model=worst.model, collection=collection, text="New.", sha256="0" * 64
    )
    after = cut_both(plan, "after")
    hows = {(row["model"], row["dimension"], row["batch"]): row["how"] for row in after.manifest["selection"]}
    assert hows["Worst", "safe", "plan"] == "grown"
    assert hows["Worst", "unsafe", "plan"] == "drawn"
    assert hows["Best", "safe", "all of Best"] == "all"
    grown = after.items.filter(task__response__model__name="Worst", task__prompt__dimension="safe")
    assert set(grown.values_list("chance", flat=True)) == {None}
    assert set(before.items.values_list("chance", flat=True)).isdisjoint({None})
    # a run over the pool as it is now does not take the older release's word for it
    selection = read_selection(run_on(before, plan, guideline, "later"))
    assert not is_by_chance(selection, "Worst", ["safe"])
    assert is_by_chance(selection, "Worst", ["unsafe"])
    assert before.sha256 == after.sha256


def test_a_release_of_before_is_not_worked_out_from_batches_as_they_are_now(
    plan: LabelPlan, guideline: Guideline
):
    release = cut_both(plan)
    del release.manifest["selection"]
    release.save()
    rows = read_selection(run_on(release, plan, guideline, "old"))
    hows = {(row["model"], row["how"]) for row in rows}
    assert hows == {("Best", "all"), ("Worst", "unrecorded")}


def test_a_draw_is_recorded_once(plan: LabelPlan):
    with pytest.raises(Conflict):
        record_draw(plan.batch, [])


@pytest.mark.both_databases
def test_a_bundle_carries_the_chances_and_what_is_unknown(plan: LabelPlan, tmp_path: Path):
    release = cut_both(plan)
    plain = GoldRelease.objects.get(pk=release.pk)
    export_release(release=release, format_name="bundle", folder=tmp_path, options=Options())
    names = {"all of Best": "carried-best", "plan": "carried-plan"}
    import_bundle(
        source=Source(tmp_path / "bundle.zip", "bundle.zip"), called=BundleNames(names, release="carried")
    )
    carried = GoldRelease.objects.get(name="carried")
    assert carried.sha256 == release.sha256
    assert list_chances(carried) == pytest.approx(list_chances(release))
    assert {row["how"] for row in carried.manifest["selection"]} == {"all", "drawn"}

    del plain.manifest["selection"]
    plain.save()
    export_release(release=plain, format_name="bundle", folder=tmp_path / "old", options=Options())
    import_bundle(
        source=Source(tmp_path / "old" / "bundle.zip", "bundle.zip"),
        called=BundleNames({name: f"old-{name}".replace(" ", "-") for name in names}, release="old"),
    )
    old = GoldRelease.objects.get(name="old")
    assert {row["how"] for row in old.manifest["selection"]} == {"unrecorded"}
    assert set(old.items.values_list("chance", flat=True)) == {None}


@pytest.mark.both_databases
def test_of_what_a_scorer_is_least_sure_of_only_the_recorded_random_share_is_weighed(
    plan: LabelPlan, chen: Person
):
    run = plan.run
    dataset = make_corpus(prompts=60, models=["Newest"], name="another")
    predict_all(run.scorer, dataset)
    run.scorer.card = {"conformal": {"criteria": {"compliance": {"coverages": {"0.9": {"threshold": 0.35}}}}}}
    run.scorer.save()
    batch = create_abstained_batch(
        name="unsure",
        scorer=run.scorer,
        dataset=dataset,
        annotators=[chen],
        policy=POLICY,
        limit=24,
        random_share=0.5,
        seed=5,
    )
    label_all(batch, chen)
    release = cut_release(ReleaseSpec(name="unsure", batches=[batch]))
    rows = release.manifest["selection"]
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row["how"]] += row["labels"]
    assert set(counts) == {"drawn", "least_sure"}
    assert sum(row["known"] for row in rows) == counts["drawn"]
    chances = [chance for chance in list_chances(release).values() if chance is not None]
    assert len(chances) == counts["drawn"]
    # weighed, the share stands for all responses
    assert sum(1 / chance for chance in chances) == pytest.approx(60)


def test_plans_of_before_get_the_record_that_they_would_get_today(plan: LabelPlan, chen: Person):
    more = create_label_plan(
        run=plan.run, goal=PlanGoal(half_width=0.1), name="more", annotators=[chen], policy=POLICY, seed=4
    )
    label_all(more.batch, chen)
    recorded = dict(BatchDraw.objects.values_list("batch", "strata"))
    BatchDraw.objects.all().delete()
    record_draws(apps, None)
    assert len(recorded) == 2
    assert _sort_responses(dict(BatchDraw.objects.values_list("batch", "strata"))) == _sort_responses(
        recorded
    )
    record_draws(apps, None)  # what is recorded stays
    assert BatchDraw.objects.count() == 2


@pytest.mark.parametrize(
    "change", ["a response more", "no record of what people had", "no strata of the run"]
)
def test_plans_of_before_that_do_not_determine_their_draw_stay_unknown(plan: LabelPlan, change: str):
    BatchDraw.objects.all().delete()
    strata = [dict(row) for row in plan.strata]
    place = next(at for at, row in enumerate(strata) if row["drawn"])
    match change:
        case "a response more":
            strata[place]["drawn"] += 1
        case "no record of what people had":
            del strata[place]["held"]
        case _:
            plan.run.parts.filter(name="unlabelled").delete()
    LabelPlan.objects.filter(pk=plan.pk).update(strata=strata)
    record_draws(apps, None)
    assert not BatchDraw.objects.exists()
    assert {row["how"] for row in cut_both(plan).manifest["selection"] if row["batch"] == "plan"} == {"part"}


def test_a_plan_of_before_after_labels_of_unknown_chance_has_none(plan: LabelPlan):
    BatchDraw.objects.all().delete()
    strata = [row | {"held": row["held"] + 1} for row in plan.strata]
    LabelPlan.objects.filter(pk=plan.pk).update(strata=strata)
    record_draws(apps, None)
    rows = BatchDraw.objects.get().strata
    assert {(row["chance"], row["reason"]) for row in rows} == {(None, "earlier")}


def _sort_responses(draws: dict[int, list[dict[str, Any]]]) -> dict[int, list[dict[str, Any]]]:
    return {
        batch: [row | {"responses": sorted(row["responses"])} for row in strata]
        for batch, strata in draws.items()
    }
