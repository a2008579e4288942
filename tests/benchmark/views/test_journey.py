"""Ten models, two labelled and eight predicted: what the board may say, the batch of one press, and what follows."""

from __future__ import annotations

import html
import io
import json
import random
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Guideline, Person, ReleasedLabel, Response
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.releases import cut_release
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.leaderboards.runs import find_grounds
from benchmark.services.estimates import load_standing
from scoring.models import Prediction, Scorer
from tests.benchmark.labelling_support import run_of
from tests.benchmark.support import ready_scorer, response_of
from tests.support import XSTEST_GUIDELINE, label, make_corpus, person

MODELS = tuple(f"Model-{letter}" for letter in "ABCDEFGHIJ")
LABELLED = MODELS[:2]
PROMPTS = 120
SHARES = {model: 0.95 - 0.09 * at for at, model in enumerate(MODELS)}
"""Of responses to safe prompts that fully comply: from .95 down to .14."""
PAGE = "/runs/board/label-plan/"
BATCH = "board-compare"
CLAIMS = {
    "en": ("no other model can be first", "significantly different", "is separated", "surely"),
    "zh-hans": ("不可能排第一", "差异显著", "确定较高", "确定较低"),
}


def truth(response: Response) -> int:
    drawn = random.Random(f"truth {response.model.name} {response.prompt.key}").random()
    return 3 if drawn < SHARES[response.model.name] else 1


def predicted(response: Response) -> int:
    drawn = random.Random(f"error {response.model.name} {response.prompt.key}").random()
    return truth(response) if drawn < 0.85 else 4 - truth(response)


def predict_responses(scorer: Scorer, responses: list[Response]) -> None:
    learned = set(
        ReleasedLabel.objects.filter(release=scorer.release).values_list("task__response", flat=True)
    )
    Prediction.objects.bulk_create(
        Prediction(
            scorer=scorer,
            response=response,
            criterion="compliance",
            value=predicted(response),
            probabilities={"1": 0.0, "2": 0.15, "3": 0.0} | {str(predicted(response)): 0.85},
            fold=0 if response.pk in learned else None,
        )
        for response in responses
    )


def label_all(batch: Batch, people: tuple[str, ...]) -> None:
    for name in people:
        while claim := claim_next_task(batch=batch, person=person(name)):
            label(claim, person(name), truth(response_of(claim)))


def make_board(guideline: Guideline) -> BenchmarkRun:
    """The run ``board``: all responses of two models are labelled, those of the others predicted."""
    dataset = make_corpus(prompts=PROMPTS, models=MODELS, name="ten")
    responses = list(Response.objects.select_related("prompt", "model").order_by("pk"))
    batch = create_batch(
        BatchSpec(
            name="gold",
            guideline=guideline.pk,
            dataset=dataset.pk,
            among=tuple(response.pk for response in responses if response.model.name in LABELLED),
            annotators=(person("lin").pk, person("chen").pk),
            policy=Policy(overlap=1),
        )
    )
    label_all(batch, ("lin", "chen"))
    set_state(batch=batch, state="closed")
    scorer = ready_scorer(cut_release(ReleaseSpec(name="gold-1", batches=[batch])), guideline)
    predict_responses(scorer, responses)
    return run_of(scorer, dataset)


@pytest.fixture(scope="module")
def board(module_db: None) -> str:
    return make_board(XSTEST_GUIDELINE.load()).name


@pytest.fixture
def run(db: None, board: str) -> BenchmarkRun:
    return BenchmarkRun.objects.get(name=board)


def read(client: Client, url: str, language: str = "en", **query: str) -> str:
    answer = client.get(url, query, headers={"Accept-Language": language})
    assert answer.status_code == 200
    text = re.sub(r"<(script|style|head).*?</\1>", " ", answer.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def plan_as_data(*options: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("plan_labels", "board", *options, "--json", stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def compared(run: BenchmarkRun) -> set[str]:
    return {model for model, ground in find_grounds(run).items() if ground.is_compared}


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "8 of 10 models are not compared: nothing is said of their places among the others."),
        ("zh-hans", "10 个模型中有 8 个不参与比较：它们在其他模型之间的位置不作任何判断。"),
    ],
)
def test_the_plan_says_what_is_not_compared_and_claims_nothing_of_it(
    client: Client, run: BenchmarkRun, he: Person, language: str, sentence: str
) -> None:
    assert compared(run) == set(LABELLED)
    client.force_login(he)
    page = read(client, PAGE, language)
    assert sentence in page
    status = load_standing(run)
    pairs = [pair for pair in status.neighbours if pair is not None]
    assert [pair.is_compared for pair in pairs] == [
        {pair.first, pair.second} <= set(LABELLED) for pair in pairs
    ]
    assert not any(pair.separated for pair in pairs if not pair.is_compared)
    if not any(pair.separated for pair in pairs):
        claimed = page.replace("not significantly different", "")
        assert not [claim for claim in CLAIMS[language] if claim in claimed]


@pytest.mark.parametrize(
    ("language", "compared_sentence", "hollow_sentence"),
    [
        (
            "en",
            "Ranks and pairs are among the 2 compared of 10 models.",
            "8 models are wholly predicted by a scorer; not compared.",
        ),
        (
            "zh-hans",
            "名次与模型对限于 10 个模型中参与比较的 2 个。",
            "8 个模型的数值全部由评分器预测，不参与比较。",
        ),
    ],
)
def test_the_board_says_what_it_may_and_not_more(
    client: Client, run: BenchmarkRun, he: Person, language: str, compared_sentence: str, hollow_sentence: str
) -> None:
    client.force_login(he)
    page = read(client, "/runs/board/", language)
    assert compared_sentence in page
    assert hollow_sentence in page
    assert CLAIMS[language][0] not in page
    assert PAGE in client.get("/runs/board/").content.decode()


def test_the_command_prints_the_same(client: Client, run: BenchmarkRun, he: Person) -> None:
    comparison = plan_as_data()["comparison"]
    assert (comparison["compared"], comparison["all"], comparison["batch"]) == (2, 10, None)
    assert {row["model"] for row in comparison["models"]} == set(MODELS[2:])
    assert {row["reason"] for row in comparison["models"]} == {"no_gold"}
    assert sum(row["labels"] for row in comparison["models"]) == comparison["labels"] > 0
    client.force_login(he)
    assert f"Make the batch of {comparison['labels']} responses" in read(client, PAGE)
    assert plan_as_data("--compare")["labels"] == comparison["labels"]
    assert plan_as_data("--compare", "40")["labels"] <= comparison["labels"]


def test_one_press_makes_the_batch_and_it_is_offered_once(
    client: Client, run: BenchmarkRun, he: Person
) -> None:
    planned = plan_as_data()["comparison"]["labels"]
    client.force_login(he)
    press = f"{PAGE}batch/?gap=15"
    assert client.post(press).status_code == 302
    plan = LabelPlan.objects.select_related("batch").get()
    assert (plan.batch.name, plan.batch.state, plan.batch.tasks.count()) == (BATCH, "draft", planned)
    assert {row["model"] for row in plan.strata if row["drawn"]} == set(MODELS[2:])
    assert plan.goal["gap"] == 0.15
    page = read(client, PAGE)
    assert "This batch has been drawn to compare all models." in page
    assert "Make the batch of" not in page
    client.post(press)
    assert LabelPlan.objects.count() == 1
    assert plan_as_data()["comparison"]["batch"] == {"name": BATCH, "state": "draft"}
    # The same seed draws the same from the same responses.
    drawn = set(plan.batch.tasks.values_list("response", flat=True))
    strata = [row for row in plan.strata if row["drawn"]]
    assert len(drawn) == sum(row["drawn"] for row in strata)


def test_once_the_labels_arrive_all_ten_are_compared(client: Client, run: BenchmarkRun, he: Person) -> None:
    client.force_login(he)
    client.post(f"{PAGE}batch/?gap=15")
    batch = Batch.objects.get(name=BATCH)
    set_state(batch=batch, state="open")
    label_all(batch, ("lin", "chen"))
    set_state(batch=batch, state="closed")
    batches = list(Batch.objects.order_by("pk"))
    release = cut_release(ReleaseSpec(name="gold-2", batches=batches))
    scorer = ready_scorer(release, run.scorer.guideline, "scorer-2")
    predict_responses(scorer, list(Response.objects.select_related("prompt", "model").order_by("pk")))
    after = run_of(scorer, run.dataset, "board-2")
    assert compared(after) == set(MODELS)
    assert {ground.name for ground in find_grounds(after).values()} == {"gold", "combined"}
    assert "Ranks and pairs are among the" not in read(client, "/runs/board-2/")
    page = read(client, "/runs/board-2/label-plan/")
    assert "All 10 models of the board are compared." in page


def test_a_manager_reads_the_plan_and_makes_nothing(client: Client, run: BenchmarkRun, ma: Person) -> None:
    client.force_login(ma)
    assert "A researcher makes the batch." in read(client, PAGE)
    assert client.post(f"{PAGE}batch/?gap=15").status_code == 403
    assert not LabelPlan.objects.exists()


def test_the_board_loads_nothing_of_the_plan(
    client: Client, run: BenchmarkRun, he: Person, django_assert_max_num_queries: Any
) -> None:
    client.force_login(he)
    with django_assert_max_num_queries(100) as captured:
        client.get("/runs/board/")
    assert not [query["sql"] for query in captured.captured_queries if "'planning'" in query["sql"]]


def test_gold_that_was_picked_needs_every_label(client: Client, run: BenchmarkRun, he: Person) -> None:
    """Ten picked responses of a predicted model: no draw makes the rest of its gold a chance sample."""
    picked = Response.objects.filter(model__name=MODELS[2], prompt__dimension="safe").order_by("pk")[:10]
    batch = create_batch(
        BatchSpec(
            name="picked",
            guideline=run.scorer.guideline.pk,
            dataset=run.dataset_id,
            among=tuple(response.pk for response in picked),
            annotators=(person("lin").pk,),
            policy=Policy(overlap=1),
        )
    )
    label_all(batch, ("lin",))
    set_state(batch=batch, state="closed")
    release = cut_release(ReleaseSpec(name="gold-3", batches=list(Batch.objects.order_by("pk"))))
    scorer = ready_scorer(release, run.scorer.guideline, "scorer-3")
    predict_responses(scorer, list(Response.objects.select_related("prompt", "model").order_by("pk")))
    run_of(scorer, run.dataset, "board-3")
    client.force_login(he)
    page = read(client, "/runs/board-3/label-plan/")
    assert "not compared: chance did not choose its gold" in page
    assert "Chance did not choose the gold of 1 model" in page
    client.post("/runs/board-3/label-plan/batch/?gap=15")
    drawn = LabelPlan.objects.get()
    assert {row["model"] for row in drawn.strata} == set(MODELS[3:])
