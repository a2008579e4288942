"""A batch's items as its manager finds them, and the tasks that nobody left may take, each with the reasons.

Items are found by state, dimension, words of the prompt, or person. Each search is bounded, however large the batch:
what is rare is looked up by an index of its own; the rest is scanned in the order of assignment, some items at a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from annotation.core.errors import N_
from annotation.domain.assignments.eligibility import find_obstacle, is_within_quota
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    Membership,
    Panel,
    Person,
    Prompt,
    Stratum,
    Task,
)
from annotation.selectors.assignments.availability import FREE, build_kind, build_limits, list_working_members
from annotation.selectors.counts import STATES, count_by_member, count_by_stratum, count_tasks, sum_for_quota
from annotation.selectors.gold_questions import list_failed_people

# Up to so many prompts, or items of a person, are looked up; with more, items are looked through.
RARE = 500
CHUNK = 2000
MAX_SCANNED = 20_000
RankedTask = tuple[int, int]  # rank and id of a task
HELD_NOW, RAN_OUT = CLAIMS = ("held", "expired")
# Of claims so many are looked up, the latest ones.
MAX_CLAIMS = 2000
HELD = Q(state__in=[Assignment.State.CLAIMED, Assignment.State.SUBMITTED])


@dataclass(frozen=True)
class TaskFilter:
    """What is looked for; None and the empty string ask for nothing. ``words`` stand in the prompt or are its id;
    ``claim`` is one of ``CLAIMS``: the person's, where one is named.
    """

    state: str = ""
    dimension: str | None = None
    words: str = ""
    person: str = ""
    claim: str = ""

    @property
    def counted(self) -> bool:
        """Whether the number of such tasks is known without walking over them."""
        return not (self.words or self.person or self.claim)


@dataclass(frozen=True)
class BatchItem:
    """A task with what people did on it, never what they said of it; ``planned`` is empty for everybody."""

    task: Task
    assignments: tuple[Assignment, ...]
    planned: tuple[Membership, ...]


@dataclass(frozen=True)
class TaskPage:
    """One page. ``after`` is where the next begins, None on the last; ``total`` is None where it is not known.

    ``cut`` tells that looking ended before the page was full, because so many items fitted not.
    """

    items: tuple[BatchItem, ...]
    after: int | None
    total: int | None
    cut: bool = False


def find_tasks(batch: Batch, task_filter: TaskFilter, *, limit: int, after: int | None = None) -> TaskPage:
    """The first ``limit`` items whose rank is beyond ``after``, in the order of handing out."""
    tasks = Task.objects.filter(batch=batch, kind=Task.Kind.WORK)
    if task_filter.dimension is not None:
        strata = Stratum.objects.filter(batch=batch, dimension=task_filter.dimension)
        tasks = tasks.filter(stratum__in=list(strata.values_list("pk", flat=True)))
    states = [task_filter.state] if task_filter.state else list(STATES)
    few_tasks = _find_few(batch, task_filter)
    if few_tasks is not None:
        fitting = _filter_rows(task_filter, tasks.filter(pk__in=few_tasks, state__in=states))
        rows, end = sorted(row for row in fitting if after is None or row[0] > after), None
    elif task_filter.counted:
        rows, end = _list_next_rows(tasks, states, after, limit + 1), None
    else:
        rows, end = _scan_rows(tasks, states, task_filter, after, limit + 1)
    is_cut = end is not None and len(rows) <= limit
    return TaskPage(
        items=list_items([pk for _rank, pk in rows[:limit]]),
        after=end if is_cut else rows[limit - 1][0] if len(rows) > limit else None,
        total=_count_total(batch, task_filter) if task_filter.counted else None,
        cut=is_cut,
    )


def list_items(tasks: Sequence[int]) -> tuple[BatchItem, ...]:
    """These tasks, in this order, with who is on them; four queries."""
    rows = Task.objects.filter(pk__in=tasks).select_related("response__prompt", "stratum")
    tasks_by_id = {task.pk: task for task in rows}
    by_task: dict[int, list[Assignment]] = defaultdict(list)
    assigned = Assignment.objects.filter(task__in=tasks)
    for assignment in assigned.select_related("person", "imported").order_by("claimed_at"):
        by_task[assignment.task_id].append(assignment)
    planned = _list_planned({task.panel_id for task in tasks_by_id.values()})
    return tuple(
        BatchItem(tasks_by_id[pk], tuple(by_task[pk]), tuple(planned[tasks_by_id[pk].panel_id]))
        for pk in tasks
        if pk in tasks_by_id
    )


def list_dimensions(batch: Batch) -> list[str]:
    return sorted(
        Stratum.objects.filter(batch=batch, kind=Task.Kind.WORK)
        .order_by()
        .values_list("dimension", flat=True)
        .distinct()
    )


def _find_few(batch: Batch, task_filter: TaskFilter) -> list[int] | None:
    """The tasks of the claims, of the prompts or of the person, if these are few; None where they are many or not
    asked for.
    """
    if task_filter.claim:
        return list(_list_claims(batch, task_filter).values_list("task", flat=True)[:MAX_CLAIMS])
    if task_filter.words:
        prompts = _find_prompts(task_filter.words)
        if len(prompts) <= RARE:
            tasks = Task.objects.filter(batch=batch, response__prompt__in=prompts)
            return list(tasks.values_list("pk", flat=True))
    if task_filter.person and _count_done_by(batch, task_filter.person) <= RARE:
        return list(
            _list_person_assignments(task_filter.person).filter(batch=batch).values_list("task", flat=True)
        )
    return None


def _list_claims(batch: Batch, task_filter: TaskFilter) -> QuerySet[Assignment]:
    """What is at hand now; or what ran out and was not taken again by the same person, swept away or not yet."""
    claims = Assignment.objects.filter(batch=batch).order_by("-claimed_at")
    if task_filter.person:
        claims = claims.filter(person__username=task_filter.person)
    now, claimed = timezone.now(), Q(state=Assignment.State.CLAIMED)
    if task_filter.claim == HELD_NOW:
        return claims.filter(claimed, lease_expires__gt=now)
    expired = Q(state=Assignment.State.EXPIRED, skip_reason="")
    return claims.filter(expired | (claimed & Q(lease_expires__lte=now)))


def _find_prompts(words: str) -> list[int]:
    """The prompts of this id, or else those with these words; no more than tells that they are many."""
    prompts = Prompt.objects.order_by().values_list("pk", flat=True)
    prompts_by_id = list(prompts.filter(key=words)[: RARE + 1])
    return prompts_by_id or list(prompts.filter(text__icontains=words)[: RARE + 1])


def _list_person_assignments(person: str) -> QuerySet[Assignment]:
    """What the person holds, has labelled or has decided."""
    return Assignment.objects.filter(HELD, person__in=Person.objects.filter(username=person))


def _count_done_by(batch: Batch, person: str) -> int:
    counts = count_by_member(batch)
    members = batch.memberships.filter(person__username=person).values_list("pk", flat=True)
    return sum(counts[pk]["submitted"] + counts[pk]["adjudicated"] for pk in members if pk in counts)


def _filter_rows(task_filter: TaskFilter, tasks: QuerySet[Task]) -> set[RankedTask]:
    """Those of a bounded number of tasks whose prompt has the words and which are the person's."""
    if task_filter.words:
        tasks = tasks.filter(Q(prompt__key=task_filter.words) | Q(prompt__text__icontains=task_filter.words))
    rows = set(tasks.order_by().values_list("rank", "pk"))
    if task_filter.person and not task_filter.claim:
        assignments = _list_person_assignments(task_filter.person).filter(task__in=[pk for _rank, pk in rows])
        of_person = set(assignments.values_list("task", flat=True))
        rows = {row for row in rows if row[1] in of_person}
    return rows


def _list_next_rows(
    tasks: QuerySet[Task], states: Sequence[str], after: int | None, limit: int
) -> list[RankedTask]:
    """The first of them: the first of each state, by the index that has them in order."""
    if after is not None:
        tasks = tasks.filter(rank__gt=after)
    of_state = tasks.order_by("rank").values_list("rank", "pk")
    return sorted(row for state in states for row in of_state.filter(state=state)[:limit])[:limit]


def _scan_rows(
    tasks: QuerySet[Task], states: Sequence[str], task_filter: TaskFilter, after: int | None, limit: int
) -> tuple[list[RankedTask], int | None]:
    """The first of those that fit, and the rank of the last one looked at where there are more to look at."""
    rows: list[RankedTask] = []
    for _chunk in range(MAX_SCANNED // CHUNK):
        chunk = _list_next_rows(tasks, states, after, CHUNK)
        fitting = _filter_rows(task_filter, Task.objects.filter(pk__in=[pk for _rank, pk in chunk]))
        rows += sorted(fitting)
        if len(chunk) < CHUNK:
            return rows[:limit], None
        after = chunk[-1][0]
        if len(rows) >= limit:
            break
    return rows[:limit], after


def _count_total(batch: Batch, task_filter: TaskFilter) -> int:
    states = [task_filter.state] if task_filter.state else STATES
    return sum(
        counts[state]
        for stratum, counts in count_by_stratum([batch.pk]).items()
        if task_filter.dimension in (None, stratum.dimension)
        for state in states
    )


def _list_planned(panels: set[int | None]) -> dict[int | None, list[Membership]]:
    by_panel: dict[int | None, list[Membership]] = defaultdict(list)
    ids = [pk for pk in panels if pk is not None]
    pairs = list(Panel.objects.filter(pk__in=ids).values_list("pk", "members"))
    members = Membership.objects.select_related("person").in_bulk([member for _panel, member in pairs])
    for panel, member in pairs:
        by_panel[panel].append(members[member])
    for people in by_panel.values():
        people.sort(key=lambda membership: membership.person.username)
    return by_panel


NEEDS_CHUNK = 500
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
    rows = list(tasks.order_by("rank").values_list("rank", "pk")[:NEEDS_CHUNK])
    while rows:
        task_ids = [pk for _rank, pk in rows]
        past: dict[int, dict[int, Assignment]] = defaultdict(dict)
        for assignment in Assignment.objects.filter(task__in=task_ids):
            past[assignment.task_id][assignment.person_id] = assignment
        chunk = Task.objects.filter(pk__in=task_ids).select_related("response__prompt", "stratum")
        yield list(chunk.order_by("rank")), past
        following = tasks.filter(rank__gt=rows[-1][0]).order_by("rank")
        rows = list(following.values_list("rank", "pk")[:NEEDS_CHUNK]) if len(rows) == NEEDS_CHUNK else []


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
