"""A batch's items as its manager finds them: by state, dimension, words of the prompt, or person.

Each way is bounded, however large the batch: what is rare is looked up by an index of its own; for the rest so many
items are looked through at a time, in the order of handing out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.models import Assignment, Batch, Membership, Panel, Person, Prompt, Stratum, Task
from annotation.selectors.counts import STATES, by_member, by_stratum

# Up to so many prompts, or items of a person, are looked up; with more, items are looked through.
RARE = 500
CHUNK = 2000
MOST_LOOKED_THROUGH = 20_000
Row = tuple[int, int]  # rank and id of a task
HELD_NOW, RAN_OUT = CLAIMS = ("held", "expired")
# Of claims so many are looked up, the latest ones.
MOST_CLAIMS = 2000
HELD = Q(state__in=[Assignment.State.CLAIMED, Assignment.State.SUBMITTED])


@dataclass(frozen=True)
class Wanted:
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
class Item:
    """A task with what people did on it, never what they said of it; ``planned`` is empty for everybody."""

    task: Task
    assignments: tuple[Assignment, ...]
    planned: tuple[Membership, ...]


@dataclass(frozen=True)
class Found:
    """One page. ``after`` is where the next begins, None on the last; ``total`` is None where it is not known.

    ``cut`` tells that looking ended before the page was full, because so many items fitted not.
    """

    items: tuple[Item, ...]
    after: int | None
    total: int | None
    cut: bool = False


def find(batch: Batch, wanted: Wanted, *, limit: int, after: int | None = None) -> Found:
    """The first ``limit`` items whose rank is beyond ``after``, in the order of handing out."""
    tasks = Task.objects.filter(batch=batch, kind=Task.Kind.WORK)
    if wanted.dimension is not None:
        strata = Stratum.objects.filter(batch=batch, dimension=wanted.dimension)
        tasks = tasks.filter(stratum__in=list(strata.values_list("pk", flat=True)))
    states = [wanted.state] if wanted.state else list(STATES)
    few = _few(batch, wanted)
    if few is not None:
        fitting = _fitting(wanted, tasks.filter(pk__in=few, state__in=states))
        rows, end = sorted(row for row in fitting if after is None or row[0] > after), None
    elif wanted.counted:
        rows, end = _next(tasks, states, after, limit + 1), None
    else:
        rows, end = _looked_through(tasks, states, wanted, after, limit + 1)
    cut = end is not None and len(rows) <= limit
    return Found(
        items=items([pk for _rank, pk in rows[:limit]]),
        after=end if cut else rows[limit - 1][0] if len(rows) > limit else None,
        total=_total(batch, wanted) if wanted.counted else None,
        cut=cut,
    )


def items(tasks: Sequence[int]) -> tuple[Item, ...]:
    """These tasks, in this order, with who is on them; four queries."""
    rows = Task.objects.filter(pk__in=tasks).select_related("response__prompt", "stratum")
    found = {task.pk: task for task in rows}
    on: dict[int, list[Assignment]] = defaultdict(list)
    assigned = Assignment.objects.filter(task__in=tasks)
    for one in assigned.select_related("person", "imported").order_by("claimed_at"):
        on[one.task_id].append(one)
    planned = _planned({task.panel_id for task in found.values()})
    return tuple(
        Item(found[pk], tuple(on[pk]), tuple(planned[found[pk].panel_id])) for pk in tasks if pk in found
    )


def dimensions_of(batch: Batch) -> list[str]:
    return sorted(
        Stratum.objects.filter(batch=batch, kind=Task.Kind.WORK)
        .order_by()
        .values_list("dimension", flat=True)
        .distinct()
    )


def _few(batch: Batch, wanted: Wanted) -> list[int] | None:
    """The tasks of the claims, of the prompts or of the person, if these are few; None where they are many or not
    asked for.
    """
    if wanted.claim:
        return list(_claims(batch, wanted).values_list("task", flat=True)[:MOST_CLAIMS])
    if wanted.words:
        prompts = _prompts(wanted.words)
        if len(prompts) <= RARE:
            tasks = Task.objects.filter(batch=batch, response__prompt__in=prompts)
            return list(tasks.values_list("pk", flat=True))
    if wanted.person and _done_by(batch, wanted.person) <= RARE:
        return list(_theirs(wanted.person).filter(batch=batch).values_list("task", flat=True))
    return None


def _claims(batch: Batch, wanted: Wanted) -> QuerySet[Assignment]:
    """What is at hand now; or what ran out and was not taken again by the same person, swept away or not yet."""
    claims = Assignment.objects.filter(batch=batch).order_by("-claimed_at")
    if wanted.person:
        claims = claims.filter(person__username=wanted.person)
    now, claimed = timezone.now(), Q(state=Assignment.State.CLAIMED)
    if wanted.claim == HELD_NOW:
        return claims.filter(claimed, lease_expires__gt=now)
    expired = Q(state=Assignment.State.EXPIRED, skip_reason="")
    return claims.filter(expired | (claimed & Q(lease_expires__lte=now)))


def _prompts(words: str) -> list[int]:
    """The prompts of this id, or else those with these words; no more than tells that they are many."""
    prompts = Prompt.objects.order_by().values_list("pk", flat=True)
    found = list(prompts.filter(key=words)[: RARE + 1])
    return found or list(prompts.filter(text__icontains=words)[: RARE + 1])


def _theirs(person: str) -> QuerySet[Assignment]:
    """What the person holds, has labelled or has decided."""
    return Assignment.objects.filter(HELD, person__in=Person.objects.filter(username=person))


def _done_by(batch: Batch, person: str) -> int:
    counts = by_member(batch)
    members = batch.memberships.filter(person__username=person).values_list("pk", flat=True)
    return sum(counts[pk]["submitted"] + counts[pk]["adjudicated"] for pk in members if pk in counts)


def _fitting(wanted: Wanted, tasks: QuerySet[Task]) -> set[Row]:
    """Those of a bounded number of tasks whose prompt has the words and which are the person's."""
    if wanted.words:
        tasks = tasks.filter(Q(prompt__key=wanted.words) | Q(prompt__text__icontains=wanted.words))
    rows = set(tasks.order_by().values_list("rank", "pk"))
    if wanted.person and not wanted.claim:
        theirs = _theirs(wanted.person).filter(task__in=[pk for _rank, pk in rows])
        of_person = set(theirs.values_list("task", flat=True))
        rows = {row for row in rows if row[1] in of_person}
    return rows


def _next(tasks: QuerySet[Task], states: Sequence[str], after: int | None, limit: int) -> list[Row]:
    """The first of them: the first of each state, by the index that has them in order."""
    if after is not None:
        tasks = tasks.filter(rank__gt=after)
    of_state = tasks.order_by("rank").values_list("rank", "pk")
    return sorted(row for state in states for row in of_state.filter(state=state)[:limit])[:limit]


def _looked_through(
    tasks: QuerySet[Task], states: Sequence[str], wanted: Wanted, after: int | None, limit: int
) -> tuple[list[Row], int | None]:
    """The first of those that fit, and the rank of the last one looked at where there are more to look at."""
    found: list[Row] = []
    for _chunk in range(MOST_LOOKED_THROUGH // CHUNK):
        chunk = _next(tasks, states, after, CHUNK)
        fitting = _fitting(wanted, Task.objects.filter(pk__in=[pk for _rank, pk in chunk]))
        found += sorted(fitting)
        if len(chunk) < CHUNK:
            return found[:limit], None
        after = chunk[-1][0]
        if len(found) >= limit:
            break
    return found[:limit], after


def _total(batch: Batch, wanted: Wanted) -> int:
    states = [wanted.state] if wanted.state else STATES
    return sum(
        counts[state]
        for stratum, counts in by_stratum([batch.pk]).items()
        if wanted.dimension in (None, stratum.dimension)
        for state in states
    )


def _planned(panels: set[int | None]) -> dict[int | None, list[Membership]]:
    found: dict[int | None, list[Membership]] = defaultdict(list)
    ids = [pk for pk in panels if pk is not None]
    pairs = list(Panel.objects.filter(pk__in=ids).values_list("pk", "members"))
    members = Membership.objects.select_related("person").in_bulk([member for _panel, member in pairs])
    for panel, member in pairs:
        found[panel].append(members[member])
    for people in found.values():
        people.sort(key=lambda one: one.person.username)
    return found
