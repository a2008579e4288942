from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from django.db import connection

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Person,
    Response,
    Task,
)
from annotation.services.batches.batches import add_members, create_batch, set_state
from scoring.models import Prediction, Scorer
from scoring.selectors.predictions import find_abstentions
from scoring.services import create_abstained_batch
from scoring.services.predictions.abstention import MAX_RESPONSES
from tests.scoring.gate_support import scorer_that_says
from tests.scoring.support import make_responses
from tests.support import make_batch

pytestmark = pytest.mark.django_db
CARD = {"conformal": {"criteria": {"compliance": {"coverages": {"0.9": {"threshold": 0.3}}}}}}
SURE, BETWEEN, NEITHER = (0.1, 0.1, 0.8), (0.1, 0.4, 0.5), (0.25, 0.28, 0.27)
"""Sets of one level, of two, and of none, at a threshold of 0.3 (the last does not add up, and need not)."""


@pytest.fixture
def scorer(release: GoldRelease, guideline: Guideline) -> Scorer:
    return scorer_that_says(release, guideline, name="s", card=CARD)


@pytest.fixture
def more(db: None) -> Dataset:
    """Six responses of two models, three prompts."""
    return make_responses(prompts=3, models=["A", "B"], name="more", start=100)


def predict(scorer: Scorer, response: Response, shares: tuple[float, ...]) -> None:
    probabilities = dict(zip("123", shares, strict=True))
    Prediction.objects.create(
        scorer=scorer,
        response=response,
        criterion="compliance",
        value=1 + shares.index(max(shares)),
        probabilities=probabilities,
    )


@pytest.fixture
def predicted(scorer: Scorer, more: Dataset) -> dict[str, Response]:
    """Of model A one of each kind; of B the sure one and the other two not predicted."""
    responses = {
        f"{response.model.name}{response.prompt.key}": response
        for response in Response.objects.filter(prompt__dataset=more).select_related("model", "prompt")
    }
    for name, shares in (("Ap100", SURE), ("Ap101", BETWEEN), ("Ap102", NEITHER), ("Bp100", SURE)):
        predict(scorer, responses[name], shares)
    return responses


def test_abstained_are_those_whose_set_is_no_single_level_the_least_sure_first(
    scorer: Scorer, more: Dataset, predicted: dict[str, Response]
) -> None:
    abstentions = find_abstentions(scorer, more)
    assert abstentions.responses == [predicted["Ap102"].pk, predicted["Ap101"].pk]
    assert abstentions.predicted == 4
    assert find_abstentions(scorer, more, [EvaluatedModel.objects.get(name="B")]).responses == []


def test_what_people_label_needs_no_prediction(
    scorer: Scorer, more: Dataset, predicted: dict[str, Response], guideline: Guideline, zhou: Person
) -> None:
    batch = make_batch(guideline, more, annotators=[zhou], name="at-work", policy=Policy(overlap=1))
    assert find_abstentions(scorer, more) == find_abstentions(
        scorer, more, [EvaluatedModel.objects.get(name="A")]
    )
    assert find_abstentions(scorer, more).predicted == 0
    batch.tasks.filter(response=predicted["Ap101"]).update(state=Task.State.WITHDRAWN)
    assert find_abstentions(scorer, more).responses == [predicted["Ap101"].pk]


@pytest.mark.parametrize("state", [Task.State.OPEN, Task.State.DISPUTED])
def test_what_a_closed_batch_left_undone_can_be_asked_again(
    scorer: Scorer,
    more: Dataset,
    predicted: dict[str, Response],
    guideline: Guideline,
    zhou: Person,
    state: Task.State,
) -> None:
    batch = make_batch(guideline, more, annotators=[zhou], name="at-work", policy=Policy(overlap=1))
    batch.tasks.filter(response=predicted["Ap101"]).update(state=state)
    batch.tasks.filter(response=predicted["Ap102"]).update(state=Task.State.AGREED)
    assert find_abstentions(scorer, more).responses == []
    set_state(batch=batch, state="closed")
    assert find_abstentions(scorer, more).responses == [predicted["Ap101"].pk]


def test_the_abstained_become_a_batch_in_one_step(
    scorer: Scorer,
    more: Dataset,
    predicted: dict[str, Response],
    zhou: Person,
    he: Person,
    guideline: Guideline,
) -> None:
    batch = create_abstained_batch(
        name="unsure", scorer=scorer, dataset=more, annotators=[zhou], policy=Policy(overlap=1), actor=he
    )
    assert (batch.state, batch.guideline) == (Batch.State.OPEN, guideline)
    assert set(batch.tasks.values_list("response", flat=True)) == {
        predicted["Ap101"].pk,
        predicted["Ap102"].pk,
    }
    event = AuditEvent.objects.get(verb="batch_of_abstained")
    assert (event.target, event.data) == (
        "batch:unsure",
        {"scorer": "s", "coverage": 0.9, "responses": 2},
    )
    # pressed again there is nothing left: people have them
    with pytest.raises(AssayError, match="abstains from none of the 2 responses"):
        create_abstained_batch(name="again", scorer=scorer, dataset=more, annotators=[zhou], actor=he)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite limits the parameters of a query")
def test_the_largest_batch_fits_into_a_query_of_any_sqlite(
    scorer: Scorer, more: Dataset, predicted: Any, guideline: Guideline
) -> None:
    """32,766 parameters is what SQLite takes where its builder chose nothing else."""
    connection.ensure_connection()
    before = connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)
    stored_ids = Response.objects.filter(prompt__dataset=more).values_list("pk", flat=True)
    response_ids = [*stored_ids, *range(10**6, 10**6 + MAX_RESPONSES - 6)]
    assert len(response_ids) == MAX_RESPONSES
    try:
        batch = create_batch(
            BatchSpec(name="b", guideline=guideline, dataset=more, among=response_ids, open_now=False)
        )
    finally:
        connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, before)
    assert batch.tasks.count() == 6


def test_only_the_least_sure_are_taken_where_fewer_are_wanted(
    scorer: Scorer, more: Dataset, predicted: dict[str, Response]
) -> None:
    batch = create_abstained_batch(name="one", scorer=scorer, dataset=more, limit=1, open_now=False)
    assert [task.response_id for task in batch.tasks.all()] == [predicted["Ap102"].pk]
    with pytest.raises(AssayError, match="from 1 to"):
        create_abstained_batch(name="two", scorer=scorer, dataset=more, limit=0)


def test_without_thresholds_nothing_is_guessed(
    scorer: Scorer, more: Dataset, predicted: dict[str, Response]
) -> None:
    with pytest.raises(AssayError, match="no thresholds for a coverage of"):
        find_abstentions(scorer, more, coverage=0.99)
    Scorer.objects.filter(pk=scorer.pk).update(card={})
    with pytest.raises(AssayError, match="train it anew"):
        find_abstentions(Scorer.objects.get(pk=scorer.pk), more)


@pytest.mark.parametrize("blind", ["of the release", "of the dataset"])
def test_who_judges_blind_makes_no_batch_of_predictions(
    scorer: Scorer,
    more: Dataset,
    predicted: Any,
    he: Person,
    zhou: Person,
    guideline: Guideline,
    blind: str,
) -> None:
    if blind == "of the release":
        add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    else:
        set_state(batch=scorer.release.batches.get(), state="closed")
        make_batch(guideline, more, annotators=[he], name="mine", policy=Policy(overlap=1))
    with pytest.raises(Forbidden):
        create_abstained_batch(name="b", scorer=scorer, dataset=more, annotators=[zhou], actor=he)


def test_a_scorer_that_is_not_trained_yet_is_refused(scorer: Scorer, more: Dataset) -> None:
    Scorer.objects.filter(pk=scorer.pk).update(ready_at=None)
    with pytest.raises(Conflict, match="not ready"):
        create_abstained_batch(name="b", scorer=Scorer.objects.get(pk=scorer.pk), dataset=more)
