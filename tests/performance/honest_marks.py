"""How often honest people get a mark: batches in which nobody does anything wrong, as files really are.

    python -m tests.performance.honest_marks
    python -m tests.performance.honest_marks --batches 500 --only sorted

Each row is a design of work, so many batches of it, and in how many of them any person or pair is marked by
``annotation.domain.quality``, with Clopper and Pearson's upper 95% bound of that share. The promise that
docs/quality.md prints is at most one batch in fifty; a row fails where the bound is above four in a hundred.

The model of an honest label is that of ``seeded_faults``: a task has a true level and an ambiguity, a person a bias and
a carelessness; whoever is careless is so on all tasks. Here ambiguity also depends on the type of the item (the
dimension), so that the mean accuracy of a type is what the design says, and, where responses share a prompt, on the
prompt. Types are worked through in the order of the file, one after the other, or mixed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from scipy.special import betaincinv, ndtr

from annotation.domain.quality import Labels, LabelScale, Profiles, build_profiles
from tests.performance.seeded_faults import (
    ADJUDICATOR_RIGHT,
    BIAS,
    CARELESSNESS,
    DAYS,
    SHARES,
    Floats,
    Ints,
    _plan,
)

EASY, HARD = 0.97, 0.70
SPREAD = 0.55
"""Of the logarithm of an item's ambiguity, within its type."""
FALLING = (EASY, 0.916, 0.862, 0.808, 0.754, HARD)
EVEN = (0.86,)
MAX_BOUND = 0.04
FIGURES = ("random", "severity", "drift", "speed")


@dataclass(frozen=True)
class Design:
    """Honest work. ``types``: the accuracy of an honest person on each type of item, in the order of the file.

    order: ``file`` (type after type), ``mixed``, or ``prompts`` (the responses to one prompt one after the other).
    pace: the standard deviation of the share of the batch's time that people take, who begin at once.
    scales: criteria; ``type`` is one for each type of item (as the criteria of Flames), a number so many on every
    task. responses: to a prompt, which share ``correlation`` of the variance of ambiguity. is_typed: whether the file
    names the types. shares: of the true levels, by type where there are several rows.
    """

    name: str
    types: tuple[float, ...] = EVEN
    people: int = 12
    tasks: int = 2400
    overlap: int = 2
    order: str = "file"
    pace: float = 0.0
    scales: str | int = 1
    responses: int = 1
    correlation: float = 0.0
    is_typed: bool = True
    shares: tuple[tuple[float, ...], ...] = (SHARES,)
    whole_days: bool = True
    is_promised: bool = True


MIRRORED = ((0.05, 0.10, 0.85), (0.80, 0.12, 0.08))

DESIGNS = (
    Design("evenly hard items"),
    Design("evenly hard items, 3 people", people=3),
    Design("evenly hard items, 4 people", people=4),
    Design("evenly hard items, 5 people", people=5),
    Design("evenly hard items, 24 people", people=24),
    Design("evenly hard items, 600 tasks", tasks=600),
    Design("three labels an item, 6 people", people=6, overlap=3, tasks=1600),
    Design("types mixed", FALLING, order="mixed"),
    Design("file sorted by type", FALLING),
    Design("file sorted by type, own pace", FALLING, pace=0.15),
    Design("file sorted by type, 3 people", FALLING, people=3, pace=0.15),
    Design("file sorted by type, 4 people", FALLING, people=4, pace=0.15),
    Design("file sorted by type, 5 people", FALLING, people=5, pace=0.15),
    Design("file sorted by type, 24 people", FALLING, people=24, pace=0.15),
    Design("file sorted into two types", (EASY, HARD), pace=0.15),
    Design("two types, other levels each", (0.93, 0.78), shares=MIRRORED, pace=0.15),
    Design("sorted by criterion, own scales", FALLING, scales="type", pace=0.15),
    Design("four criteria an item, 4 people", people=4, tasks=600, scales=4),
    Design("four criteria, sorted by type", FALLING, people=6, tasks=600, scales=4, pace=0.15),
    Design("five responses a prompt", order="prompts", responses=5, correlation=0.7),
    Design(
        "five responses a prompt, sorted", FALLING, order="prompts", responses=5, correlation=0.7, pace=0.15
    ),
    Design("twenty types, sorted", tuple(np.linspace(EASY, HARD, 20)), pace=0.15),
    Design("sorted by types not named", FALLING, is_typed=False, pace=0.15, is_promised=False),
)


@lru_cache(maxsize=256)
def find_ambiguity(accuracy: float, shares: tuple[float, ...]) -> float:
    """The mean of the logarithm of ambiguity at which an honest label is right so often: by bisection."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    weights = weights / weights.sum()
    low, high = -6.0, 4.0
    ends = shares[0] + shares[-1]
    for _ in range(60):
        middle = (low + high) / 2
        within = float(weights @ ndtr(0.5 / np.exp(middle + SPREAD * nodes)))
        right = ends * within + (1 - ends) * (2 * within - 1)
        low, high = (middle, high) if right > accuracy else (low, middle)
    return (low + high) / 2


def simulate_honest(seed: int, design: Design) -> Labels:
    random = np.random.default_rng([seed, len(design.name), sum(map(ord, design.name))])
    blocks = _plan(design.people, design.tasks, design.overlap, seed)
    person = blocks.ravel()
    task = np.repeat(np.arange(design.tasks), design.overlap)
    kind_of = _order_types(design, random)
    criteria = design.scales if isinstance(design.scales, int) else 1
    bias = random.normal(0, BIAS, design.people)
    carelessness = random.lognormal(0, CARELESSNESS, design.people)
    day = _spread_days(person, design, random)
    parts = []
    for criterion in range(criteria):
        truth, ambiguity = _draw_items(design, kind_of, random)
        noise = ambiguity[task] * carelessness[person] * random.standard_normal(len(task))
        level = np.clip(np.rint(truth[task] + bias[person] + noise), 0, 2).astype(np.int64)
        gold, adjudicated = _settle(level.reshape(blocks.shape), truth, random)
        parts.append((task * criteria + criterion, level, gold[task], adjudicated[task]))
    seconds = np.round(
        np.exp(
            np.log(20)
            + random.normal(0, 0.25, design.people)[person]
            + random.normal(0, 0.3, design.tasks)[task]
            + random.normal(0, 0.5, len(task))
        ),
        1,
    )
    scale = kind_of[task] if design.scales == "type" else np.zeros(len(task), dtype=np.int64)
    scales = len(design.types) if design.scales == "type" else criteria
    optional = {"kind": np.tile(kind_of[task], criteria)} if _is_typed(design) else {}
    return Labels(
        person=np.tile(person, criteria),
        unit=np.concatenate([unit for unit, *_ in parts]),
        value=np.concatenate([level for _, level, *_ in parts]) + 1.0,
        scale=scale if criteria == 1 else np.repeat(np.arange(criteria), len(task)),
        day=np.tile(day, criteria),
        seconds=np.concatenate([seconds, np.full(len(task) * (criteria - 1), np.nan)]),
        gold=np.concatenate([gold for _, _, gold, _ in parts]) + 1.0,
        adjudicated=np.concatenate([adjudicated for *_, adjudicated in parts]),
        scales=dict.fromkeys(range(scales), LabelScale((1.0, 2.0, 3.0))),
        task=np.tile(task, criteria),
        **optional,
    )


def _is_typed(design: Design) -> bool:
    return design.is_typed and "kind" in Labels.__dataclass_fields__


def _order_types(design: Design, random: np.random.Generator) -> Ints:
    """(tasks,): the type of each task, in the order of the file."""
    kinds = np.arange(design.tasks) * len(design.types) // design.tasks
    return random.permutation(kinds) if design.order == "mixed" else kinds


def _draw_items(design: Design, kind_of: Ints, random: np.random.Generator) -> tuple[Ints, Floats]:
    """(tasks,), (tasks,): true levels and ambiguity."""
    truth = np.zeros(design.tasks, dtype=np.int64)
    middle = np.zeros(design.tasks)
    for kind, accuracy in enumerate(design.types):
        shares = design.shares[kind % len(design.shares)]
        own = np.flatnonzero(kind_of == kind)
        truth[own] = random.choice(3, size=len(own), p=shares)
        middle[own] = find_ambiguity(accuracy, shares)
    prompt = np.arange(design.tasks) // design.responses
    shared = random.standard_normal(prompt[-1] + 1)[prompt]
    own_part = random.standard_normal(design.tasks)
    deviate = np.sqrt(design.correlation) * shared + np.sqrt(1 - design.correlation) * own_part
    return truth, np.exp(middle + SPREAD * deviate)


def _spread_days(person: Ints, design: Design, random: np.random.Generator) -> Floats:
    """When each label is given: people begin together and take as much of the batch's time as their pace says."""
    day = np.empty(len(person))
    for worker in np.unique(person):
        own = np.flatnonzero(person == worker)
        length = DAYS * np.exp(random.normal(0, design.pace)) if design.pace else DAYS
        day[own] = (np.arange(len(own)) + random.random(len(own))) * length / len(own)
    return np.floor(day) if design.whole_days else day


def _settle(table: Ints, truth: Ints, random: np.random.Generator) -> tuple[Floats, np.ndarray]:
    differ = (table != table[:, :1]).any(axis=1)
    step = np.where(truth == 0, 1, np.where(truth == 2, -1, random.choice([-1, 1], len(truth))))
    decided = np.where(random.random(len(truth)) < ADJUDICATOR_RIGHT, truth, truth + step)
    return np.where(differ, decided, table[:, 0]).astype(np.float64), differ


# What is marked


def list_marks(result: Profiles) -> list[str]:
    marks = [
        figure for profile in result.people.values() for figure in FIGURES if getattr(profile, figure).flagged
    ]
    return [*marks, *("copying" for pair in result.copying if pair.flagged)]


@dataclass(frozen=True)
class Row:
    """Of one design: the batches, how many had a mark, for what, and in how many nobody's drift could be determined."""

    batches: int
    marked: int
    reasons: Mapping[str, int]
    undetermined: int

    @property
    def bound(self) -> float:
        """Clopper and Pearson's upper bound, one-sided 97.5%: the upper end of the 95% interval."""
        if self.marked == self.batches:
            return 1.0
        return float(betaincinv(self.marked + 1, self.batches - self.marked, 0.975))


def run_batch(seed: int, design: Design) -> tuple[list[str], bool]:
    result = build_profiles(simulate_honest(seed, design))
    undetermined = all(profile.drift.value is None for profile in result.people.values())
    return list_marks(result), undetermined


def measure(design: Design, seeds: Sequence[int], processes: int = 1) -> Row:
    run = partial(run_batch, design=design)
    if processes == 1:
        results = list(map(run, seeds))
    else:
        with ProcessPoolExecutor(processes) as pool:
            results = list(pool.map(run, seeds, chunksize=5))
    return Row(
        batches=len(results),
        marked=sum(bool(marks) for marks, _ in results),
        reasons=Counter(reason for marks, _ in results for reason in set(marks)),
        undetermined=sum(undetermined for _, undetermined in results),
    )


def find_designs(text: str) -> Iterator[Design]:
    yield from (design for design in DESIGNS if text in design.name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only designs that have this in their names"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    options = parser.parse_args()
    if not options.json:
        print("| honest work | batches | with a mark | upper 95% bound | for what | drift not determined |")
        print("| --- | --- | --- | --- | --- | --- |")
    for design in find_designs(options.only):
        seeds = range(options.first, options.first + options.batches)
        row = measure(design, seeds, options.processes)
        if options.json:
            print(json.dumps({"design": design.name, **vars(row), "bound": row.bound}), flush=True)
            continue
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(row.reasons.items())) or "-"
        share = f"{row.marked} ({row.marked / row.batches:.1%})"
        name = design.name if design.is_promised else f"{design.name} (not promised)"
        cells = (name, row.batches, share, f"{row.bound:.1%}", reasons, row.undetermined)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
