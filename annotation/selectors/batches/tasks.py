"""A batch's items as its manager finds them.

Items are found by state, dimension, words of the prompt, or person. Each search is bounded, however large the batch:
what is rare is looked up by an index of its own; the rest is scanned in the order of assignment, some items at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.models import (
    Assignment,
    Batch,
    Membership,
    Panel,
    Person,
    Prompt,
    Stratum,
    Task,
)
from annotation.selectors.counts import STATES, count_by_member, count_by_stratum

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
