"""The end of the collection of an open plan, and of a batch whose labels a model settles: a job, task by task.

It can be killed and begun again at any moment: each part is a transaction of its own, what is settled is never touched
again, and what the model said is stored before anything is settled by it (``docs/decisions/how-gold-is-settled.md``).
Lock order: the memberships of the batch, its row, then the tasks in the order of their ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict
from annotation.domain.adjudication import AGGREGATED, Outcome, SettledValue, SettlementRules, settle
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ADJUDICATION_SLOT,
    Annotation,
    Assignment,
    Batch,
    GoldLabel,
    Job,
    LabelPosterior,
    Person,
    Task,
)
from annotation.selectors.batches.progress import END_COLLECTION
from annotation.selectors.counts import count_by_stratum
from annotation.selectors.quality.aggregation import aggregate_labels
from annotation.services import jobs
from annotation.services.assignments import end_claims
from annotation.services.audit import record
from annotation.services.audit.outbox import SettledTasks
from annotation.services.counts import add_batch_counts, lock_memberships

JOB_KIND = END_COLLECTION
CHUNK = 500
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)
Report = Callable[[float], object]


def enqueue_end(*, batch: Batch, actor: Person | None) -> Job:
    """The job that ends the collection of the batch; refused where there is nothing to end."""
    refuse_end(batch)
    under_way = Job.objects.filter(kind=JOB_KIND, state__in=UNDER_WAY, payload__batch=batch.pk).first()
    return under_way or jobs.enqueue(
        kind=JOB_KIND, payload={"batch": batch.pk}, title=batch.name, actor=actor
    )


def execute_end_job(context: jobs.JobContext) -> dict[str, Any]:
    batch = Batch.objects.select_related("guideline").get(pk=context.payload["batch"])
    context.report(0, N_("settling the items"))
    return end_collection(batch=batch, actor=context.job.created_by, report=context.report)


def refuse_end(batch: Batch) -> None:
    """Raise where the batch has no collection to end. One that was begun and not finished is gone on with."""
    if batch.plan == Batch.Plan.FIXED and batch.settling != Batch.Settling.AGGREGATE:
        raise Conflict(
            N_(
                "The items of {name} are settled one by one, as their labels come: there is no collection to end."
            ),
            name=batch.name,
        )
    if batch.state not in (Batch.State.OPEN, Batch.State.PAUSED):
        raise Conflict(N_("The batch {name} is not open: its collection cannot be ended."), name=batch.name)


def end_collection(
    *, batch: Batch, actor: Person | None = None, report: Report = lambda _done: None
) -> dict[str, int]:
    """End the collection: each item with as many labels as the plan asks for is settled by the batch's policy, or goes
    to a third person; the others go on until they have them. How many are in which state.
    """
    refuse_end(batch)
    if batch.collection_ended_at is None:
        record(actor=actor, verb=AnnotationVerb.END_COLLECTION, target=f"batch:{batch.name}")
    _close_tasks(batch, report)
    Batch.objects.filter(pk=batch.pk, collection_ended_at=None).update(collection_ended_at=timezone.now())
    batch.refresh_from_db()
    if batch.settling == Batch.Settling.AGGREGATE:
        _store_posteriors(batch)
    _settle_tasks(batch, report)
    counts: Counter[str] = Counter()
    for of_stratum in count_by_stratum([batch.pk]).values():
        counts.update(of_stratum)
    return {state: counts[state] for state in ("agreed", "disputed", "adjudicated", "open")}


def settle_imported(batch: Batch) -> None:
    """Settle a batch whose collection was ended on another site: its labels are there, and what the model said."""
    Batch.objects.filter(pk=batch.pk).update(collection_ended_at=timezone.now())
    batch.refresh_from_db()
    _settle_tasks(batch, lambda _done: None)


def _close_tasks(batch: Batch, report: Report) -> None:
    """Nobody is given these tasks any more but those below the floor, which need the labels that they lack. Claims on
    the others end; what their people had written is kept as drafts.
    """
    ids = list(_open_tasks(batch).order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), CHUNK):
        with transaction.atomic():
            tasks = _lock_tasks(batch, ids[start : start + CHUNK])
            submitted = _count_submitted(tasks)
            complete = [task.pk for task in tasks if submitted[task.pk] >= _find_floor(batch, task)]
            end_claims(Assignment.objects.filter(task__in=complete).exclude(slot=ADJUDICATION_SLOT))
            for task in tasks:
                floor = _find_floor(batch, task)
                overlap = max(submitted[task.pk], floor)
                # Below the floor those who are at work may be more than are needed: they are let finish.
                if task.pk not in complete:
                    overlap = max(overlap, task.slots_taken)
                Task.objects.filter(pk=task.pk).exclude(overlap=overlap).update(overlap=overlap)
        report(0.3 * (start + CHUNK) / max(1, len(ids) + CHUNK))


def _find_floor(batch: Batch, task: Task) -> int:
    return batch.overlap if batch.plan == Batch.Plan.OPEN else task.overlap


def _open_tasks(batch: Batch) -> Any:
    return Task.objects.filter(batch=batch, kind=Task.Kind.WORK, state=Task.State.OPEN)


def _lock_tasks(batch: Batch, ids: Sequence[int]) -> list[Task]:
    """Those of them that are open still, with their rows locked."""
    lock_memberships(batch)
    Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    return list(
        _open_tasks(batch).select_for_update(of=("self",), no_key=True).filter(pk__in=ids).order_by("pk")
    )


def _count_submitted(tasks: Sequence[Task]) -> Counter[int]:
    submitted = Assignment.objects.filter(
        task__in=[task.pk for task in tasks],
        state=Assignment.State.SUBMITTED,
        slot__lt=ADJUDICATION_SLOT,
    )
    return Counter(submitted.values_list("task", flat=True))


@transaction.atomic
def _store_posteriors(batch: Batch) -> None:
    """What the model of all labels says, once: whoever comes again finds it."""
    Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    if LabelPosterior.objects.filter(task__batch=batch).exists():
        return
    complete = set(_list_complete(batch))
    for aggregate in aggregate_labels(batch, batch.aggregation):
        if aggregate.posteriors is None:
            if aggregate.labels:
                raise AssayError(
                    N_("The labels of {criterion} cannot be aggregated: {reason}"),
                    criterion=aggregate.criterion,
                    reason=aggregate.reason,
                )
            continue
        LabelPosterior.objects.bulk_create(
            (
                LabelPosterior(
                    task_id=task,
                    criterion=aggregate.criterion,
                    probabilities={
                        str(value): chance for value, chance in zip(aggregate.values, row, strict=True)
                    },
                )
                for task, row in zip(aggregate.tasks.tolist(), aggregate.posteriors.tolist(), strict=True)
                if task in complete
            ),
            batch_size=CHUNK,
        )


def _list_complete(batch: Batch) -> list[int]:
    """The open tasks that have all labels that they are to get."""
    ids = list(_open_tasks(batch).filter(slots_taken__gte=F("overlap")).values_list("pk", flat=True))
    complete: list[int] = []
    for start in range(0, len(ids), CHUNK):
        tasks = list(Task.objects.filter(pk__in=ids[start : start + CHUNK]).order_by("pk"))
        submitted = _count_submitted(tasks)
        complete += [task.pk for task in tasks if submitted[task.pk] >= task.overlap]
    return sorted(complete)


def _settle_tasks(batch: Batch, report: Report) -> None:
    ids = _list_complete(batch)
    for start in range(0, len(ids), CHUNK):
        with transaction.atomic():
            _settle_chunk(batch, _lock_tasks(batch, ids[start : start + CHUNK]))
        report(0.3 + 0.7 * min(1, (start + CHUNK) / len(ids)))


def _settle_chunk(batch: Batch, tasks: Sequence[Task]) -> None:
    now, keys = timezone.now(), [task.pk for task in tasks]
    labels: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    rows = Annotation.objects.filter(
        current=True,
        assignment__task__in=keys,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
    ).order_by("assignment__slot")
    for key, of_person in rows.values_list("assignment__task", "labels"):
        labels[key].append(of_person)
    posteriors: dict[int, dict[str, Mapping[str, float]]] = defaultdict(dict)
    stored = LabelPosterior.objects.filter(task__in=keys)
    for key, criterion, probabilities in stored.values_list("task", "criterion", "probabilities"):
        posteriors[key][criterion] = probabilities
    gold: list[GoldLabel] = []
    changes: dict[int, Counter[str]] = defaultdict(Counter)
    ids_by_state: dict[str, list[int]] = defaultdict(list)
    for task in tasks:
        outcome = _find_outcome(batch, labels[task.pk], posteriors[task.pk])
        gold += [GoldLabel.settle(task, name, label, now) for name, label in outcome.settled.items()]
        ids_by_state[outcome.state].append(task.pk)
        changes[task.stratum_id].update({Task.State.OPEN.value: -1, outcome.state: 1})
    for state, ids in ids_by_state.items():
        settled_at = None if state == Task.State.DISPUTED else now
        Task.objects.filter(pk__in=ids).update(state=state, settled_at=settled_at)
        if settled_at is not None:
            SettledTasks(batch).announce(ids, now)
    GoldLabel.objects.bulk_create(gold)
    for stratum, numbers in changes.items():
        add_batch_counts(stratum, **numbers)
    Batch.objects.filter(pk=batch.pk).update(labels_version=F("labels_version") + 1)


def _find_outcome(
    batch: Batch, labels: Sequence[Mapping[str, Any]], posteriors: Mapping[str, Mapping[str, float]]
) -> Outcome:
    """By the pure rule; where a model settles, by its probabilities alone.

    A task without any got its last label after they were computed: it settles by the rule, as when it is submitted.
    """
    document = batch.guideline.document
    outcome = settle(labels, SettlementRules.of(document, batch.tolerance, batch.settling))
    if batch.settling != Batch.Settling.AGGREGATE or not posteriors:
        return outcome
    settled: dict[str, SettledValue] = {}
    disputed: list[str] = []
    for criterion in labels[0]:
        by_value = {str(value): value for value in document.criterion(criterion).values}
        chances = posteriors.get(criterion, {})
        best = max(chances, key=lambda value: chances[value], default=None)
        if best is not None and chances[best] >= batch.aggregation_threshold:
            settled[criterion] = SettledValue(by_value[best], AGGREGATED)
        else:
            disputed.append(criterion)
    return Outcome(settled=settled, disputed=tuple(disputed))
