"""How the responses that have gold in a run came to be chosen, batch by batch: what its estimates rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Exists, OuterRef, QuerySet

from annotation.models import AuditEvent, Batch, Task
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.counting import everything, scope_of
from benchmark.selectors.runs import responses_of

from ..estimating.selection import GoldSelection, told

BY_BATCH = "released_label__task__batch"
PLACE = ("response__model__name", "response__prompt__dimension")


def selection_of(run: BenchmarkRun) -> list[dict[str, Any]]:
    """A row for each batch, model and column of the board that has gold of it, as ``estimating.selection`` tells it."""
    gold = run.items.filter(basis=RunItem.Basis.GOLD)
    labels = _counted(run, gold, BY_BATCH, Count("response", distinct=True))
    batches = Batch.objects.in_bulk({batch for batch, _model, _scope in labels})
    tasks = Task.objects.filter(
        kind=Task.Kind.WORK, batch__in=batches, response__in=responses_of(run).order_by().values("pk")
    ).exclude(state=Task.State.WITHDRAWN)
    held = _counted(run, tasks, "batch", Count("pk"))
    settled = gold.filter(response=OuterRef("response"))
    without_gold = _counted(run, tasks.filter(~Exists(settled)), "batch", Count("pk"))
    response_counts = everything(run)
    drawn = set(
        Batch.objects.filter(pk__in=batches, labelling_plan__isnull=False).values_list("pk", flat=True)
    )
    abstained = _abstained(batches)
    selections = [
        GoldSelection(
            batch=batches[pk].name,
            model=model,
            dimension=scope,
            labels=n,
            tasks=held[pk, model, scope],
            without_gold=without_gold[pk, model, scope],
            responses=response_counts[model, scope],
            drawn=pk in drawn,
            abstained=abstained.get(pk, ""),
        )
        for (pk, model, scope), n in sorted(labels.items())
    ]
    return told(selections)


def _counted(run: BenchmarkRun, rows: QuerySet[Any], batch: str, n: Count) -> Counter[tuple[int, str, str]]:
    counts: Counter[tuple[int, str, str]] = Counter()
    for pk, model, dimension, number in rows.order_by().values_list(batch, *PLACE).annotate(n=n):
        scope = scope_of(run, dimension)
        if scope is not None:
            counts[pk, model, scope] += number
    return counts


def _abstained(batches: Mapping[int, Batch]) -> dict[int, str]:
    """By batch the scorer that it was made of because it abstained, as the audit trail has it."""
    targets = {f"batch:{batch.name}": pk for pk, batch in batches.items()}
    events = AuditEvent.objects.filter(verb="batch_of_abstained", target__in=targets)
    return {targets[event.target]: str(event.data.get("scorer", "")) for event in events}
