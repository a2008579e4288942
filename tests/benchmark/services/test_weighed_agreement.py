"""Agreement is weighed by one over the chance of selection where a draw made the chances differ, and says so."""

from __future__ import annotations

import json
from collections import defaultdict
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils.translation import override

from annotation.domain.agreement import measure_agreement
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Annotation, Batch, BatchDraw, Guideline, Person, Response, Task
from annotation.selectors.agreement import LabelPatterns
from annotation.selectors.agreement.label_table import clear_units
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.exports.datasheet import render_markdown
from annotation.services.releases import cut_release
from benchmark.models import LabelPlan
from benchmark.selectors.estimates.label_plan import PlanGoal
from benchmark.services.estimates import create_label_plan
from tests.benchmark.labelling_support import predict_all, run_of, truth
from tests.benchmark.support import ready_scorer, response_of
from tests.support import label, make_corpus

pytestmark = pytest.mark.django_db
POLICY = Policy(overlap=2)
NOT_KNOWN = "not weighed: the chance of selection is not known"


@pytest.fixture(autouse=True)
def _without_cached_units() -> None:
    clear_units()


def label_all(batch: Batch, *people: Person) -> None:
    """Both alike, but for every second response of those that were drawn the most often."""
    strata = BatchDraw.objects.get(batch=batch).strata if hasattr(batch, "draw") else []
    chances = {response: stratum["chance"] for stratum in strata for response in stratum["responses"]}
    often = sorted(response for response, chance in chances.items() if chance == max(chances.values()))
    disputed = set(often[::2])
    for second, person in enumerate(people):
        while claim := claim_next_task(batch=batch, person=person):
            response = response_of(claim)
            value = truth(response)
            label(claim, person, 4 - value if second and response.pk in disputed else value)


@pytest.fixture
def plan(guideline: Guideline, chen: Person, lin: Person, zhou: Person) -> LabelPlan:
    dataset = make_corpus(prompts=60, models=["Best", "Worst"], name="corpus")
    best = tuple(Response.objects.filter(model__name="Best").values_list("pk", flat=True))
    spec = BatchSpec(
        name="all of Best",
        guideline=guideline,
        dataset=dataset,
        among=best,
        annotators=[chen],
        policy=Policy(overlap=1),
    )
    batch = create_batch(spec)
    label_all(batch, chen)
    set_state(batch=batch, state="closed")
    scorer = ready_scorer(cut_release(ReleaseSpec(name="first", batches=[batch])), guideline)
    predict_all(scorer, dataset)
    return create_label_plan(
        run=run_of(scorer, dataset),
        goal=PlanGoal(half_width=0.2),
        name="plan",
        annotators=[chen, lin],
        adjudicators=[zhou],
        policy=POLICY,
        seed=3,
    )


def read_rows(batch: Batch) -> list[dict[str, object]]:
    return [row.to_json() for row in LabelPatterns([batch]).report([("dimension",)])]


def test_an_open_batch_is_not_weighed_and_says_why(plan: LabelPlan, chen: Person, lin: Person):
    claim = claim_next_task(batch=plan.batch, person=chen)
    label(claim, chen, 1)
    other = claim_next_task(batch=plan.batch, person=lin)
    label(other, lin, 1)
    row, *_rows = read_rows(plan.batch)
    assert (row["weighed"], row["weighed_reason"]) == (None, "unfinished")


def test_a_drawn_batch_is_weighed_to_all_responses(plan: LabelPlan, chen: Person, lin: Person, he: Person):
    label_all(plan.batch, chen, lin)
    weight = {
        response: 1 / stratum["chance"]
        for stratum in BatchDraw.objects.get(batch=plan.batch).strata
        for response in stratum["responses"]
    }
    assert len(set(weight.values())) > 1
    labels: dict[int, dict[int, float]] = defaultdict(dict)
    for annotation in Annotation.objects.filter(current=True, assignment__task__batch=plan.batch):
        (value,) = annotation.labels.values()
        labels[annotation.assignment.task_id][annotation.assignment.person_id] = value
    total = agreeing = 0.0
    for task in Task.objects.filter(batch=plan.batch):
        first, second = labels[task.pk].values()
        total += weight[task.response_id]
        agreeing += weight[task.response_id] * (first == second)
    assert total == pytest.approx(60)
    (row, *by_dimension) = read_rows(plan.batch)
    assert (row["weighed"], row["weighed_reason"]) == (True, None)
    percent = row["percent_agreement"]
    assert isinstance(percent, dict)
    assert percent["value"] == pytest.approx(agreeing / total)
    assert percent["value"] != pytest.approx(1 - row["disputed"] / row["n"], abs=1e-6)
    assert by_dimension

    out = StringIO()
    call_command("agreement", "--batch", "plan", "--json", stdout=out)
    assert json.loads(out.getvalue())["rows"][0]["weighed"] is True
    out = StringIO()
    call_command("agreement", "--batch", "plan", stdout=out)
    assert "each counts by one over its chance" in out.getvalue()

    client = Client()
    client.force_login(he)
    set_state(batch=plan.batch, state="closed")
    for address in ("/agreement/?batch=plan", "/report/?batch=plan"):
        assert "each counts by one over its chance" in client.get(address).content.decode()
    release = cut_release(ReleaseSpec(name="second", batches=[plan.batch]))
    sheet = render_markdown(release.manifest, "en")
    # disputes that wait have labels and no gold: agreement knows its chance, gold does not
    assert release.manifest["agreement"][0]["weighed"] is True
    assert "each counts by one over its chance" in " ".join(sheet.split())


def test_labels_of_unknown_selection_are_as_they_are(plan: LabelPlan, chen: Person, lin: Person, he: Person):
    label_all(plan.batch, chen, lin)
    weighed = LabelPatterns([plan.batch]).list_counts()[0]
    BatchDraw.objects.filter(batch=plan.batch).delete()
    row, *_rows = read_rows(plan.batch)
    assert (row["weighed"], row["weighed_reason"]) == (None, "part")
    plain = measure_agreement(
        weighed.counts.counts, values=weighed.values, measurement=weighed.measurement, intervals=False
    )
    for name, statistic in plain.statistics.items():
        own = row[name]
        assert (own["value"] if isinstance(own, dict) else None) == statistic.value
    client = Client()
    client.force_login(he)
    set_state(batch=plan.batch, state="closed")
    for address in ("/agreement/?batch=plan", "/report/?batch=plan"):
        assert NOT_KNOWN in " ".join(client.get(address).content.decode().split())
    with override("en"):
        sheet = render_markdown(cut_release(ReleaseSpec(name="b", batches=[plan.batch])).manifest, "en")
    assert NOT_KNOWN in " ".join(sheet.split())


def test_gold_of_everything_is_not_weighed_and_says_nothing(
    plan: LabelPlan, guideline: Guideline, chen: Person, lin: Person, he: Person
):
    spec = BatchSpec(
        name="whole",
        guideline=guideline,
        dataset=plan.run.dataset,
        annotators=[chen, lin],
        policy=POLICY,
    )
    batch = create_batch(spec)
    label_all(batch, chen, lin)
    set_state(batch=batch, state="closed")
    assert {(row["weighed"], row["weighed_reason"]) for row in read_rows(batch)} == {(False, "equal")}
    client = Client()
    client.force_login(he)
    page = client.get("/agreement/?batch=whole").content.decode()
    assert "one over its chance" not in page
    assert "not weighed" not in page
