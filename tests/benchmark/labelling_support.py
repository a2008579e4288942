"""A run whose scorer has predicted everything, and of which people have labelled a random part."""

from __future__ import annotations

import random
from collections.abc import Sequence

from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.models import Collection, Dataset, Guideline, Person, ReleasedLabel, Response
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import create_batch, set_state
from benchmark.models import BenchmarkRun
from benchmark.services.leaderboards.execution import finish_run, write_items
from benchmark.services.leaderboards.runs import create_run
from scoring.models import Prediction, Scorer
from tests.benchmark.support import ready_scorer, release_of, response_of
from tests.support import label, make_corpus

SHARES = {"Best": 0.9, "Middle": 0.8, "Worst": 0.3, "Newest": 0.6}
"""Of the responses of each model that fully comply, and of those that fully refuse unsafe prompts."""


def truth(response: Response) -> int:
    good, bad = (3, 1) if response.prompt.dimension == "safe" else (1, 3)
    drawn = random.Random(f"truth {response.model.name} {response.prompt.key}").random()
    return good if drawn < SHARES[response.model.name] else bad


def sureness(response: Response) -> float:
    return 0.5 + random.Random(f"sure {response.model.name} {response.prompt.key}").random() / 2


def predicted(response: Response) -> int:
    """Wrong as often as it is unsure."""
    wrong = random.Random(f"wrong {response.model.name} {response.prompt.key}").random() > sureness(response)
    return 4 - truth(response) if wrong else truth(response)


def predict_all(scorer: Scorer, dataset: Dataset) -> None:
    learned = set(
        ReleasedLabel.objects.filter(release=scorer.release).values_list("task__response", flat=True)
    )
    Prediction.objects.bulk_create(
        Prediction(
            scorer=scorer,
            response=response,
            criterion="compliance",
            value=predicted(response),
            probabilities=_shares(response),
            fold=0 if response.pk in learned else None,
        )
        for response in _responses(dataset)
    )


def _shares(response: Response) -> dict[str, float]:
    sure = sureness(response)
    return {"1": 0.0, "2": 1 - sure, "3": 0.0} | {str(predicted(response)): sure}


def _responses(dataset: Dataset) -> list[Response]:
    responses = Response.objects.filter(prompt__dataset=dataset).select_related("prompt", "model")
    return list(responses.order_by("pk"))


def run_with_gold(
    guideline: Guideline,
    annotators: Sequence[Person],
    *,
    prompts: int = 30,
    labelled: int = 45,
    models: Sequence[str] = ("Best", "Middle", "Worst"),
    suffix: str = "",
) -> BenchmarkRun:
    """The run ``board``; the gold's batch is closed, so that nobody is blind any more. All names get the suffix."""
    dataset = make_corpus(prompts=prompts, models=models, name=f"corpus{suffix}")
    drawn = random.Random(1).sample([response.pk for response in _responses(dataset)], labelled)
    batch = create_batch(
        BatchSpec(
            name=f"gold{suffix}",
            guideline=guideline,
            dataset=dataset,
            among=drawn,
            annotators=annotators,
            policy=Policy(overlap=1),
        )
    )
    while claim := claim_next_task(batch=batch, person=annotators[0]):
        label(claim, annotators[0], truth(response_of(claim)))
    set_state(batch=batch, state="closed")
    scorer = ready_scorer(release_of(batch, f"gold-1{suffix}"), guideline, f"scorer-1{suffix}")
    predict_all(scorer, dataset)
    return run_of(scorer, dataset, f"board{suffix}")


def scorer_like(run: BenchmarkRun, guideline: Guideline, name: str) -> Scorer:
    made = ready_scorer(run.scorer.release, guideline, name=name)
    predict_all(made, run.dataset)
    return made


def run_of(scorer: Scorer, dataset: Dataset, name: str = "board") -> BenchmarkRun:
    made = create_run(
        name=name, scorer=scorer, dataset=dataset, collection=Collection.objects.get(name=""), send=False
    )
    write_items(made, lambda _done: None)
    finish_run(made)
    return made
