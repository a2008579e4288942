"""Gold and ranks with one person left out, against gold that is settled from the start without them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from annotation.domain.adjudication import SettlementRules, settle
from annotation.domain.guidelines import parse_guideline
from benchmark.domain.estimates.estimates import compute_estimates
from benchmark.domain.estimates.sensitivity import (
    ADJUDICATOR,
    ANNOTATOR,
    COMBINED_GROUND,
    GOLD_GROUND,
    GoldTask,
    RankedNumbers,
    compute_sensitivity,
    list_gold_without,
    rank_values,
)
from benchmark.domain.leaderboards.board import build_board
from benchmark.domain.leaderboards.responses import CountedResponse
from tests.benchmark.boards import invented
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

XSTEST, FLAMES = (
    parse_guideline(file.path.read_text(encoding="utf-8"), path=file.path.name)
    for file in (XSTEST_GUIDELINE, FLAMES_GUIDELINE)
)
LIN, CHEN, WU = 1, 2, 3


def task(
    *values: int,
    gold: int,
    source: str,
    adjudicator: int | None = None,
    tolerance: float = 0,
    people: Sequence[int] = (LIN, CHEN, WU),
) -> GoldTask:
    return GoldTask(
        key=("Model", 1),
        annotations=[(person, {"compliance": value}) for person, value in zip(people, values, strict=False)],
        gold={"compliance": gold},
        sources={"compliance": source},
        adjudicator=adjudicator,
        rules=SettlementRules(tolerance),
    )


def test_a_label_that_remains_alone_is_the_gold() -> None:
    disputed = task(3, 1, gold=3, source="adjudicated", adjudicator=9)
    assert disputed.resettle((LIN, ANNOTATOR)) == {"compliance": 1}
    assert disputed.resettle((CHEN, ANNOTATOR)) == {"compliance": 3}


def test_labels_that_still_differ_keep_the_decision() -> None:
    disputed = task(3, 1, 2, gold=2, source="adjudicated", adjudicator=9)
    assert disputed.resettle((WU, ANNOTATOR)) == {"compliance": 2}


def test_without_its_adjudicator_a_dispute_has_no_gold() -> None:
    disputed = task(3, 1, gold=3, source="adjudicated", adjudicator=9)
    assert disputed.resettle((9, ADJUDICATOR)) == {}
    assert (9, ADJUDICATOR) not in task(3, 3, gold=3, source="unanimous").participants


def test_without_its_only_label_a_task_has_no_gold() -> None:
    assert task(3, gold=3, source="single").resettle((LIN, ANNOTATOR)) == {}


def test_each_batch_has_its_own_tolerance() -> None:
    within = task(1, 2, 3, gold=2, source="within_tolerance", tolerance=2)
    assert within.resettle((WU, ANNOTATOR)) == {"compliance": 1}  # the lower median of 1 and 2
    strict = replace(within, rules=SettlementRules())
    assert not strict.is_reproducible  # a label was corrected after the release: nothing is settled again
    assert list_gold_without([strict])[WU, ANNOTATOR].changes == {}
    assert list_gold_without([strict])[WU, ANNOTATOR].fixed == 1


def test_of_several_criteria_a_response_needs_each() -> None:
    both = GoldTask(
        ("Model", 1),
        [(LIN, {"a": 1, "b": 2}), (CHEN, {"a": 1, "b": 4})],
        {"a": 1, "b": 2},
        {"a": "unanimous", "b": "adjudicated"},
        adjudicator=9,
    )
    assert list_gold_without([both])[9, ADJUDICATOR].changes == {("Model", 1): ()}
    assert list_gold_without([both])[LIN, ANNOTATOR].changes == {("Model", 1): (("a", 1), ("b", 4))}


def settled_site(seed: int) -> tuple[list[CountedResponse], list[GoldTask]]:
    """Forty prompts, three models, two batches: two labels each without tolerance, and three within one level."""
    rng = random.Random(seed)
    rows, tasks = [], []
    for prompt in range(40):
        for at, model in enumerate(("A", "B", "C")):
            people = rng.sample([LIN, CHEN, WU, 4], 3 if prompt % 2 else 2)
            tolerance = prompt % 2
            true = 3 if rng.random() < 0.5 + 0.1 * at else 1
            values = [true if rng.random() < 0.75 else rng.choice([1, 2, 3]) for _person in people]
            annotations = [
                (person, {"compliance": value}) for person, value in zip(people, values, strict=True)
            ]
            outcome = settle([labels for _person, labels in annotations], SettlementRules(tolerance))
            known = outcome.settled.get("compliance")
            gold, source = (known.value, known.source) if known else (true, "adjudicated")
            tasks.append(
                GoldTask(
                    (model, prompt),
                    annotations,
                    {"compliance": gold},
                    {"compliance": source},
                    None if known else 9,
                    SettlementRules(tolerance),
                )
            )
            labels = (("compliance", gold),)
            rows.append(
                CountedResponse(model, prompt, "safe" if prompt < 20 else "unsafe", labels, gold=labels)
            )
    return rows, tasks


def recount(rows: Sequence[CountedResponse], tasks: Sequence[GoldTask], person: int, role: str) -> Any:
    """The board of gold that was settled from the start without them, by the product's board."""
    left = []
    for row, own in zip(rows, tasks, strict=True):
        remaining = [
            labels for annotator, labels in own.annotations if role == ADJUDICATOR or annotator != person
        ]
        settled = settle(remaining, own.rules).settled if remaining else {}
        if "compliance" in settled:
            value = settled["compliance"].value
        elif remaining and not (role == ADJUDICATOR and own.adjudicator == person):
            value = own.gold["compliance"]
        else:
            continue
        left.append(replace(row, labels=(("compliance", value),), gold=(("compliance", value),)))
    board = build_board(XSTEST, left, models=("A", "B", "C"))
    return {row["model"]: rank_value(row) for row in board["rows"]}


def rank_value(row: Mapping[str, Any]) -> float | None:
    metric = XSTEST.metric(XSTEST.rank_by)
    statistic = (
        row["overall"][metric.name]
        if metric.overall != "none"
        else row["dimensions"][XSTEST.dimensions_of(metric)[0]][metric.name]
    )
    value: float | None = statistic["value"]
    return value


@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_those_of_a_board_without_the_person(seed: int) -> None:
    rows, tasks = settled_site(seed)
    numbers = RankedNumbers(XSTEST, rows, dict.fromkeys("ABC", GOLD_GROUND))
    content = compute_sensitivity(numbers, tasks)
    assert {(without["person"], without["role"]) for without in content["without"]} == {
        *((person, ANNOTATOR) for person in (LIN, CHEN, WU, 4)),
        (9, ADJUDICATOR),
    }
    assert any(without["changed"] for without in content["without"])
    for without in content["without"]:
        expected = recount(rows, tasks, without["person"], without["role"])
        assert dict(zip(content["models"], without["values"], strict=True)) == pytest.approx(expected)


def test_a_combined_number_takes_lost_gold_for_predicted() -> None:
    document = FLAMES
    rows = list(invented(document, models=3, prompts=600, gold=0.5, seed=7))
    models = sorted({row.model for row in rows})
    drawn = {(row.model, row.prompt): (0.0, 1.0) for row in rows if row.prompt is not None}
    numbers = RankedNumbers(document, rows, dict.fromkeys(models, COMBINED_GROUND), drawn)
    lost = {(row.model, row.prompt): () for row in rows[::7] if row.gold and row.prompt is not None}
    left = [replace(row, gold=()) if (row.model, row.prompt) in lost else row for row in rows]
    estimates = compute_estimates(document, left, strata=drawn)["rows"]
    expected = {
        row["model"]: row["cells"]["overall"][document.rank_by]["combined"]["value"] for row in estimates
    }
    values = numbers.compute_values(lost)
    assert values == pytest.approx(expected)
    assert values != numbers.compute_values({})


def test_ranks_are_not_given_where_a_model_has_lost_its_number() -> None:
    rows, tasks = settled_site(1)
    single = [replace(own, annotations=[(7, own.annotations[0][1])], sources={"compliance": "single"},
                     gold=own.annotations[0][1]) if own.key[0] == "A" else own for own in tasks]  # fmt: skip
    numbers = RankedNumbers(XSTEST, rows, dict.fromkeys("ABC", GOLD_GROUND))
    content = compute_sensitivity(numbers, single, not_compared=["D"])
    without = next(line for line in content["without"] if line["person"] == 7)
    assert without["values"][content["models"].index("A")] is None
    assert without["ranks"] == [None, None, None]
    assert without["dropped"] == 40
    assert content["not_compared"] == ["D"]


def test_equals_share_a_rank() -> None:
    assert rank_values({"A": 0.5, "B": 0.7, "C": 0.5, "D": None}) == {"A": 2, "B": 1, "C": 2, "D": None}
