"""How long the audit trail takes with a million events: its page by each filter, its file, a sealing, a verification.

    python -m tests.performance.million_events --database postgres://HOST/NAME [--events 1000000]

The events are of five years, of 200 people and 20 studies; one in a thousand opens the results of a batch.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.performance.annotate_loop import world
from tests.performance.many_studies import read_processor_seconds

EVENTS = 1_000_000
TIMES = 5
FILL = """
INSERT INTO annotation_auditevent (at, actor_id, verb, target, data, study_id, address, agent)
SELECT now() - interval '5 years' + n * (interval '5 years' / %(events)s), %(person)s + n %% 200,
    CASE WHEN n %% 1000 = 0 THEN 'open_results' WHEN n %% 3 = 0 THEN 'adjudicate' WHEN n %% 3 = 1 THEN 'sign_in'
        ELSE 'set_languages' END,
    CASE WHEN n %% 1000 = 0 THEN 'batch:b' || n %% 7 WHEN n %% 3 = 0 THEN 'task:' || n ELSE 'person:p' || n %% 200 END,
    jsonb_build_object('number', n, 'languages', jsonb_build_array('zh', 'en')),
    CASE WHEN n %% 3 = 1 THEN NULL ELSE %(study)s + n %% 20 END, '203.0.113.' || n %% 250,
    'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
FROM generate_series(1, %(events)s) n
"""
QUERIES = (
    "",
    "?before={middle}",
    "?person=p7",
    "?verb=open_results",
    "?verb=open_results&kind=batch&key=b3",
    "?category=reading",
    "?category=campaigns",
    "?kind=batch",
    "?key=p9",
    "?since=2024-01-01&until=2024-01-02",
    "?person=p7&verb=open_results",
    "?study={study}&verb=open_results",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--database", required=True)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--replace", action="store_true")
    options = parser.parse_args()
    with world.database(options.database, replace=options.replace, keep=False):
        measure(options.events)


def measure(events: int) -> None:
    from django.db import connection
    from django.test import Client

    from annotation.models import AuditEvent, Person, Study, StudyMembership
    from annotation.selectors.audit.chain import verify_trail
    from annotation.services.audit.chain import seal_events

    studies = Study.objects.bulk_create(Study(name=f"study-{n}") for n in range(20))
    people = Person.objects.bulk_create(Person(username=f"p{n}", password="!") for n in range(200))
    root = Person.objects.create_superuser("root")
    manager = Person.objects.create(username="manager")
    StudyMembership.objects.create(person=manager, study=studies[3], role="manager")
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"events": events, "person": people[0].pk, "study": studies[0].pk})
        cursor.execute("ANALYZE annotation_auditevent")
    middle = AuditEvent.objects.order_by("id")[events // 2].pk
    for reader in (root, manager):
        client = Client(SERVER_NAME="localhost")
        client.force_login(reader)
        for query in QUERIES:
            address = "/audit/" + query.format(middle=middle, study=studies[3].pk)
            print(f"{reader} {address}: {median(partial(fetch, client, address))}")
    client = Client(SERVER_NAME="localhost")
    client.force_login(root)
    print(f"file of all: {take(lambda: drain(client, '/audit/file.jsonl'))}")
    print(f"first sealing: {take(seal_events)}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE annotation_auditseal")
    for _round in range(2):
        print(f"recording 1000 events: {take(lambda: write(root))}")
        print(f"sealing them: {take(seal_events)}; none: {take(seal_events)}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = take(lambda: print("problems:", verify_trail().problems))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"verifying: {seconds}, {grown:.0f} MB more memory")


def write(actor: Any) -> None:
    from annotation.domain.verbs import AnnotationVerb
    from annotation.services.audit import record

    for _number in range(1000):
        record(actor=actor, verb=AnnotationVerb.SIGN_IN, target="person:root")


def fetch(client: Any, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200, answer.status_code


def drain(client: Any, address: str) -> None:
    for _part in client.get(address).streaming_content:
        pass


def take(act: Callable[[], object]) -> str:
    """How long it takes on the clock, and of the processor, of this process and of the database's for it."""
    from django.db import connection

    begin, used = time.perf_counter(), read_processor_seconds(connection)
    act()
    clock, processor = time.perf_counter() - begin, read_processor_seconds(connection) - used
    return f"{clock:.2f} s ({processor:.2f} s of the processor)"


def median(act: Callable[[], object]) -> str:
    from django.db import connection

    act()
    times = []
    for _round in range(TIMES):
        begin, used = time.perf_counter(), read_processor_seconds(connection)
        act()
        times.append((time.perf_counter() - begin, read_processor_seconds(connection) - used))
    clock, processor = (1000 * statistics.median(column) for column in zip(*times, strict=True))
    return f"{clock:.0f} ms ({processor:.0f} ms of the processor)"


if __name__ == "__main__":
    main()
