"""How long each list takes in a study that has 10,000 rows of each.

    python -m tests.performance.long_lists --database postgres://HOST/NAME

The study has one row of each kind that the product made, and copies of it with other names, half of them archived.
Each list is asked for as it opens, on a page in the middle, by name, by a search that matches a hundredth of the rows,
and of what is archived; a list of what was done in another order, and by a search that matches nothing. The HTML is
ready by then. What the process began with is kept from the garbage collector, as in a web process (config/gunicorn.py).
Beside the time on the clock stands the processor's, as in ``many_studies``.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from typing import Any

from tests.performance.annotate_loop import world
from tests.performance.many_studies import LIMIT, read_processor_seconds, report, sign_in

ROWS = 10_000
LISTS = ("data/", "batches/", "releases/", "scorers/", "runs/")
LISTS += ("runs/-/judges/", "runs/-/published/", "runs/-/multiple-choice/")
LOGS = ("imports/", "runs/-/collection/", "data/-/dialogues/")
QUERIES = ("", "?page=50", "?order=name", "?words=copy-99", "?archived=on")
LOG_QUERIES = ("", "?page=50", "?order=oldest", "?words=nobody")


def make_site(rows: int) -> None:
    from annotation.core.study_scope import limit_to_studies
    from annotation.domain.release_spec import ReleaseSpec
    from annotation.models import MANAGER, RESEARCHER, Batch, Dataset, GoldRelease, Import
    from annotation.services.people.people import add_person
    from annotation.services.releases import cut_release
    from annotation.services.studies import create_study
    from benchmark.models import BenchmarkRun, CollectionRun, DialogueRun, Judge, PublishedTable
    from benchmark.services.judges.judges import create_judge
    from benchmark.services.published_tables import add_published
    from scoring.models import Scorer
    from tests.benchmark.boards import finished_run
    from tests.performance.many_studies import GUIDELINE
    from tests.performance.million import Maker
    from tests.support import FLAMES_GUIDELINE
    from tests.test_everyone_everywhere import make_choice_report

    study = create_study(name="study-00")
    with limit_to_studies([study.pk]):
        add_person(name="manager-00", roles=[MANAGER, RESEARCHER])
        maker = Maker(labels=1000, guideline=GUIDELINE, seed=1, say=report)
        maker.make()
        cut_release(ReleaseSpec(name="gold", batches=[maker.batch]))
        guideline = FLAMES_GUIDELINE.load()
        run = finished_run(guideline, name="board")
        report_of_choices = make_choice_report()
        endpoint = {"endpoint": "http://127.0.0.1:9/v1", "served_model": "m"}
        judge = create_judge(name="judge", guideline=guideline, settings={}, **endpoint)
        numbers = {"model": "M-1", "dimensions": {"Fairness": {}}, "overall": {}, "n": {}}
        add_published(guideline=guideline, dataset=run.dataset, name="T", source="S", rows=[numbers])
        place = {
            "model": report_of_choices.evaluated_models.all()[0],
            "dataset": run.dataset,
            "collection": run.collection,
        }
        for row in (
            Judge.objects.get(pk=judge.pk),
            PublishedTable.objects.get(),
            report_of_choices,
            Import.objects.create(study=study, kind="prompts", format="csv", file_name="prompts.csv"),
            CollectionRun.objects.create(**place, **endpoint),
            DialogueRun.objects.create(
                **place,
                **endpoint,
                name="dialogues",
                agent="agent",
                agent_endpoint="",
                agent_model="",
                rounds=1,
                templates={},
                openings={},
            ),
            Dataset.objects.get(pk=maker.dataset.pk),
            Batch.objects.get(pk=maker.batch.pk),
            GoldRelease.objects.get(name="gold"),
            Scorer.objects.get(pk=run.scorer_id),
            BenchmarkRun.objects.get(pk=run.pk),
        ):
            copy_row(row, rows)
            report(f"{rows:,} {row._meta.verbose_name_plural}")


def copy_row(row: Any, rows: int) -> None:
    from django.utils import timezone

    from annotation.models import Collection
    from benchmark.models.collection import EndpointRun

    model, fields = type(row), [field for field in row._meta.concrete_fields if not field.primary_key]
    values = {field.attname: getattr(row, field.attname) for field in fields}
    batches = list(row.batches.all()) if hasattr(row, "batches") and hasattr(row, "manifest") else []
    names, collections = {field.attname for field in fields}, []
    if issubclass(model, EndpointRun):
        prefix = model._meta.model_name
        collections = Collection.objects.bulk_create(
            [Collection(name=f"{prefix}-{number}") for number in range(rows)], batch_size=500
        )
    copies = []
    for number in range(1, rows):
        own = {"name": f"copy-{number}", "archived_at": timezone.now() if number % 2 else None}
        if issubclass(model, EndpointRun):  # of a model, a dataset and a collection there is one
            own["collection_id"] = collections[number].pk
        copies.append(model(**values | {name: value for name, value in own.items() if name in names}))
    made = model._base_manager.bulk_create(copies, batch_size=500)
    if batches:
        through = model.batches.through
        through.objects.bulk_create(
            [through(goldrelease=copy, batch=batch) for copy in made for batch in batches], batch_size=1000
        )


def measure(address: str, times: int) -> bool:
    """Print how long the address takes; whether it is slower than the limit."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client, took, busy = sign_in("manager", "study-00"), [], []
    client.get(address)  # what a process reads once
    for _repeat in range(times):
        began, began_busy = time.perf_counter(), read_processor_seconds(connection)
        answer = client.get(address)
        took.append(time.perf_counter() - began)
        busy.append(read_processor_seconds(connection) - began_busy)
        assert answer.status_code == 200, (address, answer.status_code)
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    p95, busy_p95 = (statistics.quantiles(seconds, n=20, method="inclusive")[-1] for seconds in (took, busy))
    print(
        f"{address:<48} {1000 * statistics.median(took):>7.0f} {1000 * p95:>7.0f} {1000 * busy_p95:>7.0f}"
        f" {len(queries):>7}",
        flush=True,
    )
    return p95 > LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="sqlite", metavar="URL", help="sqlite or postgres://HOST/NAME")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    with world.database(options.database, replace=options.replace, keep=False):
        from django.conf import settings
        from django.db import connection

        settings.ALLOWED_HOSTS = ["*"]
        make_site(options.rows)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        print(f"load of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        print(f"{'':<48} {'median':>7} {'p95':>7} {'cpu p95':>7} {'queries':>7}   ms")
        pages = [page + query for page in LISTS for query in QUERIES]
        pages += [page + query for page in LOGS for query in LOG_QUERIES]
        addresses = [f"/s/study-00/{page}" for page in pages]
        for page in LISTS + LOGS:
            sign_in("manager", "study-00").get(f"/s/study-00/{page}")
        gc.collect()
        gc.freeze()
        slow = sum([measure(address, options.times) for address in addresses])
    print(f"{slow} of {len(addresses)} over {1000 * LIMIT:.0f} ms at the 95th percentile")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
