"""The plan of a batch: a panel for each task, by the pairing policies ``fixed`` and ``balanced``.

A plan is made once, when the tasks are made or the batch is opened. Afterwards a slot is planned again only if its
member skipped the task or left. Lock order: memberships, tasks, panels.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple, TypeAlias

from django.db.models import F, QuerySet

from annotation.core.errors import N_, AssayError
from annotation.domain.assignments.eligibility import is_within_quota
from annotation.domain.assignments.pairing import Block
from annotation.domain.assignments.plan import Allotment, count_tasks_by_person, plan_allotments
from annotation.models import Assignment, Batch, Membership, Panel, Stratum, Task
from annotation.selectors.assignments.availability import filter_eligible, list_working_members
from annotation.selectors.batches.needs import list_short_tasks
from annotation.selectors.counts import count_by_member, sum_for_quota
from annotation.selectors.gold_questions import list_failed_people
from annotation.services.table_statistics import refresh_statistics

CHUNK = 2000
MAX_TASKS_AT_ONCE = 10_000
MAX_KEY_LENGTH = 200
LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
# Withdrawn tasks may be brought back: their plan is kept up with those who come and go.
PLANNED = (Task.State.OPEN, Task.State.WITHDRAWN)
Members: TypeAlias = tuple[int, ...]
"""Of a panel: the ids of their memberships, ascending."""
Plan: TypeAlias = dict[Members | None, list[Task]]


@dataclass
class Planner:
    """Hands out a panel for each task, one after the other, by its stratum.

    The strata that are for the same people share one design, so that the plan is even where it can be. ``None``
    is the panel of a task that too few people may take.
    """

    batch: Batch
    panels: dict[Members, int] = field(default_factory=dict)
    planned: Counter[int] = field(default_factory=Counter)
    turns: dict[int, Iterator[Members | None]] = field(default_factory=dict)

    @classmethod
    def build(cls, batch: Batch, tasks: Mapping[int, int]) -> Planner:
        """``tasks`` maps a stratum to the number of its tasks. Raises where that is more than somebody's quota."""
        planner = cls(batch)
        members = list_working_members(batch, Membership.Role.ANNOTATOR)
        allotments_by_design = _build_allotments(batch, members, tasks)
        _refuse_beyond_quotas(members, allotments_by_design)
        for allotment in allotments_by_design:
            turns = _list_panel_members(allotment.blocks(), members)
            planner.turns |= dict.fromkeys(allotment.kinds, turns)
        return planner

    def next_panel(self, stratum: int) -> int | None:
        """The panel of the next task of a stratum."""
        members = next(self.turns[stratum])
        if members is None:
            return None
        panel = self.panels.get(members)
        if panel is None:
            panel = self.panels[members] = get_or_make_panel(self.batch, members).pk
        self.planned[panel] += 1
        return panel

    def save(self) -> None:
        """Count what was planned."""
        for panel, tasks in sorted(self.planned.items()):
            Panel.objects.filter(pk=panel).update(tasks_planned=F("tasks_planned") + tasks)
        self.planned.clear()


def plan_open_tasks(batch: Batch) -> None:
    """Plan every open task of a draft that is being opened."""
    waiting = Task.objects.filter(batch=batch, kind=Task.Kind.WORK, state=Task.State.OPEN, panel=None)
    waiting = waiting.order_by("rank")
    counts = Counter(waiting.order_by().values_list("stratum", flat=True))
    planner = Planner.build(batch, counts)
    by_panel: dict[int, list[int]] = defaultdict(list)
    for task, stratum in waiting.values_list("pk", "stratum").iterator(chunk_size=CHUNK):
        panel = planner.next_panel(stratum)
        if panel is not None:
            by_panel[panel].append(task)
    for panel, tasks in by_panel.items():
        for chunk in _split_ids(tasks):
            Task.objects.filter(pk__in=chunk).update(panel=panel)
    planner.save()
    refresh_statistics(Task, rows=sum(map(len, by_panel.values())))


def replan_task(task: Task, *, without: int) -> None:
    """The place of member ``without`` on this task goes to somebody else: who has least to do, and shares least
    with those who stay. With nobody left, the plan stays as it is, and the task is listed as needing a person.

    Nothing happens where the task is not planned for them, or is finished. The task's row must be locked.
    """
    _replan_tasks(Batch.objects.get(pk=task.batch_id), [task.pk], without=without)


def replan_member(batch: Batch, *, without: Membership, strata: Iterable[int] | None = None) -> None:
    """All places that are planned for a member and not taken go to others: the member left, or may no longer
    take the tasks of these ``strata``. The memberships must be locked.
    """
    tasks = Task.objects.filter(batch=batch, kind=Task.Kind.WORK, state__in=PLANNED, panel__members=without)
    if strata is not None:
        tasks = tasks.filter(stratum__in=list(strata))
    ids = _lock_tasks(tasks)
    assignments = Assignment.objects.filter(batch=batch, person=without.person_id, state__in=LIVE)
    taken_tasks = set(assignments.values_list("task", flat=True))
    _replan_tasks(batch, [pk for pk in ids if pk not in taken_tasks], without=without.pk, many=True)


def plan_orphaned_tasks(batch: Batch) -> int:
    """Plan the places that nobody of their panel may take any more, now that somebody joined or may take more.

    The number of tasks that found somebody. The memberships must be locked.
    """
    if batch.state == Batch.State.DRAFT:
        return 0
    ids = _lock_tasks(Task.objects.filter(pk__in=list_short_tasks(batch, limit=MAX_TASKS_AT_ONCE)))
    if not ids:
        return 0
    office = Replanner.of(batch)
    plan: Plan = defaultdict(list)
    for task, past in _list_tasks(ids):
        members = office.fill(task, past)
        if members is not None:
            plan[members].append(task)
    save_plan(batch, plan)
    return sum(map(len, plan.values()))


def get_or_make_panel(batch: Batch, members: Iterable[int]) -> Panel:
    """The panel of exactly these memberships."""
    ids = sorted(members)
    key = "-".join(map(str, ids))
    if len(key) > MAX_KEY_LENGTH:
        key = hashlib.sha256(key.encode()).hexdigest()
    panel, created = Panel.objects.get_or_create(batch=batch, key=key)
    if created:
        panel.members.set(ids)
    return panel


def save_plan(batch: Batch, plan: Mapping[Members | None, Sequence[Task]], *, requeued: bool = True) -> None:
    """Plan tasks, whose rows are locked, for these members; None is nobody in particular.

    They count as requeued, because some cursors may be beyond them; or else the cursors are to be set back, which
    costs less where they are many. The panels are counted last, in the order of their ids: two who plan at the
    same time never wait for each other in a circle.
    """
    mark = {"requeued": True} if requeued else {}
    panels = {members: None if members is None else get_or_make_panel(batch, members) for members in plan}
    changes: Counter[int] = Counter()
    for members, tasks in plan.items():
        panel = panels[members]
        for chunk in _split_ids([task.pk for task in tasks]):
            Task.objects.filter(pk__in=chunk).update(panel=panel, **mark)
        changes.subtract(task.panel_id for task in tasks if task.panel_id is not None)
        if panel is not None:
            changes[panel.pk] += len(tasks)
    for pk, change in sorted(changes.items()):
        Panel.objects.filter(pk=pk).update(tasks_planned=F("tasks_planned") + change)


def save_named_pairs(batch: Batch, pairs: Iterable[Sequence[Membership]]) -> None:
    """Keep the pairs that the manager named; each as many different people as the overlap asks for."""
    for pair in pairs:
        members = {member.pk for member in pair}
        if len(members) != batch.overlap:
            raise AssayError(
                N_(
                    "Each pair must be {overlap} different people, because that is the overlap; one has {given}."
                ),
                overlap=batch.overlap,
                given=len(members),
            )
        panel = get_or_make_panel(batch, members)
        Panel.objects.filter(pk=panel.pk).update(named=True)


def list_named_pairs(batch: Batch) -> list[Members]:
    return [tuple(map(int, key.split("-"))) for key in _list_named_keys(batch)]


def refuse_without_pairs(batch: Batch) -> None:
    if batch.pairing == Batch.Pairing.FIXED and not _list_named_keys(batch):
        raise AssayError(N_("The pairing fixed needs the pairs: name who works with whom."))


def _list_named_keys(batch: Batch) -> list[str]:
    return list(Panel.objects.filter(batch=batch, named=True).order_by("pk").values_list("key", flat=True))


def _build_allotments(
    batch: Batch, members: Sequence[Membership], tasks: Mapping[int, int]
) -> list[Allotment[int]]:
    places = {member.pk: place for place, member in enumerate(members)}
    may: dict[int, Block] = {}
    for stratum in Stratum.objects.filter(pk__in=tasks).order_by("pk"):
        may[stratum.pk] = tuple(places[member.pk] for member in filter_eligible(members, stratum))
    pairs = [
        tuple(places[pk] for pk in pair) for pair in list_named_pairs(batch) if places.keys() >= set(pair)
    ]
    return plan_allotments(
        tasks={stratum: tasks[stratum] for stratum in may},
        eligible=may,
        pairs=pairs if batch.pairing == Batch.Pairing.FIXED else None,
        overlap=batch.overlap,
        seed=batch.seed,
    )


def _refuse_beyond_quotas(members: Sequence[Membership], allotments: Iterable[Allotment[int]]) -> None:
    """A plan that somebody's quota does not allow would leave tasks that nobody may take."""
    planned: Counter[int] = Counter()
    for allotment in allotments:
        planned.update(count_tasks_by_person(allotment.counts()))
    for place, member in enumerate(members):
        if member.quota is not None and planned[place] > member.quota:
            raise AssayError(
                N_(
                    "The plan gives {name} {planned} items, and the quota is {quota}:"
                    " raise the quota, or let more people share the work."
                ),
                name=str(member.person),
                planned=planned[place],
                quota=member.quota,
            )


def _list_panel_members(
    blocks: Iterator[Block | None], members: Sequence[Membership]
) -> Iterator[Members | None]:
    return (None if block is None else tuple([members[place].pk for place in block]) for block in blocks)


def _replan_tasks(batch: Batch, tasks: Sequence[int], *, without: int, many: bool = False) -> None:
    office = Replanner.of(batch)
    plan: Plan = defaultdict(list)
    for task, past in _list_tasks(tasks):
        members = office.substitute(task, past, without=without) if task.state in PLANNED else None
        if members is not None:
            plan[members].append(task)
    save_plan(batch, plan, requeued=not many)
    if many and plan:
        first = min(task.rank for tasks in plan.values() for task in tasks)
        Membership.objects.filter(batch=batch, cursor__gt=first).update(cursor=first)


def _lock_tasks(tasks: QuerySet[Task]) -> list[int]:
    """The tasks, locked all before any panel is changed."""
    ids = list(tasks.order_by("pk").values_list("pk", flat=True))
    for chunk in _split_ids(ids):
        list(
            Task.objects.select_for_update(no_key=True).filter(pk__in=chunk).order_by("pk").values_list("pk")
        )
    return ids


def _list_tasks(ids: Sequence[int]) -> Iterator[tuple[Task, _TaskHistory]]:
    """The tasks, each with what happened on it."""
    for chunk in _split_ids(ids):
        assignments: dict[int, list[Assignment]] = defaultdict(list)
        for assignment in Assignment.objects.filter(task__in=chunk):
            assignments[assignment.task_id].append(assignment)
        for task in Task.objects.filter(pk__in=chunk).select_related("stratum").order_by("rank"):
            yield task, _TaskHistory.of(assignments[task.pk])


def _split_ids(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


@dataclass(frozen=True)
class _TaskHistory:
    """The people whom what happened on a task bars from it, who have a place on it now, and who gave one back."""

    barred: frozenset[int]
    live: frozenset[int]
    gave_back: frozenset[int]

    @classmethod
    def of(cls, assignments: Iterable[Assignment]) -> _TaskHistory:
        barred, live, gave_back = set(), set(), set()
        for assignment in assignments:
            if assignment.state in LIVE and not assignment.is_adjudication:
                live.add(assignment.person_id)
            if assignment.state in LIVE or assignment.skip_reason or assignment.is_adjudication:
                barred.add(assignment.person_id)
            else:
                gave_back.add(assignment.person_id)
        return cls(frozenset(barred), frozenset(live), frozenset(gave_back))


class _EligibleMember(NamedTuple):
    """A membership that may take the tasks of a stratum."""

    pk: int
    person: int
    quota: int | None


@dataclass
class Replanner:
    """Finds people for places, with the loads and the shared counts of the plan as it stands."""

    members: list[Membership]  # who annotates now, is within the quota and did not fail the qualification
    person_of: dict[int, int]  # of every annotator's membership
    panels: dict[int, Members]
    load: Counter[int]
    shared: Counter[tuple[int, int]]
    by_stratum: dict[int, list[_EligibleMember]] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Batch) -> Replanner:
        annotators = Membership.objects.filter(batch=batch, role=Membership.Role.ANNOTATOR)
        counts, failed = count_by_member(batch), list_failed_people(batch)
        people: dict[int, list[int]] = defaultdict(list)
        pairs = Panel.objects.filter(batch=batch).order_by("pk", "members").values_list("pk", "members")
        for panel, member in pairs:
            people[panel].append(member)
        office = cls(
            members=[
                member
                for member in list_working_members(batch, Membership.Role.ANNOTATOR)
                if member.person_id not in failed
                and is_within_quota(member.quota, submitted=sum_for_quota(counts.get(member.pk)), live=0)
            ],
            person_of=dict(annotators.values_list("pk", "person")),
            panels={pk: tuple(ids) for pk, ids in people.items()},
            load=Counter(),
            shared=Counter(),
        )
        for pk, planned in Panel.objects.filter(batch=batch, tasks_planned__gt=0).values_list(
            "pk", "tasks_planned"
        ):
            office._add_load(people[pk], planned)
        return office

    def substitute(self, task: Task, past: _TaskHistory, *, without: int) -> Members | None:
        """The members of the task's panel with another in the place of one; None where nobody else may take it,
        or where it is not planned for that one.
        """
        planned = self._get_panel(task)
        if without not in planned:
            return None
        stay = [pk for pk in planned if pk != without]
        return self._replace_panel(
            task, stay, self._rank_candidates(task, past, stay=stay, without=without)[:1]
        )

    def fill(self, task: Task, past: _TaskHistory) -> Members | None:
        """Those who have a place or may take theirs, and as many others as there are places for; None where
        there are no others, or no places.
        """
        able = {member.pk for member in self._list_eligible(task) if member.person not in past.barred}
        holders = [pk for pk, person in self.person_of.items() if person in past.live]
        stay = [*holders, *(pk for pk in self._get_panel(task) if pk in able)]
        return self._replace_panel(
            task, stay, self._rank_candidates(task, past, stay=stay)[: max(0, task.overlap - len(stay))]
        )

    def _get_panel(self, task: Task) -> Members:
        return () if task.panel_id is None else self.panels[task.panel_id]

    def _list_eligible(self, task: Task) -> list[_EligibleMember]:
        if task.stratum_id not in self.by_stratum:
            able = filter_eligible(self.members, task.stratum)
            self.by_stratum[task.stratum_id] = [
                _EligibleMember(member.pk, member.person_id, member.quota) for member in able
            ]
        return self.by_stratum[task.stratum_id]

    def _rank_candidates(
        self, task: Task, past: _TaskHistory, *, stay: Sequence[int], without: int = 0
    ) -> list[int]:
        """Who could take a place beside those who stay, the best first: who did not give it back before, is
        within their quota with all that is planned for them, has least to do, and shares least with the others.
        """
        able = [
            member
            for member in self._list_eligible(task)
            if member.pk not in stay and member.pk != without and member.person not in past.barred
        ]
        able.sort(
            key=lambda member: (
                member.person in past.gave_back,
                member.quota is not None and self.load[member.pk] >= member.quota,
                self.load[member.pk],
                sum([self.shared[member.pk, other] for other in stay]),
                member.pk,
            )
        )
        return [member.pk for member in able]

    def _replace_panel(self, task: Task, stay: Sequence[int], added: Sequence[int]) -> Members | None:
        if not added:
            return None
        members = tuple(sorted([*stay, *added]))
        self._add_load(self._get_panel(task), -1)
        self._add_load(members, 1)
        return members

    def _add_load(self, members: Sequence[int], tasks: int) -> None:
        for member in members:
            self.load[member] += tasks
        for pair in permutations(members, 2):
            self.shared[pair] += tasks
