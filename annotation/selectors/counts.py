"""How many tasks there are: sums of the counters that services/counts.py keeps, never a walk over the tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.db.models import F, Q, QuerySet, Sum

from annotation.models import DECIDED_AGAIN, Batch, MemberCounts, Membership, Stratum, Task

STATES = ("open", "agreed", "disputed", "adjudicated", "withdrawn")
COUNTED = (*STATES, "submitted")
# The members' rows alone count what changes no number of tasks or annotations.
OF_STRATA = (*COUNTED, "labels_needed")
COUNTED_OF_MEMBERS = (*COUNTED, "revised")
ALL = sum((F(state) for state in STATES[1:]), F(STATES[0]))


def count_tasks(batch: Batch) -> int:
    """The tasks of work of the batch, in whatever state: what moves from state to state keeps their sum."""
    return Stratum.objects.filter(batch=batch, kind=Task.Kind.WORK).aggregate(n=Sum(ALL))["n"] or 0


def count_by_stratum(batches: Iterable[int], kind: str = Task.Kind.WORK) -> dict[Stratum, Counter[str]]:
    """For each stratum of the batches the numbers of tasks by state, and of annotations ``submitted``; beside
    them the ``labels_needed``, and how often labels were ``revised`` that agreement counted before.
    """
    ids = list(batches)
    strata = {stratum.pk: stratum for stratum in Stratum.objects.filter(batch__in=ids, kind=kind)}
    counts_by_stratum = {
        pk: Counter({name: getattr(stratum, name) for name in OF_STRATA}) for pk, stratum in strata.items()
    }
    sums = [Sum(name) for name in COUNTED_OF_MEMBERS]
    tallies = MemberCounts.objects.filter(stratum__batch__in=ids, stratum__kind=kind).order_by()
    for stratum, *added in tallies.values_list("stratum").annotate(*sums):
        counts_by_stratum[stratum].update(dict(zip(COUNTED_OF_MEMBERS, added, strict=True)))
    return {strata[pk]: counts for pk, counts in counts_by_stratum.items()}


def count_by_member(batch: Batch) -> dict[int, Counter[str]]:
    """For each membership of the batch: ``submitted`` annotations, ``adjudicated`` and ``skipped`` tasks, of the work
    alone; and beside it the ``checks`` submitted and the ``repeats`` adjudicated, which count for the quota as the work
    does.
    """
    return count_by_membership(Membership.objects.filter(batch=batch))


def count_by_membership(members: QuerySet[Membership]) -> dict[int, Counter[str]]:
    """As ``by_member``, for any memberships; who did nothing yet is not there."""
    sums = (
        MemberCounts.objects.filter(membership__in=members.order_by().values("pk"))
        .order_by()
        .values("membership")
    )
    work, check = (Q(stratum__kind=kind) for kind in (Task.Kind.WORK, Task.Kind.CHECK))
    repeat = Q(stratum__kind__in=DECIDED_AGAIN)
    rows = sums.annotate(
        s=Sum("submitted", filter=work),
        a=Sum("adjudicated", filter=work),
        k=Sum("skipped", filter=work),
        c=Sum("submitted", filter=check),
        r=Sum("adjudicated", filter=repeat),
    )
    return {
        row["membership"]: Counter(
            submitted=row["s"] or 0,
            adjudicated=row["a"] or 0,
            skipped=row["k"] or 0,
            checks=row["c"] or 0,
            repeats=row["r"] or 0,
        )
        for row in rows
    }


def sum_for_quota(counts: Counter[str] | None) -> int:
    """Of what ``by_membership`` counted for an annotator."""
    return counts["submitted"] + counts["checks"] if counts else 0


def count_submitted(membership: Membership) -> int:
    """What counts for the member's quota: annotations of the work and of checks, not of the round before it."""
    tallies = MemberCounts.objects.filter(membership=membership).exclude(
        stratum__kind=Task.Kind.QUALIFICATION
    )
    return tallies.aggregate(n=Sum("submitted"))["n"] or 0


def count_decisions(membership: Membership, *, with_repeats: bool = False) -> int:
    """The disputes that the member has decided; ``with_repeats`` repeat and second adjudications as well, as the quota
    counts them.
    """
    kinds = [Task.Kind.WORK, *DECIDED_AGAIN] if with_repeats else [Task.Kind.WORK]
    tallies = MemberCounts.objects.filter(membership=membership, stratum__kind__in=kinds)
    return tallies.aggregate(n=Sum("adjudicated"))["n"] or 0
