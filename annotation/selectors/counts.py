"""How many there are: the sums of what is counted along (services/tallies.py), never a walk over the tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.db.models import F, Sum

from annotation.models import Batch, Membership, Stratum, Tally, Task

STATES = ("open", "agreed", "disputed", "adjudicated", "withdrawn")
COUNTED = (*STATES, "submitted")
ALL = sum((F(state) for state in STATES[1:]), F(STATES[0]))


def tasks_in(batch: Batch) -> int:
    """All tasks of the batch, of whatever kind and state: what moves from state to state keeps their sum."""
    return Stratum.objects.filter(batch=batch).aggregate(n=Sum(ALL))["n"] or 0


def by_stratum(batches: Iterable[int], kind: str = Task.Kind.WORK) -> dict[Stratum, Counter[str]]:
    """For each stratum of the batches the numbers of tasks by state, and of annotations ``submitted``."""
    ids = list(batches)
    strata = {one.pk: one for one in Stratum.objects.filter(batch__in=ids, kind=kind)}
    found = {pk: Counter({name: getattr(one, name) for name in COUNTED}) for pk, one in strata.items()}
    sums = [Sum(name) for name in COUNTED]
    tallies = Tally.objects.filter(stratum__batch__in=ids, stratum__kind=kind).order_by()
    for stratum, *added in tallies.values_list("stratum").annotate(*sums):
        found[stratum].update(dict(zip(COUNTED, added, strict=True)))
    return {strata[pk]: counts for pk, counts in found.items()}


def by_member(batch: Batch) -> dict[int, Counter[str]]:
    """For each membership of the batch: ``submitted`` annotations, ``adjudicated`` and ``skipped`` tasks."""
    sums = Tally.objects.filter(membership__batch=batch).order_by().values("membership")
    rows = sums.annotate(s=Sum("submitted"), a=Sum("adjudicated"), k=Sum("skipped"))
    return {
        row["membership"]: Counter(submitted=row["s"], adjudicated=row["a"], skipped=row["k"]) for row in rows
    }


def of_member(membership: Membership) -> dict[int, Counter[str]]:
    """The member's own counts in each stratum where they have any."""
    return {
        tally.stratum_id: Counter(
            submitted=tally.submitted, adjudicated=tally.adjudicated, skipped=tally.skipped
        )
        for tally in Tally.objects.filter(membership=membership)
    }


def submitted_by(membership: Membership) -> int:
    """The annotations that the member has submitted."""
    return Tally.objects.filter(membership=membership).aggregate(n=Sum("submitted"))["n"] or 0
