"""Fill the database of this process with a large site at work. Runs on the code of BASE, and on no other.

    python fill.py ANNOTATIONS FACTS.json

A settled batch of so many annotations by the old code's own maker, of which a tenth were imported, with repeat
adjudications, a release, a scorer and its predictions, events of the audit trail; and an open batch. What is needed to
go on with it goes to FACTS.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from annotation.models import AuditEvent, Batch, Dataset, GoldRelease, Import, Person  # noqa: E402
from annotation.services.batches import create_batch  # noqa: E402
from annotation.services.people import add_person  # noqa: E402
from scoring.models import Scorer  # noqa: E402
from tests.benchmarks.million import BATCH, OVERLAP, Maker  # noqa: E402

GUIDELINE = "fixtures/guidelines/flames.yaml"
RELEASE = "million-1"
OPEN_TASKS = 2000
FILE = "ab" * 32
"""The sha256 of the file that labels were imported from."""
EVENTS_TO_A_LABEL = 0.5
IMPORTED = (
    "UPDATE annotation_annotation SET idempotency_key = 'import:' || %s || ':' || id WHERE id %% 10 = 0"
)
READINGS = """
INSERT INTO annotation_secondreading
    (id, batch_id, task_id, person_id, state, due_at, claimed_at, lease_expires, labels, rationale, seconds, receipt,
     idempotency_key, body_sha256, submitted_at)
SELECT gen_random_uuid(), t.batch_id, t.id, %s, 'submitted', now(), now(), now(), j.labels, '', 20, gen_random_uuid(),
    'repeat', '', now()
FROM annotation_adjudication j JOIN annotation_task t ON t.id = j.task_id WHERE t.id %% 20 = 0
"""
PREDICTIONS = """
INSERT INTO scoring_prediction (scorer_id, response_id, criterion, value, probabilities, fold, created_at)
SELECT %s, t.response_id, g.criterion, g.value, '{"1": 0.1, "2": 0.2, "3": 0.7}', t.prompt_id %% 5, now()
FROM annotation_goldlabel g JOIN annotation_task t ON t.id = g.task_id
"""
EVENTS = """
INSERT INTO annotation_auditevent (at, actor_id, verb, target, data)
SELECT timestamptz '2026-03-02 08:00Z' + n * interval '20 seconds', %s,
    (ARRAY['adjudicate', 'sign_in', 'request_correction'])[1 + n %% 3],
    CASE n %% 3 WHEN 1 THEN 'person:ma' ELSE 'task:' || (1 + n %% %s) END,
    CASE n %% 3 WHEN 1 THEN '{"address": "192.0.2.7", "agent": "Firefox"}'::jsonb ELSE '{}'::jsonb END
FROM generate_series(1, %s) n
"""


def main(annotations: int, facts: Path) -> None:
    maker = Maker(labels=annotations // OVERLAP, guideline=GUIDELINE, seed=0, say=report)
    maker.make()
    people = {
        name: add_person(name=name, roles=roles)
        for name, roles in (
            ("ma", ["manager", "researcher"]),
            ("lin", ["annotator"]),
            ("chen", ["annotator"]),
            ("wu", ["adjudicator"]),
        )
    }
    import_tenth()
    report("cutting a release")
    call_command("release_gold", RELEASE, "--batches", BATCH)
    release = GoldRelease.objects.get(name=RELEASE)
    report("writing repeat adjudications, predictions and events")
    scorer = Scorer.objects.create(
        name="million", guideline=maker.guideline, release=release, backbone="ngram", ready_at=timezone.now()
    )
    judge = Person.objects.get(username="judge")
    with connection.cursor() as cursor:
        cursor.execute(READINGS, [judge.pk])
        cursor.execute(PREDICTIONS, [scorer.pk])
        cursor.execute(EVENTS, [people["ma"].pk, release.labels, int(annotations * EVENTS_TO_A_LABEL)])
    make_open_batch(maker.guideline, people)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    content = {"batch": BATCH, "open": "open", "release": RELEASE, "sha256": release.sha256}
    facts.write_text(json.dumps(content | {"labels": release.labels, "annotator": "lin", "manager": "ma"}))


def import_tenth() -> None:
    with connection.cursor() as cursor:
        cursor.execute(IMPORTED, [FILE])
        number = cursor.rowcount
    options, event = {"batch": BATCH}, {"sha256": FILE, "taken": number}
    Import.objects.create(
        kind="annotations",
        format="jsonl",
        file_name="labels.jsonl",
        sha256=FILE,
        options=options,
        report={"taken": number},
    )
    AuditEvent.objects.create(verb="import_annotations", target=f"batch:{BATCH}", data=event)


def make_open_batch(guideline: Any, people: dict[str, Person]) -> None:
    responses = range(1, min(OPEN_TASKS, Batch.objects.get(name=BATCH).tasks.count()) + 1)
    create_batch(
        name="open",
        guideline=guideline,
        dataset=Dataset.objects.get(name="million"),
        among=list(responses),
        annotators=[people["lin"], people["chen"]],
        adjudicators=[people["wu"]],
    )


def report(text: str) -> None:
    print(f"{timezone.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
