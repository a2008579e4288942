"""Which strata of a batch are for whom: the pure rule of ``distribution.ruled_out`` over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import F, OuterRef, Q, QuerySet, Subquery

from annotation.distribution import Kind, Limits, ruled_out
from annotation.models import Assignment, Batch, Membership, Stratum, Task

# A task that can be claimed: a place is free.
FREE = Q(state=Task.State.OPEN, slots_taken__lt=F("overlap"))


def limits_of(membership: Membership) -> Limits:
    """What the member must not be given; their person's ``own_models`` are one query unless prefetched."""
    person = membership.person
    return Limits(
        dimensions=frozenset(membership.excluded_dimensions),
        languages=frozenset(person.languages),
        models=frozenset(model.pk for model in person.own_models.all()),
    )


def kind_of(stratum: Stratum) -> Kind:
    return Kind(dimension=stratum.dimension, language=stratum.language, model=stratum.model_id)


def strata_ruled_out(membership: Membership) -> list[int]:
    """The strata of the batch that are not for this member; no query where nothing limits them."""
    limits = limits_of(membership)
    if limits == Limits():
        return []
    strata = Stratum.objects.filter(batch=membership.batch_id)
    return [stratum.pk for stratum in strata if ruled_out(limits, kind_of(stratum))]


def working_members(batch: Batch, role: str) -> list[Membership]:
    """The members of a role who are given work now, with what limits them, in the order of their joining."""
    members = Membership.objects.filter(batch=batch, role=role, active=True, person__is_active=True)
    return list(members.select_related("person").prefetch_related("person__own_models").order_by("pk"))


def may_take(members: Iterable[Membership], stratum: Stratum) -> list[Membership]:
    """Those of ``members`` for whom the stratum's tasks are; quotas are another matter."""
    return [one for one in members if ruled_out(limits_of(one), kind_of(stratum)) is None]


def for_member(membership: Membership, ruled_out: Sequence[int], panels: Sequence[int]) -> Q:
    """Tasks outside the strata ``ruled_out``, planned for one of the member's ``panels``; in a pool also those
    that are planned for nobody.
    """
    planned = Q(panel__in=panels) if panels else Q(pk__in=[])
    mine = planned if membership.batch.pairing != Batch.Pairing.POOL else Q(panel=None) | planned
    return mine & ~Q(stratum__in=ruled_out) if ruled_out else mine


def free_tasks(
    membership: Membership, ruled_out: Sequence[int] | None = None, panels: Sequence[int] | None = None
) -> QuerySet[Task]:
    """The free tasks that the member never had and that are for them, in the order of handing out.

    The subquery must stay one: as a join, PostgreSQL might read all that the person has ever done.
    """
    if ruled_out is None:
        ruled_out = strata_ruled_out(membership)
    if panels is None:
        panels = list(membership.panels.values_list("pk", flat=True))
    mine = Assignment.objects.filter(task=OuterRef("pk"), person=membership.person_id).values("pk")[:1]
    tasks = Task.objects.filter(FREE, for_member(membership, ruled_out, panels), batch=membership.batch_id)
    return tasks.alias(mine=Subquery(mine)).filter(mine=None).order_by("rank")
