"""Labels of ``seeded_faults.simulate`` in the database: a batch of the product's making, its labels written in bulk."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from annotation.domain.assignments.eligibility import ADJUDICATION_SLOT
from annotation.domain.batch_spec import BatchSpec, Policy
from tests.performance.million import ADJUDICATION, ANNOTATION, ASSIGNMENT, GOLD, JUDGE_PLACE, load
from tests.performance.seeded_faults import Simulated
from tests.support import XSTEST_GUIDELINE

BATCH = "simulated"
CRITERION = "compliance"
# A Monday; five days of work follow each other, then two without.
START = datetime(2026, 3, 2, tzinfo=UTC)
WEEK = 5
MODELS = 5


@dataclass(frozen=True)
class Floor:
    """The batch with its people (0 and up in the simulation) and its tasks in their order."""

    batch: Any
    people: tuple[Any, ...]
    judge: Any
    manager: Any
    tasks: tuple[int, ...]
    strata: dict[int, int]


def make_floor(*, people: int = 12, tasks: int = 2400) -> Floor:
    """Through the product's own services: people, guideline, a batch in ``balanced`` with its plan."""
    from annotation.models import Batch, Guideline, Task
    from annotation.services.batches.batches import create_batch
    from annotation.services.people.people import add_person

    annotators = tuple(add_person(name=f"person{n:02}", roles=["annotator"]) for n in range(people))
    judge, manager = add_person(name="judge", roles=["adjudicator"]), add_person(name="ma", roles=["manager"])
    guideline = Guideline.objects.filter(name="xstest").first() or XSTEST_GUIDELINE.load()
    batch = create_batch(
        BatchSpec(
            name=BATCH,
            guideline=guideline,
            dataset=_dataset(tasks),
            annotators=annotators,
            adjudicators=[judge],
            policy=Policy(pairing=Batch.Pairing.BALANCED),
        )
    )
    rows = Task.objects.filter(batch=batch).order_by("position").values_list("pk", "stratum_id")
    strata = dict(rows)
    return Floor(batch, annotators, judge, manager, tuple(strata), strata)


def _dataset(tasks: int) -> Any:
    from annotation.domain.datasets import response_sha256
    from annotation.models import Collection, Dataset, EvaluatedModel, Prompt, Response
    from annotation.services.studies import find_or_make_study

    dataset = Dataset.objects.create(study=find_or_make_study(), name="simulated")
    collection, _made = Collection.objects.get_or_create(name="")
    models = [EvaluatedModel.objects.create(name=f"Model-{letter}") for letter in "ABCDE"]
    prompts = Prompt.objects.bulk_create(
        Prompt(
            dataset=dataset,
            key=f"p{number}",
            text=f"What would you say to question {number}?",
            dimension=("safe", "unsafe")[number % 2],
            language="en",
        )
        for number in range(-(-tasks // MODELS))
    )
    texts = [f"This is what a model says to it, in version {number}." for number in range(tasks)]
    Response.objects.bulk_create(
        Response(
            prompt=prompts[number // MODELS],
            model=models[number % MODELS],
            collection=collection,
            text=text,
            sha256=response_sha256(text, []),
        )
        for number, text in enumerate(texts)
    )
    return dataset


def write(floor: Floor, simulated: Simulated) -> None:
    """All labels with their times, the disputes decided, the gold, and what is counted along."""
    from annotation.models import Stratum, Task

    writer = _Writer(floor, simulated)
    load("annotation_assignment", ASSIGNMENT, writer.assignments())
    load("annotation_annotation", ANNOTATION, writer.annotations())
    load("annotation_adjudication", ADJUDICATION, writer.adjudications())
    load("annotation_goldlabel", GOLD, writer.gold())
    disputed = [floor.tasks[unit] for unit in np.flatnonzero(writer.decided)]
    Task.objects.filter(batch=floor.batch).update(state=Task.State.AGREED, slots_taken=2)
    for start in range(0, len(disputed), 500):
        Task.objects.filter(pk__in=disputed[start : start + 500]).update(state=Task.State.ADJUDICATED)
    decided = set(disputed)
    counts = Counter((stratum, task in decided) for task, stratum in floor.strata.items())
    for stratum in Stratum.objects.filter(batch=floor.batch):
        agreed, adjudicated = counts[stratum.pk, False], counts[stratum.pk, True]
        Stratum.objects.filter(pk=stratum.pk).update(
            open=0, agreed=agreed, adjudicated=adjudicated, submitted=2 * (agreed + adjudicated)
        )


class _Writer:
    def __init__(self, floor: Floor, simulated: Simulated) -> None:
        labels = simulated.labels
        self.floor = floor
        self.order = np.lexsort((np.arange(len(labels.unit)), labels.unit))
        self.labels = labels
        self.decided = np.zeros(len(floor.tasks), dtype=bool)
        self.decided[labels.unit] = labels.adjudicated
        self.value = np.full(len(floor.tasks), np.nan)
        self.value[labels.unit] = labels.gold
        self.last = np.zeros(len(floor.tasks))
        np.maximum.at(self.last, labels.unit, labels.day)

    def _rows(self) -> Iterator[tuple[int, int, int]]:
        """Of each label its row, its unit, and its slot."""
        slots: Counter[int] = Counter()
        for row in self.order:
            unit = int(self.labels.unit[row])
            yield int(row), unit, slots[unit]
            slots[unit] += 1

    def assignments(self) -> Iterator[tuple[Any, ...]]:
        for row, unit, slot in self._rows():
            person = self.floor.people[int(self.labels.person[row])]
            yield self._assignment(unit, slot, person, moment(self.labels.day[row]))
        for unit in np.flatnonzero(self.decided):
            yield self._assignment(int(unit), JUDGE_PLACE, self.floor.judge, self._end(int(unit)))

    def _assignment(self, unit: int, place: int, person: Any, at: datetime) -> tuple[Any, ...]:
        slot = ADJUDICATION_SLOT if place == JUDGE_PLACE else place
        keys = (claim(unit, place), self.floor.batch.pk, self.floor.tasks[unit], person.pk)
        return (*keys, slot, "submitted", at - timedelta(minutes=1), at + timedelta(hours=1), at, "")

    def annotations(self) -> Iterator[tuple[Any, ...]]:
        for row, unit, slot in self._rows():
            receipt, at = claim(unit, slot + 8), moment(self.labels.day[row])
            seconds = float(self.labels.seconds[row])
            labels = labels_json(self.labels.value[row])
            known = None if np.isnan(seconds) else seconds
            content = (labels, "", "[]", "[]", known, "", receipt, str(receipt), "", at)
            yield (claim(unit, slot), 1, True, *content)

    def adjudications(self) -> Iterator[tuple[Any, ...]]:
        for number, unit in enumerate(np.flatnonzero(self.decided)):
            receipt = claim(int(unit), 15)
            content = (
                labels_json(self.value[unit]),
                None,
                "",
                30.0,
                receipt,
                str(receipt),
                "",
                self._end(int(unit)),
            )
            yield (number + 1, self.floor.tasks[unit], claim(int(unit), JUDGE_PLACE), *content)

    def gold(self) -> Iterator[tuple[Any, ...]]:
        for unit, task in enumerate(self.floor.tasks):
            source = "adjudicated" if self.decided[unit] else "unanimous"
            if not np.isnan(self.value[unit]):
                yield task, CRITERION, float(self.value[unit]), source, self._end(unit)

    def _end(self, unit: int) -> datetime:
        return moment(float(self.last[unit])) + timedelta(hours=2)


def moment(day: float) -> datetime:
    """Of a day of work, counted from 0, its hour."""
    day_number = int(day)
    return START + timedelta(
        days=7 * (day_number // WEEK) + day_number % WEEK, seconds=int((day - day_number) * 80_000)
    )


def labels_json(value: float) -> str:
    return json.dumps({CRITERION: int(value)})


def claim(unit: int, place: int) -> UUID:
    return UUID(int=random.Random(unit * 16 + place).getrandbits(128), version=4)
