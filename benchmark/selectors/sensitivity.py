"""Who took part in the gold that a run counts, task by task, and what its ranks rest on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from annotation.domain.adjudication import Value
from annotation.domain.guidelines.values import as_number
from annotation.domain.releases.pseudonyms import assign_pseudonyms
from annotation.models import Annotation, Batch, Person
from annotation.selectors.releases.rows import ReleaseContent
from benchmark.domain.estimates.estimates import ResponseKey
from benchmark.domain.estimates.label_plan import assign_strata
from benchmark.domain.estimates.sensitivity import (
    COMBINED_GROUND,
    GOLD_GROUND,
    GoldTask,
    RankedNumbers,
    compute_sensitivity,
)
from benchmark.domain.leaderboards.responses import GOLD
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.board_grounds import find_grounds
from benchmark.selectors.estimates import list_drawn_strata
from benchmark.selectors.leaderboards.items import CHUNK, list_counted_responses
from benchmark.selectors.leaderboards.runs import find_part, list_run_responses

SENSITIVITY = "sensitivity"
"""The part of a run that keeps it, once somebody has asked for it."""


def find_sensitivity(run: BenchmarkRun) -> dict[str, Any] | None:
    """As it was stored; None where nobody has asked for it yet."""
    return find_part(run, SENSITIVITY)


def compute_run_sensitivity(run: BenchmarkRun) -> dict[str, Any]:
    """From the stored items and the annotations behind them. Raises AssayError of a run that is not finished."""
    estimates = find_part(run, "estimates") or {"rows": [], "strata": {}}
    rows = list_counted_responses(run)
    known = find_grounds(run)
    grounds = {
        model: GOLD_GROUND if ground.name == GOLD else COMBINED_GROUND
        for model, ground in known.items()
        if ground.is_compared
    }
    strata = {
        (row.model, row.prompt): bounds
        for (_model, _scope, bounds), row in assign_strata(rows, estimates["strata"], list_drawn_strata(run))
        if row.prompt is not None
    }
    numbers = RankedNumbers(run.scorer.guideline.document, rows, grounds, strata)
    not_compared = [model for model in known if model not in grounds]
    return compute_sensitivity(numbers, list_gold_tasks(run), not_compared=not_compared)


def list_gold_tasks(run: BenchmarkRun) -> list[GoldTask]:
    """The tasks behind the gold that the run counts, of whichever batches."""
    keys: dict[int, ResponseKey] = {
        pk: (model, prompt)
        for pk, model, prompt in list_run_responses(run)
        .select_related(None)
        .order_by()
        .values_list("pk", "model__name", "prompt_id")
        .iterator(CHUNK)
    }
    gold: dict[int, dict[str, tuple[Value, str]]] = defaultdict(dict)
    places: dict[int, tuple[int, int]] = {}
    adjudicators: dict[int, int] = {}
    items = run.items.filter(basis=RunItem.Basis.GOLD).order_by("released_label__task", "criterion")
    fields = (
        *("response", "criterion", "value", "released_label__source", "released_label__task"),
        *("released_label__task__batch", "released_label__adjudication__assignment__person"),
    )
    for response, criterion, value, source, task, batch, adjudicator in items.values_list(*fields).iterator(
        CHUNK
    ):
        gold[task][criterion] = (_to_number(value), source)
        places[task] = (response, batch)
        if adjudicator is not None:
            adjudicators[task] = adjudicator
    annotations = _list_annotations(run)
    rules = _find_rules({batch for _response, batch in places.values()})
    return [
        GoldTask(
            key=keys[response],
            annotations=annotations.get(task, ()),
            gold={criterion: value for criterion, (value, _source) in gold[task].items()},
            sources={criterion: source for criterion, (_value, source) in gold[task].items()},
            adjudicator=adjudicators.get(task),
            tolerance=rules[batch][0],
            nominal=rules[batch][1],
        )
        for task, (response, batch) in places.items()
    ]


def _list_annotations(run: BenchmarkRun) -> Mapping[int, list[tuple[int, dict[str, Value]]]]:
    """By task, in the order of the people."""
    tasks = run.items.filter(basis=RunItem.Basis.GOLD).order_by().values("released_label__task")
    rows = (
        Annotation.objects.filter(current=True, assignment__task__in=tasks)
        .order_by("assignment__task", "assignment__person")
        .values_list("assignment__task", "assignment__person", "labels")
    )
    annotations: dict[int, list[tuple[int, dict[str, Value]]]] = defaultdict(list)
    for task, person, labels in rows.iterator(CHUNK):
        annotations[task].append(
            (person, {criterion: _to_number(value) for criterion, value in labels.items()})
        )
    return annotations


def _find_rules(batches: set[int]) -> dict[int, tuple[float, frozenset[str]]]:
    """By batch its tolerance, and the criteria that it does not apply to."""
    return {
        batch.pk: (
            batch.tolerance,
            frozenset(
                criterion.name
                for criterion in batch.guideline.document.criteria
                if criterion.measurement == "nominal"
            ),
        )
        for batch in Batch.objects.select_related("guideline").filter(pk__in=batches)
    }


def _to_number(value: float) -> Value:
    number = as_number(value)
    assert number is not None
    return number


def list_participant_names(content: Mapping[str, Any]) -> dict[int, str]:
    """Of everybody in a stored sensitivity, for pages that name people."""
    people = {without["person"] for without in content["without"]}
    return {person.pk: str(person) for person in Person.objects.filter(pk__in=people)}


def list_participant_pseudonyms(run: BenchmarkRun) -> dict[int, str]:
    """For files that leave the site: what the files of the run's gold release call the same people."""
    release = run.scorer.release
    scope = f"{release.name}\n{release.sha256}"
    return assign_pseudonyms(ReleaseContent(release).people(), secret=settings.SECRET_KEY, scope=scope)
