"""Which tasks are in progress, which strata are for whom, and which tasks a member may get now.

The rule of who may take what is ``ruled_out`` of domain/assignments/eligibility.py. Every claim asks for the free
tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import F, Q, QuerySet

from annotation.core.study_scope import build_study_filter
from annotation.domain.assignments.eligibility import MemberLimits, TaskKind, find_obstacle
from annotation.models import Batch, EvaluatedModel, Membership, Stratum, Task
from annotation.models.sql.assignments import FreeTasks
from annotation.selectors.access import build_role_filter


def tasks_in_progress(guideline_name: str) -> QuerySet[Task]:
    """What people label or have labelled by the guideline, in whichever version; gold questions are no work.

    What a closed batch left undone nobody will do: it is as free as what was withdrawn.
    """
    undone = Q(batch__state=Batch.State.CLOSED, state__in=[Task.State.OPEN, Task.State.DISPUTED])
    work = Task.objects.filter(
        kind=Task.Kind.WORK, batch__guideline__name=guideline_name, **build_study_filter("batch__study")
    )
    return work.exclude(Q(state=Task.State.WITHDRAWN) | undone)


# A task that can be claimed: a place is free.
FREE = Q(state=Task.State.OPEN, slots_taken__lt=F("overlap"))


def build_limits(membership: Membership) -> MemberLimits:
    """What the member must not be given; their person's ``own_models`` are queries unless prefetched."""
    person = membership.person
    return MemberLimits(
        dimensions=frozenset(membership.excluded_dimensions),
        opted_out=frozenset(person.opted_out),
        languages=frozenset(person.languages),
        models=frozenset(
            pk for model in person.own_models.all() for pk in (model.pk, *_list_comparisons(model))
        ),
    )


def _list_comparisons(model: EvaluatedModel) -> list[int]:
    """What stands for the model together with others, on slates."""
    return [comparison.pk for comparison in model.compared_in.all()]


def build_kind(stratum: Stratum) -> TaskKind:
    return TaskKind(dimension=stratum.dimension, language=stratum.language, model=stratum.model_id)


def list_ruled_out_strata(membership: Membership) -> list[int]:
    """The strata of the batch that are not for this member; no query where nothing limits them."""
    limits = build_limits(membership)
    if limits == MemberLimits():
        return []
    strata = Stratum.objects.filter(batch=membership.batch_id)
    return [stratum.pk for stratum in strata if find_obstacle(limits, build_kind(stratum))]


def list_working_members(batch: Batch, role: str) -> list[Membership]:
    """The members of a role who are given work now, with what limits them, in the order of their joining."""
    members = Membership.objects.filter(build_role_filter(role), batch=batch, role=role, active=True)
    return list(
        members.select_related("person").prefetch_related("person__own_models__compared_in").order_by("pk")
    )


def filter_eligible(members: Iterable[Membership], stratum: Stratum) -> list[Membership]:
    """Those of ``members`` for whom the stratum's tasks are; quotas are another matter."""
    return [member for member in members if find_obstacle(build_limits(member), build_kind(stratum)) is None]


def select_free_tasks(
    membership: Membership,
    *,
    is_limited: bool = True,
    is_planned: bool = True,
    resting: Sequence[int] = (),
) -> FreeTasks:
    """``is_limited`` and ``is_planned`` False: known that nothing is ruled out, that there is no panel. ``resting`` are
    strata that are for the member, but not today.
    """
    return FreeTasks(
        batch=membership.batch_id,
        person=membership.person_id,
        pool=membership.batch.pairing == Batch.Pairing.POOL,
        ruled_out=[*(list_ruled_out_strata(membership) if is_limited else ()), *resting],
        panels=list(membership.panels.values_list("pk", flat=True)) if is_planned else (),
    )
