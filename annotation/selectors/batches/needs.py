"""The tasks of a batch that nobody left may take, each with the reasons."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from annotation.core.errors import N_
from annotation.domain.assignments.eligibility import find_obstacle, is_within_quota
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Panel, Stratum, Task
from annotation.selectors.assignments.availability import FREE, build_kind, build_limits, list_working_members
from annotation.selectors.counts import count_by_member, count_tasks, sum_for_quota
from annotation.selectors.gold_questions import list_failed_people

CHUNK = 500
MAX_TOLD = 100
"""How many of them are counted; of more it is said that they are more."""
LABELLED = N_("labelled it or has it in progress")
ANNOTATED = N_("was given it to annotate")
SKIPPED = N_("skipped it")
QUOTA = N_("has reached the quota")
FAILED = N_("did not pass the qualification")
NOT_PLANNED = N_("is not among those it is planned for")


@dataclass(frozen=True)
class NeedReason:
    """Whom a reason keeps from a task; ``reason`` is English, to be translated where it is shown."""

    reason: str
    people: tuple[Membership, ...]


@dataclass(frozen=True)
class Need:
    """A task that needs a person: an annotator, or an adjudicator. ``whys`` is empty where there is none at all."""

    task: Task
    role: str
    whys: tuple[NeedReason, ...]


@dataclass(frozen=True)
class _RoleLimits:
    """What keeps the members of a role from a task, whatever they did on it."""

    members: Sequence[Membership]
    refused: Mapping[int, Mapping[int, str]]  # by stratum, then by membership

    def may(self, stratum: int) -> list[Membership]:
        return [member for member in self.members if member.pk not in self.refused[stratum]]


def list_needs(batch: Batch, *, limit: int) -> list[Need]:
    """The first ``limit`` of them in the order of handing out, annotations before adjudications."""
    return list(islice(_iterate_needs(batch), limit))


def list_short_tasks(batch: Batch, *, limit: int) -> list[int]:
    """The first ``limit`` planned tasks with more free places than people of their plan who may take them."""
    strata = _list_strata(batch)
    place = _build_role_limits(batch, Membership.Role.ANNOTATOR, strata)
    task_ids = (
        task.pk
        for task, whys in _iterate_free_tasks(batch, place, strata, n_needed=F("overlap") - F("slots_taken"))
        if len(whys.get("", ())) < task.overlap - task.slots_taken
        and (task.panel_id is not None or batch.pairing != Batch.Pairing.POOL)
    )
    return list(islice(task_ids, limit))


def _iterate_needs(batch: Batch) -> Iterator[Need]:
    strata = _list_strata(batch)
    yield from _iterate_annotation_needs(
        batch, _build_role_limits(batch, Membership.Role.ANNOTATOR, strata), strata
    )
    yield from _iterate_adjudication_needs(
        batch, _build_role_limits(batch, Membership.Role.ADJUDICATOR, strata), strata
    )


def _list_strata(batch: Batch) -> list[Stratum]:
    """Of its work: a gold question that was given back waits for its own person alone, and nobody need do anything."""
    return list(Stratum.objects.filter(batch=batch, kind=Task.Kind.WORK))


def _build_role_limits(batch: Batch, role: str, strata: Sequence[Stratum]) -> _RoleLimits:
    members = list_working_members(batch, role)
    counts = count_by_member(batch)
    # A claim at hand may come back: whoever would be within the quota without it may take a task.
    full = {
        member.pk
        for member in members
        if not is_within_quota(member.quota, submitted=_count_done(counts.get(member.pk), role), live=0)
    }
    failed = list_failed_people(batch) if role == Membership.Role.ANNOTATOR else frozenset()
    limits = {member.pk: build_limits(member) for member in members}
    refused: dict[int, dict[int, str]] = {}
    for stratum in strata:
        kind, of_stratum = build_kind(stratum), refused.setdefault(stratum.pk, {})
        for member in members:
            reason = find_obstacle(limits[member.pk], kind) or (QUOTA if member.pk in full else None)
            reason = FAILED if member.person_id in failed else reason
            if reason:
                of_stratum[member.pk] = reason
    return _RoleLimits(members, refused)


def _count_done(counts: Counter[str] | None, role: str) -> int:
    if role == Membership.Role.ANNOTATOR:
        return sum_for_quota(counts)
    return counts["adjudicated"] + counts["repeats"] if counts else 0


def _iterate_annotation_needs(batch: Batch, place: _RoleLimits, strata: Sequence[Stratum]) -> Iterator[Need]:
    for task, whys in _iterate_free_tasks(batch, place, strata, n_needed=Value(1)):
        if "" not in whys:
            yield Need(task, Membership.Role.ANNOTATOR, _build_reasons(whys))


def _iterate_free_tasks(
    batch: Batch, place: _RoleLimits, strata: Sequence[Stratum], *, n_needed: Combinable
) -> Iterator[tuple[Task, dict[str, list[Membership]]]]:
    """Those for which fewer people than ``wanted`` could be left, with the members by what keeps them from it; ""
    is nothing.
    """
    panels = _list_panels(batch)
    work = Task.objects.filter(batch=batch, kind=Task.Kind.WORK)
    tasks = work.filter(FREE, _build_suspect_filter(batch, place, strata, panels))
    if batch.plan == Batch.Plan.OPEN:  # beyond its floor nothing is needed
        tasks = tasks.filter(slots_taken__lt=batch.overlap)
    tasks = tasks.alias(had=_select_had(), able=_select_able(batch, place, strata, panels))
    for chunk, past in _iterate_chunks(tasks.filter(had__gt=F("able") - n_needed).order_by("rank")):
        if any(task.panel_id is not None and task.panel_id not in panels for task in chunk):
            panels = _list_panels(batch)  # one that a skip has made since
        for task in chunk:
            planned = None if task.panel_id is None else panels.get(task.panel_id, frozenset())
            if planned is None and batch.pairing != Batch.Pairing.POOL:
                planned = frozenset()
            whys: dict[str, list[Membership]] = defaultdict(list)
            for member in place.members:
                reason = place.refused[task.stratum_id].get(member.pk) or _find_past_reason(
                    past[task.pk], member
                )
                if reason is None and planned is not None and member.pk not in planned:
                    reason = NOT_PLANNED
                whys[reason or ""].append(member)
            yield task, whys


def _build_suspect_filter(
    batch: Batch, place: _RoleLimits, strata: Sequence[Stratum], panels: Mapping[int, frozenset[int]]
) -> Q:
    """The free tasks that could need a person; of all others that is impossible, however many they are.

    Nobody skipped a task that never came back, so fewer than ``overlap`` people have had it: where as many may
    take it, and the plan counts on nobody who may not, somebody is left.
    """
    scarce = [stratum.pk for stratum in strata if len(place.may(stratum.pk)) < batch.overlap]
    able = _list_unlimited(place)
    planned = dict(Panel.objects.filter(batch=batch, tasks_planned__gt=0).values_list("pk", "tasks_planned"))
    broken = [pk for pk in planned if not panels.get(pk, frozenset()) <= able]
    suspect = Q(requeued=True) | Q(stratum__in=scarce) | Q(panel__in=broken)
    # Each condition more makes the database walk over all free tasks: only where there are such tasks.
    unplanned = batch.pairing != Batch.Pairing.POOL and count_tasks(batch) > sum(planned.values())
    return suspect | Q(panel=None) if unplanned else suspect


def _select_able(
    batch: Batch, place: _RoleLimits, strata: Sequence[Stratum], panels: Mapping[int, frozenset[int]]
) -> Case:
    """At least how many may take a task if they did not have it: where fewer had it, somebody is left.

    The database leaves out by it what would be many: all that was skipped by a few of a large pool.
    """
    able = _list_unlimited(place)
    sizes: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for panel, members in panels.items():
        sizes[len(members & able)][0].append(panel)
    if batch.pairing == Batch.Pairing.POOL:
        for stratum in strata:
            sizes[len(place.may(stratum.pk))][1].append(stratum.pk)
    whens = [When(panel__in=of, then=Value(n)) for n, (of, _strata) in sizes.items() if of]
    whens += [When(panel=None, stratum__in=of, then=Value(n)) for n, (_panels, of) in sizes.items() if of]
    return Case(*whens, default=Value(0))


def _select_had() -> Coalesce:
    had = Assignment.objects.filter(task=OuterRef("pk")).order_by().values("task")
    return Coalesce(Subquery(had.annotate(n=Count("pk")).values("n")), Value(0))


def _list_unlimited(place: _RoleLimits) -> set[int]:
    return {
        member.pk
        for member in place.members
        if not any(member.pk in refused for refused in place.refused.values())
    }


def _iterate_adjudication_needs(
    batch: Batch, place: _RoleLimits, strata: Sequence[Stratum]
) -> Iterator[Need]:
    held = Assignment.objects.filter(batch=batch, slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)
    disputes = Task.objects.filter(batch=batch, kind=Task.Kind.WORK, state=Task.State.DISPUTED)
    tasks = disputes.exclude(pk__in=held.values("task"))
    if not tasks.exists():
        return
    # An adjudicator who neither annotated nor skipped anything here can take whatever is not ruled out for them.
    tainted = Assignment.objects.filter(
        batch=batch, person__in=[member.person_id for member in place.members]
    )
    tainted = tainted.filter(Q(slot__lt=ADJUDICATION_SLOT) | ~Q(skip_reason=""))
    barred = set(tainted.order_by().values_list("person", flat=True).distinct())
    safe = [
        stratum.pk
        for stratum in strata
        if any(member.person_id not in barred for member in place.may(stratum.pk))
    ]
    for chunk, past in _iterate_chunks(tasks.exclude(stratum__in=safe).order_by("rank")):
        for task in chunk:
            whys: dict[str, list[Membership]] = defaultdict(list)
            for member in place.members:
                reason = place.refused[task.stratum_id].get(member.pk)
                whys[reason or _find_past_reason(past[task.pk], member, adjudicating=True) or ""].append(
                    member
                )
            if "" not in whys:
                yield Need(task, Membership.Role.ADJUDICATOR, _build_reasons(whys))


def _iterate_chunks(tasks: QuerySet[Task]) -> Iterator[tuple[list[Task], dict[int, dict[int, Assignment]]]]:
    """The tasks in the order of handing out, some at a time, with what was done on each by person.

    Each some is a query of its own: a cursor would find all of them before it gives the first.
    """
    rows = list(tasks.order_by("rank").values_list("rank", "pk")[:CHUNK])
    while rows:
        task_ids = [pk for _rank, pk in rows]
        past: dict[int, dict[int, Assignment]] = defaultdict(dict)
        for assignment in Assignment.objects.filter(task__in=task_ids):
            past[assignment.task_id][assignment.person_id] = assignment
        chunk = Task.objects.filter(pk__in=task_ids).select_related("response__prompt", "stratum")
        yield list(chunk.order_by("rank")), past
        following = tasks.filter(rank__gt=rows[-1][0]).order_by("rank")
        rows = list(following.values_list("rank", "pk")[:CHUNK]) if len(rows) == CHUNK else []


def _find_past_reason(
    past: Mapping[int, Assignment], member: Membership, *, adjudicating: bool = False
) -> str | None:
    assignment = past.get(member.person_id)
    if assignment is None:
        return None
    if assignment.skip_reason:
        return SKIPPED
    if assignment.is_adjudication != adjudicating:
        return ANNOTATED
    live = assignment.state in (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
    return LABELLED if live else None


def _list_panels(batch: Batch) -> dict[int, frozenset[int]]:
    members: dict[int, set[int]] = defaultdict(set)
    for panel, member in Panel.objects.filter(batch=batch).values_list("pk", "members"):
        members[panel].add(member)
    return {pk: frozenset(ids) for pk, ids in members.items()}


def _build_reasons(whys: Mapping[str, Sequence[Membership]]) -> tuple[NeedReason, ...]:
    return tuple(NeedReason(reason, tuple(people)) for reason, people in sorted(whys.items()))
