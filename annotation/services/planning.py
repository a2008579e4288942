"""For whom a task is planned: the panels of the pairing policies ``fixed`` and ``balanced``.

A plan is made once, when the tasks are made or the batch is opened. Afterwards only those places are planned
again that came back: skipped, or left by who went. Lock order: memberships, tasks, panels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import F

from annotation.design import Block, balanced, dealt
from annotation.errors import N_, AssayError
from annotation.models import Assignment, Batch, Membership, Panel, Stratum, Task
from annotation.selectors.eligibility import may_take, working_members
from annotation.selectors.needs import needs

CHUNK = 2000
MOST_AT_ONCE = 10_000
Members = tuple[int, ...]  # of a panel, by the ids of their memberships, ascending


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
    def of(cls, batch: Batch, tasks: Mapping[int, int]) -> Planner:
        """``tasks`` maps a stratum to the number of its tasks."""
        planner = cls(batch)
        pairs = named_pairs(batch)
        members = working_members(batch, Membership.Role.ANNOTATOR)
        sharing: dict[Members, list[int]] = defaultdict(list)
        for stratum in Stratum.objects.filter(pk__in=tasks).order_by("pk"):
            sharing[tuple(one.pk for one in may_take(members, stratum))].append(stratum.pk)
        for people, strata in sharing.items():
            turns = planner._turns(people, sum(tasks[pk] for pk in strata), pairs)
            planner.turns |= dict.fromkeys(strata, turns)
        return planner

    def next(self, stratum: int) -> int | None:
        """The panel of the next task of a stratum."""
        members = next(self.turns[stratum])
        if members is None:
            return None
        panel = self.panels.get(members)
        if panel is None:
            panel = self.panels[members] = panel_of(self.batch, members).pk
        self.planned[panel] += 1
        return panel

    def save(self) -> None:
        """Count what was planned."""
        for panel, tasks in self.planned.items():
            Panel.objects.filter(pk=panel).update(tasks_planned=F("tasks_planned") + tasks)
        self.planned.clear()

    def _turns(self, people: Members, tasks: int, pairs: Sequence[Members]) -> Iterator[Members | None]:
        if self.batch.pairing == Batch.Pairing.FIXED:
            return _dealt(people, tasks, pairs, self.batch.seed)
        return _balanced(people, tasks, self.batch)


def plan_open_tasks(batch: Batch) -> None:
    """Plan every open task of the batch that has no panel yet: a draft is opened, or tasks were added."""
    waiting = Task.objects.filter(batch=batch, state=Task.State.OPEN, panel=None).order_by("rank")
    counts = Counter(waiting.order_by().values_list("stratum", flat=True))
    planner = Planner.of(batch, counts)
    by_panel: dict[int, list[int]] = defaultdict(list)
    for task, stratum in waiting.values_list("pk", "stratum").iterator(chunk_size=CHUNK):
        panel = planner.next(stratum)
        if panel is not None:
            by_panel[panel].append(task)
    _move(by_panel)
    planner.save()


def plan_again(task: Task, *, without: int) -> None:
    """The place of member ``without`` on this task goes to somebody else: who has least to do, and shares least
    with those who stay. With nobody left, the plan stays as it is, and the task is listed as needing a person.

    The task's row must be locked.
    """
    _plan_again(task.batch_id, [task.pk], without=without)


def plan_again_for(batch: Batch, *, without: Membership, strata: Iterable[int] | None = None) -> None:
    """All places that are planned for a member and not taken go to others: the member left, or may no longer
    take the tasks of these ``strata``. The memberships must be locked.
    """
    tasks = Task.objects.filter(batch=batch, state=Task.State.OPEN, panel__members=without)
    if strata is not None:
        tasks = tasks.filter(stratum__in=list(strata))
    done = Assignment.objects.filter(
        batch=batch, person=without.person_id, state__in=["claimed", "submitted"]
    ).values("task")
    ids = list(tasks.exclude(pk__in=done).order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        list(Task.objects.select_for_update().filter(pk__in=chunk).order_by("pk").values_list("pk"))
        _plan_again(batch.pk, chunk, without=without.pk)


def panel_of(batch: Batch, members: Iterable[int]) -> Panel:
    """The panel of exactly these memberships."""
    ids = sorted(members)
    panel, created = Panel.objects.get_or_create(batch=batch, key="-".join(map(str, ids)))
    if created:
        panel.members.set(ids)
    return panel


def assign_panel(task: Task, panel: Panel | None) -> None:
    """Plan one task, whose row is locked, for a panel, or for nobody in particular."""
    if task.panel_id is not None:
        Panel.objects.filter(pk=task.panel_id).update(tasks_planned=F("tasks_planned") - 1)
    if panel is not None:
        Panel.objects.filter(pk=panel.pk).update(tasks_planned=F("tasks_planned") + 1)
    Task.objects.filter(pk=task.pk).update(panel=panel, requeued=True)
    task.panel = panel


def name_pairs(batch: Batch, pairs: Iterable[Sequence[Membership]]) -> None:
    """Keep the pairs that the manager named; each as many different people as the overlap asks for."""
    for pair in pairs:
        members = {one.pk for one in pair}
        if len(members) != batch.overlap:
            raise AssayError(
                N_(
                    "Each pair must be {overlap} different people, because that is the overlap; one has {given}."
                ),
                overlap=batch.overlap,
                given=len(members),
            )
        panel = panel_of(batch, members)
        Panel.objects.filter(pk=panel.pk).update(named=True)


def named_pairs(batch: Batch) -> list[Members]:
    return [tuple(map(int, key.split("-"))) for key in _named_keys(batch)]


def refuse_without_pairs(batch: Batch) -> None:
    if batch.pairing == Batch.Pairing.FIXED and not _named_keys(batch):
        raise AssayError(N_("The pairing fixed needs the pairs: name who works with whom."))


def _named_keys(batch: Batch) -> list[str]:
    return list(Panel.objects.filter(batch=batch, named=True).order_by("pk").values_list("key", flat=True))


def _balanced(people: Members, tasks: int, batch: Batch) -> Iterator[Members | None]:
    if len(people) < batch.overlap:
        return iter(lambda: None, 0)
    design = balanced(people=len(people), overlap=batch.overlap, tasks=tasks, seed=batch.seed)
    return _named(iter(design), people)


def _dealt(people: Members, tasks: int, pairs: Sequence[Members], seed: int) -> Iterator[Members | None]:
    whole = [tuple(sorted(people.index(one) for one in pair)) for pair in pairs if set(pair) <= set(people)]
    if not whole:
        return iter(lambda: None, 0)
    return _named(iter(dealt(groups=whole, people=len(people), tasks=tasks, seed=seed)), people)


def _named(blocks: Iterator[Block], people: Members) -> Iterator[Members | None]:
    return (tuple(sorted(people[place] for place in block)) for block in blocks)


def _plan_again(batch_id: int, tasks: Sequence[int], *, without: int) -> None:
    batch = Batch.objects.get(pk=batch_id)
    office = _Office.of(batch, tasks, without=without)
    by_panel: dict[int, list[int]] = defaultdict(list)
    for task in Task.objects.filter(pk__in=tasks).select_related("stratum").order_by("rank"):
        members = office.substitute(task)
        if members is not None:
            by_panel[panel_of(batch, members).pk].append(task.pk)
            Panel.objects.filter(tasks=task).update(tasks_planned=F("tasks_planned") - 1)
    _move(by_panel)
    for panel, moved in by_panel.items():
        Panel.objects.filter(pk=panel).update(tasks_planned=F("tasks_planned") + len(moved))


def _move(by_panel: Mapping[int, Sequence[int]]) -> None:
    """The tasks to their panels; they count as requeued, because some cursors may be beyond them."""
    for panel, tasks in by_panel.items():
        for start in range(0, len(tasks), CHUNK):
            Task.objects.filter(pk__in=tasks[start : start + CHUNK]).update(panel=panel, requeued=True)


@dataclass
class _Office:
    """Finds substitutes, with the loads and the shared counts of the plan as it stands."""

    overlap: int
    without: int
    members: list[Membership]
    panels: dict[int, Members]
    load: Counter[int]
    shared: Counter[tuple[int, int]]
    had: Callable[[int], set[int]]  # the people who had a task before

    @classmethod
    def of(cls, batch: Batch, tasks: Sequence[int], *, without: int) -> _Office:
        people: dict[int, list[int]] = defaultdict(list)
        for panel, member in (
            Panel.objects.filter(batch=batch).order_by("pk", "members").values_list("pk", "members")
        ):
            people[panel].append(member)
        load: Counter[int] = Counter()
        shared: Counter[tuple[int, int]] = Counter()
        for pk, planned in Panel.objects.filter(batch=batch).values_list("pk", "tasks_planned"):
            for one in people[pk]:
                load[one] += planned
                shared.update({(one, other): planned for other in people[pk] if other != one})
        had: dict[int, set[int]] = defaultdict(set)
        for task, person in Assignment.objects.filter(task__in=tasks).values_list("task", "person"):
            had[task].add(person)
        return cls(
            overlap=batch.overlap,
            without=without,
            members=working_members(batch, Membership.Role.ANNOTATOR),
            panels={pk: tuple(ids) for pk, ids in people.items()},
            load=load,
            shared=shared,
            had=lambda task: had[task],
        )

    def substitute(self, task: Task) -> Members | None:
        """The members of the task's new panel; None where nobody else may take it."""
        stay = [one for one in self.panels[task.panel_id or 0] if one != self.without]
        free = [
            one.pk
            for one in may_take(self.members, task.stratum)
            if one.pk not in stay and one.pk != self.without and one.person_id not in self.had(task.pk)
        ]
        if not free:
            return None
        chosen = min(
            free, key=lambda one: (self.load[one], sum(self.shared[one, other] for other in stay), one)
        )
        self.load[chosen] += 1
        self.load[self.without] -= 1
        for other in stay:
            self.shared.update({(chosen, other): 1, (other, chosen): 1})
            self.shared.subtract({(self.without, other): 1, (other, self.without): 1})
        return tuple(sorted([*stay, chosen]))


def plan_for_whom_nobody_is_left(batch: Batch) -> int:
    """Plan again what nobody of its panel may take any more, now that somebody joined or may take more.

    The number of tasks that found somebody. The memberships must be locked.
    """
    if batch.pairing == Batch.Pairing.POOL or batch.state == Batch.State.DRAFT:
        return 0
    found = 0
    for need in needs(batch, limit=MOST_AT_ONCE):
        if need.role == Membership.Role.ANNOTATOR:
            task = Task.objects.select_for_update(of=("self",)).select_related("stratum").get(pk=need.task.pk)
            found += _fill(batch, task)
    return found


def _fill(batch: Batch, task: Task) -> bool:
    """A panel of those who had the task and as many new people as it has free places, or as there are."""
    had = set(
        Assignment.objects.filter(task=task, state__in=["claimed", "submitted"]).values_list(
            "person", flat=True
        )
    )
    barred = set(Assignment.objects.filter(task=task).values_list("person", flat=True))
    office = _Office.of(batch, [task.pk], without=0)
    stay = [one.pk for one in Membership.objects.filter(batch=batch, role="annotator", person__in=had)]
    able = [one.pk for one in may_take(office.members, task.stratum) if one.person_id not in barred]
    able.sort(key=lambda one: (office.load[one], sum(office.shared[one, other] for other in stay), one))
    chosen = able[: task.overlap - len(stay)]
    if chosen:
        assign_panel(task, panel_of(batch, [*stay, *chosen]))
    return bool(chosen)
