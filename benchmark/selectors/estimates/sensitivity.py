"""Who took part in the gold that a run counts, task by task, and what its ranks rest on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, QuerySet
from django.utils.dateparse import parse_datetime

from annotation.domain.adjudication import SettlementRules, Value
from annotation.domain.guidelines.values import Label, as_number
from annotation.domain.releases.canonical import number
from annotation.domain.releases.pseudonyms import assign_pseudonyms
from annotation.models import Annotation, Batch, Job, Person
from annotation.selectors.jobs import DEAD, StoredResult, find_job_at_work, hash_basis
from annotation.selectors.releases.rows import ReleaseContent
from benchmark.domain.estimates.estimates import ResponseKey
from benchmark.domain.estimates.label_plan.basis import assign_strata
from benchmark.domain.estimates.sensitivity import (
    COMBINED_GROUND,
    GOLD_GROUND,
    GoldTask,
    RankedNumbers,
    compute_sensitivity,
)
from benchmark.domain.leaderboards.responses import GOLD
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.estimates.strata import list_drawn_strata
from benchmark.selectors.leaderboards.items import CHUNK, list_counted_responses
from benchmark.selectors.leaderboards.runs import find_grounds, find_part, list_run_responses

SENSITIVITY = "sensitivity"
"""The part of a run that keeps it, once somebody has asked for it."""
SENSITIVITY_JOB = "compute_sensitivity"
MAX_ITEMS_AT_ONCE = 500
"""Of a board with no more items it is computed while a page waits, of a larger one by a job: 17,000 responses in
combined numbers took 8.9 seconds, so that these take about 0.3."""
KEY, BUILT_AT = "key", "built_at"
"""Fields of the stored part beside what was computed: the hash of what it rests on, and when that was."""
FORM = 1
"""Another number where the computation changes: what is stored is then out of date."""


def is_large(run: BenchmarkRun) -> bool:
    return run.items.count() > MAX_ITEMS_AT_ONCE


def read_key(run: BenchmarkRun) -> str:
    """The hash of what it rests on, as it is now: items never change, but the labels behind gold may be corrected."""
    labels = _filter_annotations(run).aggregate(n=Count("pk"), last=Max("pk"))
    batches = run.scorer.release.batches.order_by("pk").values_list("pk", "tolerance")
    return hash_basis([FORM, labels["n"], labels["last"], list(batches)])


def _filter_annotations(run: BenchmarkRun) -> QuerySet[Annotation]:
    """Those that count, of the tasks behind the gold of the run."""
    tasks = run.items.filter(basis=RunItem.Basis.GOLD).order_by().values("released_label__task")
    return Annotation.objects.filter(current=True, assignment__task__in=tasks)


def find_stored_sensitivity(run: BenchmarkRun) -> StoredResult:
    """As it is stored, with the job that is making it, or that was to make just this and failed."""
    part = find_part(run, SENSITIVITY) or {}
    content = {name: value for name, value in part.items() if name not in (KEY, BUILT_AT)}
    key = read_key(run)
    if content and part.get(KEY) == key:
        return StoredResult(content, parse_datetime(part[BUILT_AT]))
    jobs = Job.objects.filter(kind=SENSITIVITY_JOB, payload__run=run.pk)
    last = jobs.filter(payload__key=key).order_by("pk").last()
    return StoredResult(
        content or None,
        parse_datetime(part.get(BUILT_AT, "")),
        is_stale=bool(content),
        job=find_job_at_work(SENSITIVITY_JOB, run=run.pk),
        failed=last if last is not None and last.state in DEAD else None,
    )


def compute_run_sensitivity(
    run: BenchmarkRun, report: Callable[[float], object] = lambda _done: None
) -> dict[str, Any]:
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
    return compute_sensitivity(numbers, list_gold_tasks(run), not_compared=not_compared, report=report)


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
            rules=rules[batch],
        )
        for task, (response, batch) in places.items()
    ]


def _list_annotations(run: BenchmarkRun) -> Mapping[int, list[tuple[int, dict[str, Label]]]]:
    """By task, in the order of the people."""
    rows = (
        _filter_annotations(run)
        .order_by("assignment__task", "assignment__person")
        .values_list("assignment__task", "assignment__person", "labels")
    )
    annotations: dict[int, list[tuple[int, dict[str, Label]]]] = defaultdict(list)
    for task, person, labels in rows.iterator(CHUNK):
        annotations[task].append((person, {criterion: number(value) for criterion, value in labels.items()}))
    return annotations


def _find_rules(batches: set[int]) -> dict[int, SettlementRules]:
    """By batch."""
    return {
        batch.pk: SettlementRules.of(batch.guideline.document, batch.tolerance)
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
