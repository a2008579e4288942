"""Labels go in by COPY and prepared rows, with what was checked before known: the rows are those of the plain replay,
which makes each of them by the ORM, checks each label and reads each response with its own query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from annotation.domain.formats import Source
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    GoldLabel,
    ImportedLabel,
    MemberCounts,
    Response,
    Stratum,
    Task,
)
from annotation.selectors import imports as lookups
from annotation.services.batches import batches
from annotation.services.imports import ImportRequest, Run, import_annotations, replay
from tests.support import XSTEST_GUIDELINE, examples, small_dataset

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

UNTOLD = {"id", "batch_id", "claimed_at", "lease_expires", "settled_at", "receipt"}
"""What the time and chance of an import decide, and the ids of its own rows."""


def write_plainly(objects: Sequence[Model]) -> None:
    if objects:
        type(objects[0])._default_manager.bulk_create(objects)


def write_plain_rows(model: type[Model], names: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    model._default_manager.bulk_create([model(**dict(zip(names, row, strict=True))) for row in rows])


def read_plainly(ids: set[int], *, texts: bool) -> dict[int, Response]:
    return Response.objects.select_related("prompt", "model", "collection").in_bulk(ids)


def replay_plainly(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "write_objects", write_plainly)
    patch.setattr(replay, "write_rows", write_plain_rows)
    patch.setattr(replay, "MAX_CHECKED", 0)
    patch.setattr(batches, "write_objects", write_plainly)
    patch.setattr(lookups, "_read_responses", read_plainly)


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
        return tuple(str(problem).replace(batch, "BATCH") for problem in getattr(error, "problems", [error]))
    return (
        report.imported,
        report.already_there,
        report.made.get("tasks"),
        tuple(map(str, report.list_notes())),
    )


def compare(source: Source, **options: Any) -> dict[str, list[Any]]:
    """What the file became, the same both ways; nothing of a file that is refused, by the same words."""
    now = datetime.now(UTC)
    with pytest.MonkeyPatch.context() as patch:
        replay_plainly(patch)
        expected = take(source, "plain", **options)
    assert take(source, "quick", **options) == expected
    if not Batch.objects.filter(name="quick").exists():
        return {}
    described = describe("quick", now)
    assert described == describe("plain", now)
    return described


@pytest.mark.parametrize("model", ["gpt4", "llama2new"])
def test_xstest_becomes_the_rows_of_the_plain_replay(shared: Path, model: str):
    path = shared / "xstest" / f"xstest_v2_completions_{model}.csv"
    rows = compare(Source(path, path.name), form="xstest")
    # Each of 450 responses has two annotations; whoever settles some is an adjudicator.
    assert len(rows["annotations"]) == 900
    assert len(rows["gold"]) == 450
    assert rows["decisions"]
    assert {row["channel"] for row in rows["annotations"]} == {"import"}


ANNOTATORS, ADJUDICATORS = ("ann", "ben", "cleo"), ("dora", "emil")
VALUES: st.SearchStrategy[Any] = st.sampled_from([1, 2, 3, 1, 2, 3, 2.0, 9, True, "2", [1], None])
RATIONALES = st.sampled_from(["", "因为\t\\N\n“so”", "a\\tb"])
RECORDS = st.fixed_dictionaries(
    {
        "prompt_id": st.sampled_from(["p0", "p1", "p2", "p9"]),
        "model": st.sampled_from(["Secretive-7B", "Hidden-13B"]),
        "labels": st.fixed_dictionaries({"compliance": VALUES}),
    },
    optional={"rationale": RATIONALES, "seconds": st.sampled_from([0, 1.5, 2])},
)
PEOPLE = st.one_of(
    st.sampled_from(ANNOTATORS).map(lambda name: {"annotator": name}),
    st.sampled_from(ADJUDICATORS).map(lambda name: {"adjudicator": name}),
)
FILES = st.lists(
    st.builds(lambda record, person: {**record, **person}, RECORDS, PEOPLE), min_size=1, max_size=14
)
GOOD = st.builds(
    lambda values, decided: [
        *(
            {"prompt_id": f"p{n}", "model": "Hidden-13B", "annotator": name, "labels": {"compliance": value}}
            for n, pair in enumerate(values)
            for name, value in zip(ANNOTATORS, pair, strict=False)
        ),
        *(
            {"prompt_id": f"p{n}", "model": "Hidden-13B", "adjudicator": "dora", "labels": {"compliance": 2}}
            for n, pair in enumerate(values)
            if pair[0] != pair[1] and decided
        ),
    ],
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4),
    st.booleans(),
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.one_of(FILES, GOOD))
def test_any_file_becomes_the_rows_of_the_plain_replay_or_is_refused_in_its_words(
    tmp_path_factory: pytest.TempPathFactory, db: None, records: list[Mapping[str, Any]]
):
    path = tmp_path_factory.mktemp("labels") / "labels.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    with transaction.atomic():
        XSTEST_GUIDELINE.load()
        small_dataset()
        compare(Source(path, path.name), form="jsonl", problems=100, guideline="xstest", dataset="small")
        transaction.set_rollback(True)
