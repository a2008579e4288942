"""How surely the faults of annotators are found: seeded into simulated labels, looked for by
``annotation.domain.quality``.

    python -m tests.performance.seeded_faults
    python -m tests.performance.seeded_faults --seeds 20 --table

The plan is the product's own: ``balanced``, overlap 2, as ``services/planning.py`` asks ``allotment.py`` for it. What
people do on it is invented. Every person works through their tasks in the plan's order, as many each day.

The model of an honest label. A task has a true level, drawn by ``SHARES``, and an ambiguity, which is log-normal; a
person has a bias and a carelessness. The label is the level nearest to

    truth + bias + ambiguity * carelessness * noise,    noise standard normal, ends of the scale included

so an error goes to a neighbour nearly always, and ambiguous tasks carry most of the errors. Biases and carelessness
differ between people as much as they may without being a fault. Pairs of honest people agree on 75 to 80% of tasks
on average. Where two labels differ, an adjudicator is right 95 times in 100, and else a neighbouring level off.

The faults, each with a dose from 0 to 1 (how often it acts):

random    the label is drawn by the shares of all labels (or, ``uniformly``, each level alike)
strict    one level lower, where there is a lower one
drift     from day ten on, one level higher, where there is one; ``gradual``: rising from 0 on day ten to the dose on
          the last; ``careless``: a random label instead of a higher one
copying   the label of the partner, on the tasks shared with one partner
hasty     done in a quarter of the time it would take
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from annotation.domain.assignments.plan import plan_allotments
from annotation.domain.quality import Finding, Labels, LabelScale, Profile, Profiles, build_profiles

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Fault: TypeAlias = Literal["random", "strict", "drift", "copying", "hasty"]

LEVELS = 3
SHARES = (0.20, 0.25, 0.55)
AMBIGUITY = (-0.95, 0.55)  # of the logarithm: mean, standard deviation
CARELESSNESS = 0.15  # standard deviation of the logarithm, between people
BIAS = 0.05  # standard deviation in levels, between people
ADJUDICATOR_RIGHT = 0.95
DAYS = 20
NOBODY = -1
TURN = 10.0  # the day after which somebody drifts
FAULTS: tuple[Fault, ...] = ("random", "strict", "drift", "copying")


@dataclass(frozen=True)
class Faults:
    """The doses; 0 is none."""

    random: float = 0.0
    strict: float = 0.0
    drift: float = 0.0
    copying: float = 0.0
    hasty: float = 0.0
    uniformly: bool = False
    gradual: bool = False
    careless: bool = False


NONE = Faults()
ALL = Faults(random=1.0, strict=1.0, drift=1.0, copying=1.0)


@dataclass(frozen=True)
class Simulated:
    """``labels``: a row for each seat of a task, the tasks in the plan's order. culprits: who carries which fault.
    copied: whose labels the copier takes. truth (T,) counts levels from 0.
    """

    labels: Labels
    culprits: Mapping[Fault, int]
    copied: int | None
    truth: Ints = field(repr=False)


def simulate(
    seed: int,
    *,
    faults: Faults = ALL,
    people: int = 12,
    tasks: int = 2400,
    overlap: int = 2,
    shares: Sequence[float] = SHARES,
) -> Simulated:
    """One batch of work. People are 0 to people - 1, units are tasks 0 to tasks - 1, levels are 1, 2, 3.

    Different people have different faults; where there are too few people, some faults are nobody's.
    """
    random = np.random.default_rng(seed)
    blocks = _plan(people, tasks, overlap, seed)
    person = blocks.ravel()
    unit = np.repeat(np.arange(tasks), overlap)
    day = _days(person, random)
    cast = np.concatenate([random.permutation(people), np.full(len(_PLACES) + 1, NOBODY)])
    truth = random.choice(LEVELS, size=tasks, p=shares)
    honest = _honest(truth, person, unit, people, random)
    level = _with_faults(honest, person, day, faults, cast, random)
    level = _copied(level, blocks, faults, cast, random)
    adjudicated, gold = _settled(level.reshape(blocks.shape), truth, random)
    labels = Labels(
        person=person,
        unit=unit,
        value=(level + 1).astype(np.float64),
        scale=np.zeros(len(unit), dtype=np.int64),
        day=day,
        seconds=_seconds(person, unit, people, tasks, faults, cast, random),
        gold=np.repeat(gold + 1.0, overlap),
        adjudicated=np.repeat(adjudicated, overlap),
        scales={0: LabelScale((1.0, 2.0, 3.0))},
    )
    culprits = {
        name: int(cast[place])
        for place, name in _PLACES.items()
        if getattr(faults, name) > 0 and cast[place + (name == "copying")] != NOBODY
    }
    return Simulated(labels, culprits, int(cast[4]) if "copying" in culprits else None, truth)


_PLACES: Mapping[int, Fault] = {0: "random", 1: "strict", 2: "drift", 3: "copying", 5: "hasty"}


def _plan(people: int, tasks: int, overlap: int, seed: int) -> Ints:
    """(tasks, overlap): whose each task is."""
    everybody = tuple(range(people))
    plans = plan_allotments(
        tasks={"all": tasks}, eligible={"all": everybody}, pairs=None, overlap=overlap, seed=seed
    )
    return np.array(list(plans[0].blocks()), dtype=np.int64)


def _days(person: Ints, random: np.random.Generator) -> Floats:
    """When each label is given: each person's first at the beginning of the batch and the last at its end."""
    day = np.empty(len(person))
    for worker in np.unique(person):
        own = np.flatnonzero(person == worker)
        day[own] = (np.arange(len(own)) + random.random(len(own))) * DAYS / len(own)
    return day


def _honest(truth: Ints, person: Ints, unit: Ints, people: int, random: np.random.Generator) -> Ints:
    ambiguity = random.lognormal(*AMBIGUITY, size=len(truth))
    bias = random.normal(0, BIAS, people)
    carelessness = random.lognormal(0, CARELESSNESS, people)
    noise = ambiguity[unit] * carelessness[person] * random.standard_normal(len(unit))
    return _level(truth[unit] + bias[person] + noise)


def _level(latent: Floats) -> Ints:
    return np.clip(np.rint(latent), 0, LEVELS - 1).astype(np.int64)


def _with_faults(
    honest: Ints, person: Ints, day: Floats, faults: Faults, cast: Ints, random: np.random.Generator
) -> Ints:
    level = honest.copy()
    drawn = random.permutation(honest) if not faults.uniformly else random.integers(0, LEVELS, len(honest))
    acts = random.random(len(honest))
    guessed = (person == cast[0]) & (acts < faults.random)
    level[guessed] = drawn[guessed]
    lowered = (person == cast[1]) & (acts < faults.strict)
    level[lowered] = np.maximum(level[lowered] - 1, 0)
    since = (
        np.clip((day - TURN) / (DAYS - TURN), 0, 1) if faults.gradual else (day >= TURN).astype(np.float64)
    )
    turned = (person == cast[2]) & (acts < faults.drift * since)
    level[turned] = drawn[turned] if faults.careless else np.minimum(level[turned] + 1, LEVELS - 1)
    return level


def _copied(level: Ints, blocks: Ints, faults: Faults, cast: Ints, random: np.random.Generator) -> Ints:
    table = level.reshape(blocks.shape).copy()
    copier, source = cast[3], cast[4]
    acts = random.random(len(table)) < faults.copying
    for own, other in permutations(range(blocks.shape[1]), 2):
        shared = (blocks[:, own] == copier) & (blocks[:, other] == source) & acts
        table[shared, own] = table[shared, other]
    return table.ravel()


def _settled(table: Ints, truth: Ints, random: np.random.Generator) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Which tasks an adjudicator decided, and what every task was settled as."""
    differ = (table != table[:, :1]).any(axis=1)
    step = np.where(truth == 0, 1, np.where(truth == LEVELS - 1, -1, random.choice([-1, 1], len(truth))))
    decided = np.where(random.random(len(truth)) < ADJUDICATOR_RIGHT, truth, truth + step)
    return differ, np.where(differ, decided, table[:, 0]).astype(np.float64)


def _seconds(
    person: Ints, unit: Ints, people: int, tasks: int, faults: Faults, cast: Ints, random: np.random.Generator
) -> Floats:
    """About 20 seconds: longer for long texts and slow people."""
    pace = random.normal(0, 0.25, people)
    if faults.hasty and cast[5] != NOBODY:
        pace[cast[5]] -= faults.hasty * np.log(4)
    length = random.normal(0, 0.3, tasks)
    logarithm = np.log(20) + pace[person] + length[unit] + random.normal(0, 0.5, len(unit))
    return np.round(np.exp(logarithm), 1)


# What is found of it

FIGURES: Mapping[Fault, str] = {
    "random": "random",
    "strict": "severity",
    "drift": "drift",
    "hasty": "speed",
}


@dataclass(frozen=True)
class DetectedFaults:
    """Of one seed: the faults whose culprit ranks first (the copying pair: whose pair does), those also flagged, and
    what else was flagged, by person's figure or ``copying``. Of whom carries a fault all figures count as rightly
    flagged, and so do pairs with them in it: a drifting annotator is severe, too.
    """

    first: frozenset[Fault]
    flagged: frozenset[Fault]
    falsely: tuple[str, ...]


def detect_faults(simulated: Simulated, result: Profiles) -> DetectedFaults:
    first, flagged = set(), set()
    for fault, figure in FIGURES.items():
        culprit = simulated.culprits.get(fault)
        if culprit is not None:
            scores = {
                person: _find_finding(profile, figure).score for person, profile in result.people.items()
            }
            known = {person: score for person, score in scores.items() if score is not None}
            if known and max(known, key=lambda person: known[person]) == culprit:
                first.add(fault)
            if _find_finding(result.people[culprit], figure).flagged:
                flagged.add(fault)
    pairs = [({pair.first, pair.second}, pair.flagged) for pair in result.copying]
    pair = {simulated.culprits.get("copying"), simulated.copied}
    if pairs and pairs[0][0] == pair:
        first.add("copying")
    if (pair, True) in pairs:
        flagged.add("copying")
    return DetectedFaults(frozenset(first), frozenset(flagged), tuple(_list_false_flags(simulated, result)))


def _list_false_flags(simulated: Simulated, result: Profiles) -> Iterator[str]:
    guilty = set(simulated.culprits.values())
    for person, profile in result.people.items():
        if person not in guilty:
            yield from (name for name in FIGURES.values() if _find_finding(profile, name).flagged)
    for pair in result.copying:
        if pair.flagged and not {pair.first, pair.second} & guilty:
            yield "copying"


def _find_finding(profile: Profile, figure: str) -> Finding:
    finding: Finding = getattr(profile, figure)
    return finding


@dataclass(frozen=True)
class Summary:
    """Over all seeds: how often the culprit ranks first, how often both first and flagged, how often anybody else is
    flagged at all, and for what; and the milliseconds that ``profiles`` took (median).
    """

    seeds: int
    first: Mapping[str, int]
    detected: Mapping[str, int]
    falsely: int
    reasons: Mapping[str, int]
    milliseconds: float


def run_seed(
    seed: int, *, faults: Faults, people: int = 12, tasks: int = 2400
) -> tuple[DetectedFaults, float]:
    simulated = simulate(seed, faults=faults, people=people, tasks=tasks)
    began = time.perf_counter()
    result = build_profiles(simulated.labels)
    return detect_faults(simulated, result), time.perf_counter() - began


def measure(
    seeds: Sequence[int], *, faults: Faults, people: int = 12, tasks: int = 2400, processes: int = 2
) -> Summary:
    run = partial(run_seed, faults=faults, people=people, tasks=tasks)
    with ProcessPoolExecutor(processes) as pool:
        results = list(pool.map(run, seeds, chunksize=5))
    finds = [result for result, _ in results]
    return Summary(
        seeds=len(finds),
        first=Counter(fault for find in finds for fault in find.first),
        detected=Counter(fault for find in finds for fault in find.first & find.flagged),
        falsely=sum(bool(find.falsely) for find in finds),
        reasons=Counter(reason for find in finds for reason in set(find.falsely)),
        milliseconds=1000 * float(np.median([seconds for _, seconds in results])),
    )


def variants(*, table: bool) -> Iterator[tuple[str, Faults, int]]:
    """Name, faults, tasks."""
    yield "nothing", NONE, 2400
    yield "all four", ALL, 2400
    if not table:
        return
    yield "all four, random uniformly", replace(ALL, uniformly=True), 2400
    yield "all four, drift gradual", replace(ALL, drift=1.0, gradual=True), 2400
    yield "all four, drift careless", replace(ALL, careless=True), 2400
    for dose in (0.6, 0.7, 0.8):
        yield f"random {dose}", Faults(random=dose), 2400
    for dose in (0.2, 0.3, 0.4, 0.5):
        yield f"strict {dose}", Faults(strict=dose), 2400
    for dose in (0.4, 0.5, 0.7, 1.0):
        yield f"drift {dose}", Faults(drift=dose), 2400
    for dose in (0.8, 0.9, 1.0):
        yield f"copying {dose}", Faults(copying=dose), 2400
    yield "hasty 1.0", Faults(hasty=1.0), 2400
    for tasks in (300, 600, 1200, 4800):
        yield f"all four, {tasks} tasks", ALL, tasks
        yield f"nothing, {tasks} tasks", NONE, tasks


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--table", action="store_true", help="smaller faults and other numbers of tasks, too")
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has this in its name")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    seeds = range(options.first, options.first + options.seeds)
    if not options.json:
        print(
            "| seeded | ranked first | first and flagged | anybody else flagged |\n| --- | --- | --- | --- |"
        )
    for name, faults, tasks in variants(table=options.table):
        if options.only not in name:
            continue
        summary = measure(seeds, faults=faults, tasks=tasks, processes=options.processes)
        print(
            json.dumps({"seeded": name, **vars(summary)}) if options.json else _line(name, summary),
            flush=True,
        )


def _line(name: str, summary: Summary) -> str:
    first, both = (
        ", ".join(f"{fault} {counts[fault]}" for fault in (*FAULTS, "hasty") if fault in summary.first) or "-"
        for counts in (summary.first, summary.detected)
    )
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(summary.reasons.items()))
    return f"| {name} | {first} | {both} | {summary.falsely}{f' ({reasons})' if reasons else ''} of {summary.seeds} |"


if __name__ == "__main__":
    main()
