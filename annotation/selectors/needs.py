"""The tasks that nobody left may take, each with the reason. They wait until the manager does something."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from annotation.distribution import ruled_out, within_quota
from annotation.errors import N_
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    Membership,
    Panel,
    Stratum,
    Task,
)
from annotation.selectors.counts import by_member, counts_for_quota, tasks_in
from annotation.selectors.eligibility import FREE, kind_of, limits_of, working_members
from annotation.selectors.known import failed_people

CHUNK = 500
LABELLED = N_("labelled it or has it at hand")
ANNOTATED = N_("was given it to annotate")
SKIPPED = N_("skipped it")
QUOTA = N_("has reached the quota")
FAILED = N_("did not pass the qualification")
NOT_PLANNED = N_("is not among those it is planned for")


@dataclass(frozen=True)
class Why:
    """Whom a reason keeps from a task; ``reason`` is English, to be translated where it is shown."""

    reason: str
    people: tuple[Membership, ...]


@dataclass(frozen=True)
class Need:
    """A task that needs a person: an annotator, or an adjudicator. ``whys`` is empty where there is none at all."""

    task: Task
    role: str
    whys: tuple[Why, ...]


@dataclass(frozen=True)
class _Place:
    """What keeps the members of a role from a task, whatever they did on it."""

    members: Sequence[Membership]
    refused: Mapping[int, Mapping[int, str]]  # by stratum, then by membership

    def may(self, stratum: int) -> list[Membership]:
        return [one for one in self.members if one.pk not in self.refused[stratum]]


def needs(batch: Batch, *, limit: int) -> list[Need]:
    """The first ``limit`` of them in the order of handing out, annotations before adjudications."""
    return list(islice(_needs(batch), limit))


def short_of_people(batch: Batch, *, limit: int) -> list[int]:
    """The first ``limit`` planned tasks with more free places than people of their plan who may take them."""
    strata = _strata(batch)
    place = _place(batch, Membership.Role.ANNOTATOR, strata)
    found = (
        task.pk
        for task, whys in _free_tasks(batch, place, strata, wanted=F("overlap") - F("slots_taken"))
        if len(whys.get("", ())) < task.overlap - task.slots_taken
        and (task.panel_id is not None or batch.pairing != Batch.Pairing.POOL)
    )
    return list(islice(found, limit))


def _needs(batch: Batch) -> Iterator[Need]:
    strata = _strata(batch)
    yield from _annotations(batch, _place(batch, Membership.Role.ANNOTATOR, strata), strata)
    yield from _adjudications(batch, _place(batch, Membership.Role.ADJUDICATOR, strata), strata)


def _strata(batch: Batch) -> list[Stratum]:
    """Of its work: a known item that was given back waits for its own person alone, and nobody need do anything."""
    return list(Stratum.objects.filter(batch=batch, kind=Task.Kind.WORK))


def _place(batch: Batch, role: str, strata: Sequence[Stratum]) -> _Place:
    members = working_members(batch, role)
    counts = by_member(batch)
    # A claim at hand may come back: whoever would be within the quota without it may take a task.
    full = {
        one.pk
        for one in members
        if not within_quota(one.quota, submitted=_done(counts.get(one.pk), role), live=0)
    }
    failed = failed_people(batch) if role == Membership.Role.ANNOTATOR else frozenset()
    limits = {one.pk: limits_of(one) for one in members}
    refused: dict[int, dict[int, str]] = {}
    for stratum in strata:
        kind, of_stratum = kind_of(stratum), refused.setdefault(stratum.pk, {})
        for one in members:
            reason = ruled_out(limits[one.pk], kind) or (QUOTA if one.pk in full else None)
            reason = FAILED if one.person_id in failed else reason
            if reason:
                of_stratum[one.pk] = reason
    return _Place(members, refused)


def _done(counts: Counter[str] | None, role: str) -> int:
    if role == Membership.Role.ANNOTATOR:
        return counts_for_quota(counts)
    return counts["adjudicated"] + counts["repeats"] if counts else 0


def _annotations(batch: Batch, place: _Place, strata: Sequence[Stratum]) -> Iterator[Need]:
    for task, whys in _free_tasks(batch, place, strata, wanted=Value(1)):
        if "" not in whys:
            yield Need(task, Membership.Role.ANNOTATOR, _whys(whys))


def _free_tasks(
    batch: Batch, place: _Place, strata: Sequence[Stratum], *, wanted: Combinable
) -> Iterator[tuple[Task, dict[str, list[Membership]]]]:
    """Those for which fewer people than ``wanted`` could be left, with the members by what keeps them from it; ""
    is nothing.
    """
    panels = _panels(batch)
    work = Task.objects.filter(batch=batch, kind=Task.Kind.WORK)
    tasks = work.filter(FREE, _suspect(batch, place, strata, panels))
    tasks = tasks.alias(had=_had(), able=_able(batch, place, strata, panels))
    for chunk, past in _chunks(tasks.filter(had__gt=F("able") - wanted).order_by("rank")):
        if any(task.panel_id is not None and task.panel_id not in panels for task in chunk):
            panels = _panels(batch)  # one that a skip has made since
        for task in chunk:
            planned = None if task.panel_id is None else panels.get(task.panel_id, frozenset())
            if planned is None and batch.pairing != Batch.Pairing.POOL:
                planned = frozenset()
            whys: dict[str, list[Membership]] = defaultdict(list)
            for one in place.members:
                reason = place.refused[task.stratum_id].get(one.pk) or _past_reason(past[task.pk], one)
                if reason is None and planned is not None and one.pk not in planned:
                    reason = NOT_PLANNED
                whys[reason or ""].append(one)
            yield task, whys


def _suspect(
    batch: Batch, place: _Place, strata: Sequence[Stratum], panels: Mapping[int, frozenset[int]]
) -> Q:
    """The free tasks that could need a person; of all others that is impossible, however many they are.

    Nobody skipped a task that never came back, so fewer than ``overlap`` people have had it: where as many may
    take it, and the plan counts on nobody who may not, somebody is left.
    """
    scarce = [one.pk for one in strata if len(place.may(one.pk)) < batch.overlap]
    able = _unlimited(place)
    planned = dict(Panel.objects.filter(batch=batch, tasks_planned__gt=0).values_list("pk", "tasks_planned"))
    broken = [pk for pk in planned if not panels.get(pk, frozenset()) <= able]
    suspect = Q(requeued=True) | Q(stratum__in=scarce) | Q(panel__in=broken)
    # Each condition more makes the database walk over all free tasks: only where there are such tasks.
    unplanned = batch.pairing != Batch.Pairing.POOL and tasks_in(batch) > sum(planned.values())
    return suspect | Q(panel=None) if unplanned else suspect


def _able(
    batch: Batch, place: _Place, strata: Sequence[Stratum], panels: Mapping[int, frozenset[int]]
) -> Case:
    """At least how many may take a task if they did not have it: where fewer had it, somebody is left.

    The database leaves out by it what would be many: all that was skipped by a few of a large pool.
    """
    able = _unlimited(place)
    sizes: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for panel, members in panels.items():
        sizes[len(members & able)][0].append(panel)
    if batch.pairing == Batch.Pairing.POOL:
        for stratum in strata:
            sizes[len(place.may(stratum.pk))][1].append(stratum.pk)
    whens = [When(panel__in=of, then=Value(n)) for n, (of, _strata) in sizes.items() if of]
    whens += [When(panel=None, stratum__in=of, then=Value(n)) for n, (_panels, of) in sizes.items() if of]
    return Case(*whens, default=Value(0))


def _had() -> Coalesce:
    had = Assignment.objects.filter(task=OuterRef("pk")).order_by().values("task")
    return Coalesce(Subquery(had.annotate(n=Count("pk")).values("n")), Value(0))


def _unlimited(place: _Place) -> set[int]:
    return {
        one.pk for one in place.members if not any(one.pk in refused for refused in place.refused.values())
    }


def _adjudications(batch: Batch, place: _Place, strata: Sequence[Stratum]) -> Iterator[Need]:
    held = Assignment.objects.filter(batch=batch, slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)
    disputes = Task.objects.filter(batch=batch, kind=Task.Kind.WORK, state=Task.State.DISPUTED)
    tasks = disputes.exclude(pk__in=held.values("task"))
    if not tasks.exists():
        return
    # An adjudicator who neither annotated nor skipped anything here can take whatever is not ruled out for them.
    tainted = Assignment.objects.filter(batch=batch, person__in=[one.person_id for one in place.members])
    tainted = tainted.filter(Q(slot__lt=ADJUDICATION_SLOT) | ~Q(skip_reason=""))
    barred = set(tainted.order_by().values_list("person", flat=True).distinct())
    safe = [one.pk for one in strata if any(member.person_id not in barred for member in place.may(one.pk))]
    for chunk, past in _chunks(tasks.exclude(stratum__in=safe).order_by("rank")):
        for task in chunk:
            whys: dict[str, list[Membership]] = defaultdict(list)
            for one in place.members:
                reason = place.refused[task.stratum_id].get(one.pk)
                whys[reason or _past_reason(past[task.pk], one, adjudicating=True) or ""].append(one)
            if "" not in whys:
                yield Need(task, Membership.Role.ADJUDICATOR, _whys(whys))


def _chunks(tasks: QuerySet[Task]) -> Iterator[tuple[list[Task], dict[int, dict[int, Assignment]]]]:
    """The tasks in the order of handing out, some at a time, with what was done on each by person.

    Each some is a query of its own: a cursor would find all of them before it gives the first.
    """
    rows = list(tasks.order_by("rank").values_list("rank", "pk")[:CHUNK])
    while rows:
        some = [pk for _rank, pk in rows]
        past: dict[int, dict[int, Assignment]] = defaultdict(dict)
        for one in Assignment.objects.filter(task__in=some):
            past[one.task_id][one.person_id] = one
        found = Task.objects.filter(pk__in=some).select_related("response__prompt", "stratum")
        yield list(found.order_by("rank")), past
        beyond = tasks.filter(rank__gt=rows[-1][0]).order_by("rank")
        rows = list(beyond.values_list("rank", "pk")[:CHUNK]) if len(rows) == CHUNK else []


def _past_reason(
    past: Mapping[int, Assignment], member: Membership, *, adjudicating: bool = False
) -> str | None:
    one = past.get(member.person_id)
    if one is None:
        return None
    if one.skip_reason:
        return SKIPPED
    if one.is_adjudication != adjudicating:
        return ANNOTATED
    live = one.state in (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
    return LABELLED if live else None


def _panels(batch: Batch) -> dict[int, frozenset[int]]:
    members: dict[int, set[int]] = defaultdict(set)
    for panel, member in Panel.objects.filter(batch=batch).values_list("pk", "members"):
        members[panel].add(member)
    return {pk: frozenset(ids) for pk, ids in members.items()}


def _whys(whys: Mapping[str, Sequence[Membership]]) -> tuple[Why, ...]:
    return tuple(Why(reason, tuple(people)) for reason, people in sorted(whys.items()))
