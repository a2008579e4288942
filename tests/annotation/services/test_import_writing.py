"""Labels go in by COPY and prepared rows, beside the process, with what was checked before known: the rows are those of
the plain replay, which makes each of them by the ORM, checks each label and reads each response with its own query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self
from uuid import RFC_4122, UUID, uuid4

import pytest
from django.core.management import call_command
from django.db import transaction
from django.db.models import Model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from annotation.core.sql import DRAWN_IDS, Write, draw_ids, write_rows
from annotation.domain.formats import PromptRef, Source
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    GoldLabel,
    ImportedLabel,
    MemberCounts,
    Prompt,
    Response,
    Stratum,
    Task,
)
from annotation.models.sql.imports import ImportTask, StoredClaim, StoredDecision, StoredRevision
from annotation.selectors import imports as lookups
from annotation.selectors.imports import ResponseName, lock_tasks
from annotation.services.batches import batches
from annotation.services.imports import (
    ImportRequest,
    Run,
    annotations,
    answers,
    import_annotations,
    places,
    replay,
    run,
)
from annotation.services.imports.places import TaskReference, TaskSlots
from tests.support import XSTEST_GUIDELINE, examples, small_dataset

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

UNTOLD = {"id", "batch_id", "claimed_at", "lease_expires", "settled_at", "receipt"}
"""What the time and chance of an import decide, and the ids of its own rows."""


class PlainWrite:
    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run

    def run(self, _cursor: Any) -> None:
        self._run()


class PlainWrites:
    """Carries each block out when it is added, in the thread of the test."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, block: Sequence[Write]) -> None:
        for write in block:
            write.run(None)

    def reads_ahead(self) -> AbstractContextManager[None]:
        return nullcontext()


class PlainTaskSlots(TaskSlots):
    """Reads every task again with each chunk."""

    def load(self, records: Sequence[TaskReference]) -> None:
        self._places = {}
        super().load(records)


def write_plain_rows(
    model: type[Model],
    names: Iterable[str],
    rows: Iterable[Sequence[Any]],
    constants: Mapping[str, Any] = {},  # read only
) -> None:
    model._default_manager.bulk_create(
        [model(**constants, **dict(zip(names, row, strict=True))) for row in rows]
    )


def build_plain_rows(*rows: Any) -> list[Write]:
    return [PlainWrite(lambda: write_plain_rows(*rows))]


def lock_plainly(
    batch: Batch, datasets: Sequence[int], pairs: Sequence[tuple[str, str]], *, is_new: bool
) -> list[ImportTask]:
    tasks = Task.objects.filter(
        batch=batch,
        kind=Task.Kind.WORK,
        prompt__dataset__in=datasets,
        prompt__key__in=[key for key, _model in pairs],
    )
    return [
        ImportTask(
            pk=task.pk,
            stratum=task.stratum_id,
            state=task.state,
            overlap=task.overlap,
            slots_taken=task.slots_taken,
            response=task.response_id,
            prompt_key=task.response.prompt.key,
            dimension=task.response.prompt.dimension,
            subcomponent=task.response.prompt.subcomponent,
            model=task.response.model.name,
            collection=task.response.collection.name,
        )
        for task in tasks.order_by("pk")
        if (task.response.prompt.key, task.response.model.name) in pairs
    ]


def fetch_claims_plainly(tasks: Sequence[int]) -> list[StoredClaim]:
    return [
        StoredClaim(claim.pk.hex, claim.task_id, claim.person_id, claim.slot, claim.state, claim.skip_reason)
        for claim in Assignment.objects.filter(task__in=tasks)
    ]


def fetch_revisions_plainly(claims: Sequence[str]) -> list[StoredRevision]:
    annotations = Annotation.objects.filter(assignment__in=claims).order_by("assignment", "revision")
    return [
        StoredRevision(
            annotation.assignment_id.hex,
            annotation.labels,
            annotation.idempotency_key,
            annotation.texts,
        )
        for annotation in annotations
    ]


def fetch_decisions_plainly(tasks: Sequence[int]) -> list[StoredDecision]:
    return [
        StoredDecision(
            decision.task_id, decision.assignment_id.hex, decision.labels, decision.idempotency_key
        )
        for decision in Adjudication.objects.filter(task__in=tasks)
    ]


def build_plain_update(tasks: Sequence[int], values: Mapping[str, Any]) -> Write:
    return PlainWrite(lambda: [Task.objects.filter(pk=pk).update(**values) for pk in tasks])


def claim_plainly(_model: type[Model], pk: str, values: Mapping[str, Any]) -> Write:
    return PlainWrite(lambda: Assignment.objects.filter(pk=pk).update(**values))


def draw_plainly() -> Iterator[str]:
    while True:
        yield uuid4().hex


def replay_plainly(patch: pytest.MonkeyPatch, *, records: int) -> None:
    """So many records at a time, each decided by what the database says of the ones before them."""
    patch.setattr(run, "LABEL_CHUNK", records)
    patch.setattr(annotations, "WriteBehind", PlainWrites)
    patch.setattr(annotations, "TaskSlots", PlainTaskSlots)
    patch.setattr(places, "MAX_AWAITED", 0)
    patch.setattr(replay, "MAX_SETTLED", 0)
    patch.setattr(answers, "MAX_CHECKED", 0)
    patch.setattr(replay, "draw_ids", draw_plainly)
    patch.setattr(replay, "build_rows", build_plain_rows)
    patch.setattr(replay, "build_tasks_update", build_plain_update)
    patch.setattr(replay, "update", claim_plainly)
    patch.setattr(batches, "write_rows", write_plain_rows)
    patch.setattr(lookups, "lock_import_tasks", lock_plainly)
    patch.setattr(places, "fetch_stored_claims", fetch_claims_plainly)
    patch.setattr(places, "fetch_stored_revisions", fetch_revisions_plainly)
    patch.setattr(places, "fetch_stored_decisions", fetch_decisions_plainly)


def list_rows(model: type[Model], batch: Batch, path: str, **names: str) -> list[Any]:
    """The rows of the batch, each as its columns; ids of rows that differ give way to what ``names`` says."""
    columns = {
        field.attname: names.get(field.attname, field.attname)
        for field in model._meta.concrete_fields
        if field.attname not in UNTOLD
    }
    rows = model._default_manager.filter(**{path: batch}).order_by().values_list(*columns.values())
    listed = [dict(zip(columns, row, strict=True)) for row in rows]
    return sorted(listed, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def describe(name: str, now: datetime) -> dict[str, list[Any]]:
    """Everything that an import wrote into the batch, but for when it did."""
    batch = Batch.objects.get(name=name)
    task, place = {"task_id": "task__response"}, {"assignment_id": "assignment__task__response"}
    stratum = {"stratum_id": "stratum__model__name"}
    tables = {
        "tasks": list_rows(Task, batch, "batch", **stratum),
        "claims": list_rows(Assignment, batch, "batch", **task),
        "annotations": list_rows(Annotation, batch, "assignment__batch", **place),
        "decisions": list_rows(Adjudication, batch, "task__batch", **task, **place),
        "gold": list_rows(GoldLabel, batch, "task__batch", **task),
        "origins": list_rows(ImportedLabel, batch, "assignment__batch", **place, source_id="source__sha256"),
        "strata": list_rows(Stratum, batch, "batch"),
        "counts": list_rows(
            MemberCounts, batch, "membership__batch", membership_id="membership__person__username", **stratum
        ),
    }
    for rows in tables.values():
        for row in rows:
            for column, value in row.items():
                if isinstance(value, datetime) and value >= now:
                    row[column] = "now"
    return tables


def take(source: Source, batch: str, *, form: str, problems: int = 1, **request: Any) -> tuple[Any, ...]:
    """The report, or what is wrong with the file."""
    target = ImportRequest(batch=batch, **request)
    try:
        with transaction.atomic():
            report = import_annotations(
                source=source, format=form, request=target, run=Run(most_problems=problems)
            )
    except AssayError as error:
        # A chunk is read before it is replayed, so that the order tells how large chunks are.
        problems = getattr(error, "problems", [error])
        return tuple(sorted(str(problem).replace(batch, "BATCH") for problem in problems))
    return (
        report.imported,
        report.already_there,
        report.made.get("tasks"),
        tuple(map(str, report.list_notes())),
    )


def compare(
    source: Source, *, at_once: int, chunk: int, awaited: int = places.MAX_AWAITED, **options: Any
) -> dict[str, list[Any]]:
    """What the file became, the same both ways; nothing of a file that is refused, by the same words.

    The plain replay takes ``at_once`` records at a time, the other one ``chunk``, and it keeps so many tasks in memory
    that are ``awaited``.
    """
    now = datetime.now(UTC)
    with pytest.MonkeyPatch.context() as patch:
        replay_plainly(patch, records=at_once)
        expected = take(source, "plain", **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "LABEL_CHUNK", chunk)
        patch.setattr(places, "MAX_AWAITED", awaited)
        assert take(source, "quick", **options) == expected
    if not Batch.objects.filter(name="quick").exists():
        return {}
    described = describe("quick", now)
    assert described == describe("plain", now)
    return described


@pytest.mark.parametrize("model", ["gpt4", "llama2new"])
def test_xstest_becomes_the_rows_of_the_plain_replay(shared: Path, model: str):
    path = shared / "xstest" / f"xstest_v2_completions_{model}.csv"
    # Odd numbers, so that the annotations of some responses and their decision stand in different chunks.
    rows = compare(Source(path, path.name), at_once=7, chunk=13, form="xstest")
    # Each of 450 responses has two annotations; whoever settles some is an adjudicator.
    assert len(rows["annotations"]) == 900
    assert len(rows["gold"]) == 450
    assert rows["decisions"]
    assert {row["channel"] for row in rows["annotations"]} == {"import"}


ANNOTATORS, ADJUDICATORS = ("ann", "ben", "cleo"), ("dora", "emil")
VALUES: st.SearchStrategy[Any] = st.sampled_from([1, 2, 3, 1, 2, 3, 2.0, 9, True, "2", [1], None])
RATIONALES = st.sampled_from(["", "因为\t\\N\n“so”", "a\\tb"])
PROMPTS = st.one_of(
    st.sampled_from(["p0", "p1", "p2", "p9"]).map(lambda key: {"prompt_id": key}),
    st.integers(0, 2).map(lambda number: {"prompt": f"Question number {number}?"}),
)
RECORDS = st.builds(
    lambda prompt, record: prompt | record,
    PROMPTS,
    st.fixed_dictionaries(
        {
            "model": st.sampled_from(["Secretive-7B", "Hidden-13B"]),
            "labels": st.fixed_dictionaries({"compliance": VALUES}),
        },
        optional={"rationale": RATIONALES, "seconds": st.sampled_from([0, 1.5, 2])},
    ),
)
PEOPLE = st.one_of(
    st.sampled_from(ANNOTATORS).map(lambda name: {"annotator": name}),
    st.sampled_from(ADJUDICATORS).map(lambda name: {"adjudicator": name}),
)
FILES = st.lists(
    st.builds(lambda record, person: {**record, **person}, RECORDS, PEOPLE), min_size=1, max_size=14
)


def list_labels(
    values: Sequence[tuple[int, int]], *, is_decided: bool, texts: Sequence[str]
) -> list[dict[str, Any]]:
    """Two people's labels of each prompt, and where they differ a decision. Who is in ``texts`` names no ids."""
    records = [
        {"annotator": name, "labels": {"compliance": value}, "prompt": n}
        for n, pair in enumerate(values)
        for name, value in zip(ANNOTATORS, pair, strict=False)
    ]
    if is_decided:
        records += [
            {"adjudicator": "dora", "labels": {"compliance": 2}, "prompt": n}
            for n, (first, second) in enumerate(values)
            if first != second
        ]
    for record in records:
        n = record.pop("prompt")
        by_text = record.get("annotator") in texts
        record.update({"prompt": f"Question number {n}?"} if by_text else {"prompt_id": f"p{n}"})
    return [{"model": "Hidden-13B", **record} for record in records]


def sort_by_person(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: (record.get("annotator", "~"), record.get("prompt_id", "")))


GOOD = st.builds(
    list_labels,
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4),
    is_decided=st.booleans(),
    texts=st.sampled_from([(), ("ben",), ANNOTATORS]),
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    records=st.one_of(FILES, GOOD, GOOD.map(sort_by_person)),
    chunk=st.sampled_from([1, 2, 3, 4, 1000]),
    awaited=st.sampled_from([0, 1, 2, places.MAX_AWAITED]),
)
def test_any_file_becomes_the_rows_of_the_plain_replay_or_is_refused_in_its_words(
    tmp_path_factory: pytest.TempPathFactory,
    db: None,
    records: list[Mapping[str, Any]],
    chunk: int,
    awaited: int,
):
    path = tmp_path_factory.mktemp("labels") / "labels.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    with transaction.atomic():
        XSTEST_GUIDELINE.load()
        small_dataset()
        source = Source(path, path.name)
        target = {"guideline": "xstest", "dataset": "small"}
        compare(source, at_once=1, chunk=chunk, awaited=awaited, form="jsonl", problems=100, **target)
        transaction.set_rollback(True)


def test_only_the_responses_that_a_chunk_speaks_of_are_looked_up_and_locked(db: None):
    XSTEST_GUIDELINE.load()
    dataset = small_dataset()
    call_command("create_batch", "b", "--guideline", "xstest", "--dataset", "small", "--draft", "--json")
    text = Prompt.objects.get(key="p2").text
    refs = {
        ResponseName(ref.key, bool(ref.id), model, None): ref
        for ref, model in (
            (PromptRef(id="p0"), "Hidden-13B"),
            (PromptRef(id="p1"), "Secretive-7B"),
            (PromptRef(text=text), "Hidden-13B"),
            (PromptRef(id="p9"), "Hidden-13B"),
        )
    }
    with transaction.atomic():
        tasks = lock_tasks(Batch.objects.get(), [dataset], refs)
    assert {name: [task.response for task in group] for name, group in tasks.items()} == {
        name: [r.pk for r in Response.objects.filter(prompt__key=key, model__name=name.model)]
        for name, key in zip(refs, ("p0", "p1", "p2", "p9"), strict=True)
    }
    assert [len(group) for group in tasks.values()] == [1, 1, 1, 0]


def test_ids_are_uuids_in_the_order_of_time():
    ids = list(islice(draw_ids(), 3 * DRAWN_IDS))
    assert len(set(ids)) == len(ids)
    for digits in ids:
        drawn = UUID(digits)
        assert (drawn.hex, drawn.version, drawn.variant) == (digits, 7, RFC_4122)
    assert [digits[:12] for digits in ids] == sorted(digits[:12] for digits in ids)


def test_a_row_has_the_models_default_where_nothing_is_stated(db: None):
    """Also of a text that COPY would read as something else, and of a time."""
    at = datetime(2026, 5, 31, 14, 5, 0, 250, UTC)
    write_rows(
        AuditEvent,
        ("verb", "target", "data"),
        [("a", "t\\N\t\n\r", {"说": [1, None]}), ("b", "", {})],
        {"at": at},
    )
    events = AuditEvent.objects.filter(at=at).order_by("verb")
    assert [(event.verb, event.target, event.data, event.actor) for event in events] == [
        ("a", "t\\N\t\n\r", {"说": [1, None]}, None),
        ("b", "", {}, None),
    ]
