"""Can an annotator tell gold checks by when their items close? An observer who looks every second, and guesses.

    DATABASE_URL=postgres://HOST/NAME python -m tests.performance.closing_times [--runs 3] [--items 150]

In transactions that are rolled back; the database must be migrated. The services are the real ones and only the clock
is simulated: people work side by side with breaks, a worker looks every 30 seconds, and each person's history is read
whenever something may have changed in it. Of each item the observer has when it was submitted and when it was shown
closed; they are also told when anybody submitted, as a helpful colleague might tell them. Printed is how well that
separates checks from work (area under the curve; 0.5 is chance): the best single sign, and a boosted classifier that
learned from other people's items.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from unittest.mock import patch
from uuid import UUID

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold

if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()

from django.db import transaction
from django.test import override_settings

from annotation.models import Batch, Guideline, Person, Task
from annotation.selectors.annotations.history import CLOSED, HistoryFilter, list_history
from annotation.selectors.gold_questions import derive_seed
from annotation.services.assignments import claim_next_task
from annotation.services.batches.monitoring import watch_batches
from annotation.services.people.people import add_person
from tests.annotation.gold_question_support import make_checked
from tests.support import XSTEST_GUIDELINE, label

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
TICK = 30  # seconds, as the worker's schedule has it
SHARE = 0.1
FOLDS = 4
SIGNS = (
    "seconds since the worker looked",
    "my items that closed in this second",
    "seconds from the closing before",
    "seconds to the closing after",
    "how long it was open",
    "how long, beside its neighbours",
    "seconds since I submitted",
    "seconds since anybody submitted",
)


@dataclass
class Item:
    """One item of one person; times are seconds since the start, ``closed`` as the person's history showed it."""

    person: int
    task: int
    is_check: bool
    submitted: float
    closed: float | None = None


@dataclass
class Run:
    """What was seen of a batch; ``settled``: when the work of each task was really over; ``phase``: when the worker
    looked first.
    """

    phase: float
    items: list[Item] = field(default_factory=list)
    settled: dict[int, float] = field(default_factory=dict)


class Clock:
    """The time of the simulation, in seconds since its start."""

    seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)


@contextmanager
def simulated_clock() -> Iterator[Clock]:
    clock = Clock()
    # Agreement is none of what is looked at here, and measuring it takes the most of a worker's time.
    with (
        patch("django.utils.timezone.now", clock.now),
        patch("annotation.services.batches.monitoring.watch_batch"),
    ):
        yield clock


@contextmanager
def repeatable_draws(batch: Batch) -> Iterator[None]:
    """Checks are drawn by the site's secret and the ids of memberships, which no other database has: here by a fixed
    secret and the place of the member in the batch, else the same seed would give another run each time.
    """
    pks = batch.memberships.order_by("pk").values_list("pk", flat=True)
    places = {pk: place for place, pk in enumerate(pks)}

    def derive_from_place(membership: int) -> str:
        return derive_seed(places[membership])

    with (
        override_settings(SECRET_KEY="a simulation is to be repeated"),
        patch("annotation.selectors.gold_questions.derive_seed", derive_from_place),
        patch("annotation.services.assignments.gold_questions.derive_seed", derive_from_place),
    ):
        yield


def simulate(guideline: Guideline, *, seed: int, people: int, items: int, late: float = 0) -> Run:
    """So many people do so many items each; every second one of them begins ``late`` seconds after the others."""
    chance = random.Random(seed)  # to be repeated
    run = Run(phase=chance.uniform(0, TICK))
    with simulated_clock() as clock:
        crowd = [add_person(name=f"observer{seed}-{number}", roles=["annotator"]) for number in range(people)]
        batch = make_checked(
            guideline,
            annotators=crowd,
            prompts=items * people,
            checks=items,
            check_share=SHARE,
            name=f"observed{seed}",
        )
        with repeatable_draws(batch):
            work_through(run, batch, crowd, clock, chance, items=items, late=late)
        return run


def work_through(
    run: Run,
    batch: Batch,
    crowd: Sequence[Person],
    clock: Clock,
    chance: random.Random,
    *,
    items: int,
    late: float,
) -> None:
    people = len(crowd)
    order = count()
    starts = [chance.uniform(0, 60) + late * (number % 2) for number in range(people)]
    events = [(at + think(chance), next(order), number) for number, at in enumerate(starts)]
    events.append((run.phase, next(order), -1))
    heapq.heapify(events)
    left = [items] * people
    seen: list[dict[UUID, Item]] = [{} for _person in crowd]
    idle = 0
    while any(left) or idle < 10:  # the worker looks some times more when all is done
        clock.seconds, _order, number = heapq.heappop(events)
        if number < 0:
            watch_batches()
            idle += not any(left)
            heapq.heappush(events, (clock.seconds + TICK, next(order), -1))
        elif left[number] and submit_next(batch, crowd[number], seen[number], number, clock, run):
            left[number] -= 1
            heapq.heappush(events, (clock.seconds + think(chance), next(order), number))
        else:
            left[number] = 0
        observe(crowd, seen, clock)


def think(chance: random.Random) -> float:
    """Seconds until the next submission: an item, and now and then a break."""
    pause = chance.uniform(300, 900) if chance.random() < 0.03 else 0
    return chance.lognormvariate(3.2, 0.5) + pause


def submit_next(
    batch: Batch, person: Person, seen: dict[UUID, Item], number: int, clock: Clock, run: Run
) -> bool:
    claim = claim_next_task(batch=batch, person=person)
    if claim is None:
        return False
    label(claim, person, 3)
    item = Item(number, claim.task_id, claim.task.kind == Task.Kind.CHECK, clock.seconds)
    seen[claim.pk] = item
    run.items.append(item)
    if not item.is_check and Task.objects.get(pk=claim.task_id).state != Task.State.OPEN:
        run.settled[claim.task_id] = clock.seconds
    return True


def observe(crowd: Sequence[Person], seen: Sequence[dict[UUID, Item]], clock: Clock) -> None:
    """Everybody looks at what is closed of theirs. Nothing changes between two events, so none is missed."""
    for person, items in zip(crowd, seen, strict=True):
        for pk, _at in list_history(person, HistoryFilter(state=CLOSED)):
            if items[pk].closed is None:
                items[pk].closed = clock.seconds


def with_true_closings(run: Run) -> Run:
    """The same work, shown as the truth is: work closes when its partner submits, and a check at the first look of the
    worker after the work before it.
    """
    items = [Item(item.person, item.task, item.is_check, item.submitted) for item in run.items]
    before: dict[int, float | None] = {}
    for item in items:
        if item.is_check:
            at = before.get(item.person)
            item.closed = None if at is None else next_look(run, max(at, item.submitted))
        else:
            settled = run.settled.get(item.task)
            item.closed = before[item.person] = None if settled is None else max(settled, item.submitted)
    return Run(run.phase, items, run.settled)


def next_look(run: Run, at: float) -> float:
    return run.phase + TICK * ((at - run.phase) // TICK + 1)


def signs(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the observer has of each item that was shown open and then closed (``SIGNS``), whether it was a check, and
    whose it was. What closes as it is submitted has no time of its own.
    """
    anybody = sorted(item.submitted for item in run.items)
    rows, checks, people = [], [], []
    for person in sorted({item.person for item in run.items}):
        own = [item for item in run.items if item.person == person and was_open(item)]
        together = Counter(item.closed for item in own)
        submitted = [item.submitted for item in own]
        lengths = [item.closed - item.submitted for item in own if item.closed is not None]
        for place, item in enumerate(own):
            assert item.closed is not None
            around = [*lengths[max(0, place - 2) : place], *lengths[place + 1 : place + 3]]
            rows.append(
                (
                    (item.closed - run.phase) % TICK,
                    together[item.closed],
                    measure_gap(own, place, place - 1),
                    measure_gap(own, place, place + 1),
                    lengths[place],
                    lengths[place] - float(np.median(around)) if around else np.nan,
                    seconds_since(submitted, item.closed),
                    seconds_since(anybody, item.closed),
                )
            )
            checks.append(item.is_check)
            people.append(person)
    return np.array(rows, dtype=float), np.array(checks), np.array(people)


def was_open(item: Item) -> bool:
    return item.closed is not None and item.closed > item.submitted


def measure_gap(own: Sequence[Item], place: int, other: int) -> float:
    """Seconds from the closing of another item to that of this one."""
    if not 0 <= other < len(own):
        return float("nan")
    own_closing, other_closing = own[place].closed, own[other].closed
    assert own_closing is not None
    assert other_closing is not None
    return abs(own_closing - other_closing)


def seconds_since(times: Sequence[float], at: float) -> float:
    place = bisect_right(times, at)
    return at - times[place - 1] if place else float("nan")


def separations(rows: np.ndarray, checks: np.ndarray, people: np.ndarray) -> dict[str, float]:
    """The area under the curve by each sign alone, whichever way it points, and by all of them together."""
    areas = {}
    for name, column in zip(SIGNS, rows.T, strict=True):
        known = np.nan_to_num(column, nan=float(np.nanmedian(column)))
        area = float(roc_auc_score(checks, known))
        areas[name] = max(area, 1 - area)
    scores = np.zeros(len(checks))
    for train, test in GroupKFold(n_splits=min(FOLDS, len(set(people)))).split(rows, checks, people):
        model = HistGradientBoostingClassifier(max_iter=60, min_samples_leaf=10, random_state=0)
        model.fit(rows[train], checks[train])
        scores[test] = model.predict_proba(rows[test])[:, 1]
    return areas | {"all together": float(roc_auc_score(checks, scores))}


def separations_of(runs: Sequence[Run]) -> dict[str, float]:
    parts = [signs(run) for run in runs]
    people = [100 * number + part[2] for number, part in enumerate(parts)]
    return separations(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate(people),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="batches of each way of working (default 3)")
    parser.add_argument("--items", type=int, default=150, help="of each person (default 150)")
    arguments = parser.parse_args()
    for way, late in (("side by side", 0), ("every second person an hour later", 3600)):
        runs = []
        with transaction.atomic():
            guideline = XSTEST_GUIDELINE.load()
            seeds = range(int(late), int(late) + arguments.runs)
            runs += [
                simulate(guideline, seed=seed, people=4, items=arguments.items, late=late) for seed in seeds
            ]
            transaction.set_rollback(True)
        items = [item for run in runs for item in run.items]
        closed = [item for item in items if was_open(item)]
        print(f"{way}: {len(items)} items, {sum(item.is_check for item in items)} of them checks")
        print(f"  {len(closed)} were open and closed, {sum(item.is_check for item in closed)} of them checks")
        for name, area in separations_of(runs).items():
            print(f"  {area:.2f}  {name}")


if __name__ == "__main__":
    main()
