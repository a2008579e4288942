"""Which strata of a batch are for whom: the pure rule of ``distribution.ruled_out`` over the rows."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F, Q

from annotation.distribution import Kind, Limits, ruled_out
from annotation.models import Batch, Membership, Stratum, Task
from annotation.selectors.access import who_has_role

# A task that can be claimed: a place is free.
FREE = Q(state=Task.State.OPEN, slots_taken__lt=F("overlap"))


def limits_of(membership: Membership) -> Limits:
    """What the member must not be given; their person's ``own_models`` are one query unless prefetched."""
    person = membership.person
    return Limits(
        dimensions=frozenset(membership.excluded_dimensions),
        opted_out=frozenset(person.opted_out),
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
    members = Membership.objects.filter(who_has_role(role), batch=batch, role=role, active=True)
    return list(members.select_related("person").prefetch_related("person__own_models").order_by("pk"))


def may_take(members: Iterable[Membership], stratum: Stratum) -> list[Membership]:
    """Those of ``members`` for whom the stratum's tasks are; quotas are another matter."""
    return [one for one in members if ruled_out(limits_of(one), kind_of(stratum)) is None]
