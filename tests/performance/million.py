"""A settled batch of a million labels, made in a minute or two: what releases and exports are measured on.

The rows are those that the product itself would have written for two annotators and an adjudicator; only the writing
goes past its services, by COPY or by many rows at a time. The same seed gives the same content on every database.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import islice
from typing import Any, TypeAlias
from uuid import UUID

from annotation.domain.assignments.eligibility import ADJUDICATION_SLOT
from tests.performance.annotate_loop import world

BATCH = "million"
DATASET = "million"
OVERLAP = 2
CHUNK = 20_000
MODELS = 5
LANGUAGES = ("zh", "en")
PEOPLE = 20
# Of the tasks: how many the two annotators of a careful project dispute.
DISPUTED = 0.08
START = datetime(2026, 3, 2, 8, tzinfo=UTC)
Row: TypeAlias = Sequence[Any]
Say: TypeAlias = Callable[[str], object]


# By way of a small process: what a process is said to have used at most includes what the one that started it held.
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
sys.exit(code)
"""


@dataclass(frozen=True)
class Used:
    """What a command took: seconds on the wall, seconds of its own processor time, its largest memory in MB."""

    seconds: float
    processor: float
    megabytes: float


def measured(*command: str) -> Used:
    """Run one of the product's commands in a fresh process, on the database that this one uses."""
    began = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, sys.executable, "manage.py", *command],
        cwd=world.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:2])} failed.")
    processor, most = json.loads(process.stdout)
    unit = 1 if sys.platform == "darwin" else 1024
    return Used(time.monotonic() - began, processor, most * unit / 1e6)


@dataclass(frozen=True)
class Item:
    """One task with what was said of it; ``values`` by criterion, of each annotator, and the settled one."""

    number: int
    prompt: int
    model: int
    dimension: str
    criteria: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    settled: tuple[float, ...]
    disputed: bool
    people: tuple[int, int]


class Maker:
    """Fills the database that this process uses; its tables hold nothing of the kind yet."""

    def __init__(
        self,
        *,
        labels: int,
        guideline: str,
        seed: int,
        characters: tuple[int, int] = (world.SHORTEST, world.LONGEST),
        say: Say = print,
    ) -> None:
        from annotation.models import Guideline

        name = world.load_guideline(guideline)
        self.guideline = Guideline.objects.get(name=name.partition("@")[0])
        document = self.guideline.document
        self.dimensions = [
            criterion for criterion in document.dimension_names if document.criteria_for(criterion)
        ] or [""]
        self.criteria = {dimension: document.criteria_for(dimension) for dimension in self.dimensions}
        self.subcomponents = {
            dimension.name: [part.name for part in dimension.subcomponents] or [""]
            for dimension in document.dimensions
        }
        self.labels, self.seed, self.characters, self.say = labels, seed, characters, say

    def make(self) -> None:
        self._people()
        self._corpus()
        self._batch()
        tables: list[tuple[str, Callable[[Item], Iterable[Row]], str]] = [
            ("annotation_task", self._tasks, TASK),
            ("annotation_assignment", self._assignments, ASSIGNMENT),
            ("annotation_annotation", self._annotations, ANNOTATION),
            ("annotation_adjudication", self._adjudications, ADJUDICATION),
            ("annotation_goldlabel", self._gold, GOLD),
        ]
        for table, rows, columns in tables:
            self.say(f"writing {table}")
            load(table, columns, (row for item in self.items() for row in rows(item)))
        self._finish()

    def items(self) -> Iterator[Item]:
        """The same ones each time, prompt by prompt and model by model, until there are labels enough."""
        chance = random.Random(self.seed)
        made = number = 0
        while made < self.labels:
            prompt, model = divmod(number, MODELS)
            dimension = self.dimensions[prompt % len(self.dimensions)]
            criteria = self.criteria[dimension][: self.labels - made]
            yield self._item(number, prompt, model, dimension, criteria, chance)
            made += len(criteria)
            number += 1

    def _item(
        self, number: int, prompt: int, model: int, dimension: str, criteria: Any, chance: random.Random
    ) -> Item:
        settled = tuple(float(chance.choice(criterion.values)) for criterion in criteria)
        disputed = chance.random() < DISPUTED
        other = settled
        if disputed:
            other = tuple(
                float(chance.choice([value for value in criterion.values if value != right]))
                for criterion, right in zip(criteria, settled, strict=True)
            )
        first = number % PEOPLE
        return Item(
            number=number,
            prompt=prompt,
            model=model,
            dimension=dimension,
            criteria=tuple(criterion.name for criterion in criteria),
            values=(settled, other) if chance.random() < 0.5 else (other, settled),
            settled=settled,
            disputed=disputed,
            people=(first, (first + 1 + prompt % (PEOPLE - 1)) % PEOPLE),
        )

    def _people(self) -> None:
        from annotation.services.people.people import add_person

        roles = {**{f"annotator-{n:02}": "annotator" for n in range(PEOPLE)}, "judge": "adjudicator"}
        self.people = [add_person(name=name, roles=[role]).pk for name, role in roles.items()]

    def _corpus(self) -> None:
        from annotation.domain.datasets import response_sha256
        from annotation.models import Collection, Dataset, EvaluatedModel
        from annotation.services.studies import find_or_make_study

        self.dataset = Dataset.objects.create(study=find_or_make_study(), name=DATASET)
        collection, _made = Collection.objects.get_or_create(name="")
        self.models = [EvaluatedModel.objects.create(name=f"Model-{letter}").pk for letter in "ABCDE"]
        texts = world._Texts(random.Random(self.seed), self.characters)
        self.say("writing annotation_prompt")
        load("annotation_prompt", PROMPT, self._prompts(texts))
        self.say("writing annotation_response")

        def responses() -> Iterator[Row]:
            for item in self.items():
                text = texts.response(item.number)
                sha256 = response_sha256(text, [])
                key = (item.number + 1, item.prompt + 1, self.models[item.model], collection.pk)
                yield (*key, text, "[]", sha256, START)

        load("annotation_response", RESPONSE, responses())

    def _prompts(self, texts: world._Texts) -> Iterator[Row]:
        last = -1
        for item in self.items():
            if item.prompt != last:
                last = item.prompt
                parts = self.subcomponents.get(item.dimension, [""])
                subcomponent = parts[last // len(self.dimensions) % len(parts)]
                language = self._language(last)
                key = f"p{last:07}"
                text = texts.prompt(last)
                yield last + 1, self.dataset.pk, key, text, item.dimension, subcomponent, language, None

    def _language(self, prompt: int) -> str:
        return LANGUAGES[prompt // len(self.dimensions) % len(LANGUAGES)]

    def _batch(self) -> None:
        from annotation.models import Batch, Membership
        from annotation.services.studies import find_or_make_study

        self.batch = Batch.objects.create(
            study=find_or_make_study(),
            name=BATCH,
            guideline=self.guideline,
            state=Batch.State.CLOSED,
            overlap=OVERLAP,
        )
        for place, person in enumerate(self.people):
            role = Membership.Role.ANNOTATOR if place < PEOPLE else Membership.Role.ADJUDICATOR
            Membership.objects.create(batch=self.batch, person_id=person, role=role)
        self.strata = self._strata()

    def _strata(self) -> dict[tuple[str, str, int], int]:
        from annotation.models import Stratum

        counts: dict[tuple[str, str, int], list[int]] = {}
        for item in self.items():
            of = counts.setdefault((item.dimension, self._language(item.prompt), item.model), [0, 0])
            of[item.disputed] += 1
        return {
            key: Stratum.objects.create(
                batch=self.batch,
                dataset=self.dataset,
                dimension=key[0],
                language=key[1],
                model_id=self.models[key[2]],
                agreed=agreed,
                adjudicated=adjudicated,
                submitted=OVERLAP * (agreed + adjudicated),
            ).pk
            for key, (agreed, adjudicated) in sorted(counts.items())
        }

    def _tasks(self, item: Item) -> Iterator[Row]:
        stratum = self.strata[item.dimension, self._language(item.prompt), item.model]
        state = "adjudicated" if item.disputed else "agreed"
        place = item.number
        keys = (place + 1, self.batch.pk, place + 1, item.prompt + 1, stratum, None)
        yield (*keys, "work", state, OVERLAP, OVERLAP, 0, place, place, False, _at(item, 3))

    def _assignments(self, item: Item) -> Iterator[Row]:
        for slot, person in enumerate(item.people):
            yield self._assignment(item, slot, self.people[person])
        if item.disputed:
            yield self._assignment(item, JUDGE_PLACE, self.people[-1])

    def _assignment(self, item: Item, place: int, person: int) -> Row:
        keys = (_uuid(item, place), self.batch.pk, item.number + 1, person)
        slot = ADJUDICATION_SLOT if place == JUDGE_PLACE else place
        return (*keys, slot, "submitted", _at(item, 0), _at(item, 9), _at(item, 1), "")

    def _annotations(self, item: Item) -> Iterator[Row]:
        for slot in range(OVERLAP):
            labels = _labels(item, item.values[slot])
            rationale = "" if item.number % 3 else "The response gives a reason, and it holds."
            seconds = 12.0 + item.number % 40
            receipt = _uuid(item, slot + 8)
            content = (labels, rationale, "[]", "[]", seconds, "", receipt, str(receipt), "", _at(item, 1))
            yield (_uuid(item, slot), 1, True, *content)

    def _adjudications(self, item: Item) -> Iterator[Row]:
        if item.disputed:
            receipt = _uuid(item, 15)
            reason = None
            labels = _labels(item, item.settled)
            content = (labels, reason, "", 30.0, receipt, str(receipt), "", _at(item, 2))
            yield (item.number + 1, item.number + 1, _uuid(item, JUDGE_PLACE), *content)

    def _gold(self, item: Item) -> Iterator[Row]:
        source = "adjudicated" if item.disputed else "unanimous"
        for criterion, value in zip(item.criteria, item.settled, strict=True):
            yield item.number + 1, criterion, value, source, _at(item, 3)

    def _finish(self) -> None:
        """What a long-running server has done: sequences beyond the rows, statistics for the planner."""
        from django.core.management.color import no_style
        from django.db import connection

        from annotation.models import Adjudication, Prompt, Response, Task

        with connection.cursor() as cursor:
            for sql in connection.ops.sequence_reset_sql(no_style(), [Prompt, Response, Task, Adjudication]):
                cursor.execute(sql)
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


JUDGE_PLACE = 5
PROMPT = "id, dataset_id, key, text, dimension, subcomponent, language, attack_method"
RESPONSE = "id, prompt_id, model_id, collection_id, text, turns, sha256, created_at"
TASK = (
    "id, batch_id, response_id, prompt_id, stratum_id, panel_id, kind, state, overlap, slots_taken, priority, "
    "position, rank, requeued, settled_at"
)
ASSIGNMENT = (
    "id, batch_id, task_id, person_id, slot, state, claimed_at, lease_expires, submitted_at, skip_reason"
)
ANNOTATION = (
    "assignment_id, revision, current, labels, rationale, evidence, flags, seconds, reason, receipt, "
    "idempotency_key, body_sha256, created_at"
)
ADJUDICATION = (
    "id, task_id, assignment_id, labels, reason_id, rationale, seconds, receipt, idempotency_key, body_sha256, "
    "created_at"
)
GOLD = "task_id, criterion, value, source, created_at"


def _labels(item: Item, values: Sequence[float]) -> str:
    return json.dumps(dict(zip(item.criteria, map(int, values), strict=True)))


def _at(item: Item, hours: int) -> datetime:
    return START + timedelta(seconds=item.number, hours=hours)


def _uuid(item: Item, place: int) -> UUID:
    """In the order of the items, so that an index grows at its end."""
    return UUID(int=(1 << 124) + item.number * 16 + place)


def load(table: str, columns: str, rows: Iterable[Row]) -> None:
    """Write the rows, so many at a time that memory stays small, and SQLite's log as well."""
    from django.db import connection, transaction

    write = _copy if connection.vendor == "postgresql" else _insert
    iterator = iter(rows)
    while part := list(islice(iterator, CHUNK)):
        with transaction.atomic(), connection.cursor() as cursor:
            write(cursor, table, columns, part)


def _copy(cursor: Any, table: str, columns: str, rows: Sequence[Row]) -> None:
    text = StringIO("".join("\t".join(map(_copied, row)) + "\n" for row in rows))
    cursor.copy_expert(f"COPY {table} ({columns}) FROM STDIN", text)


def _copied(value: Any) -> str:
    if value is None:
        return r"\N"
    if isinstance(value, str):
        plain = value.replace("\\", r"\\")
        return plain.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
    return str(value)


def _insert(cursor: Any, table: str, columns: str, rows: Sequence[Row]) -> None:
    places = ", ".join(["%s"] * (columns.count(",") + 1))
    sql = f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608 (names of our own)
    cursor.executemany(sql, [_plain(row) for row in rows])


def _plain(row: Row) -> list[Any]:
    """As Django keeps them in SQLite: a UUID as 32 digits, a time without its zone, which is UTC."""
    return [
        value.hex
        if isinstance(value, UUID)
        else value.replace(tzinfo=None).isoformat(" ")
        if isinstance(value, datetime)
        else value
        for value in row
    ]
