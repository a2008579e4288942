"""How long each list takes in a study that has 10,000 rows of each.

    python -m tests.performance.long_lists --database postgres://HOST/NAME

The study has one row of each kind that the product made, and copies of it with other names, half of them archived.
Each list is asked for as it opens, on a page in the middle, by name, by a search that matches a hundredth of the rows,
and of what is archived. The HTML is ready by then. What the process began with is kept from the garbage collector, as
in a web process (config/gunicorn.py).
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

from tests.performance.annotate_loop import world
from tests.performance.many_studies import LIMIT, report, sign_in

ROWS = 10_000
LISTS = ("data/", "batches/", "releases/", "scorers/", "runs/")
QUERIES = ("", "?page=50", "?order=name", "?words=copy-99", "?archived=on")


def make_site(rows: int) -> None:
    from annotation.core.study_scope import limit_to_studies
    from annotation.domain.release_spec import ReleaseSpec
    from annotation.models import MANAGER, RESEARCHER, Batch, Dataset, GoldRelease
    from annotation.services.people.people import add_person
    from annotation.services.releases import cut_release
    from annotation.services.studies import create_study
    from benchmark.models import BenchmarkRun
    from scoring.models import Scorer
    from tests.benchmark.boards import finished_run
    from tests.performance.many_studies import GUIDELINE
    from tests.performance.million import Maker
    from tests.support import FLAMES_GUIDELINE

    study = create_study(name="study-00")
    with limit_to_studies([study.pk]):
        add_person(name="manager-00", roles=[MANAGER, RESEARCHER])
        maker = Maker(labels=1000, guideline=GUIDELINE, seed=1, say=report)
        maker.make()
        cut_release(ReleaseSpec(name="gold", batches=[maker.batch]))
        run = finished_run(FLAMES_GUIDELINE.load(), name="board")
        for row in (
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

    model, fields = type(row), [field for field in row._meta.concrete_fields if not field.primary_key]
    values = {field.attname: getattr(row, field.attname) for field in fields}
    batches = list(row.batches.all()) if hasattr(row, "batches") and hasattr(row, "manifest") else []
    copies = [
        model(**values | {"name": f"copy-{number}", "archived_at": timezone.now() if number % 2 else None})
        for number in range(1, rows)
    ]
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

    client, took = sign_in("manager", "study-00"), []
    client.get(address)  # what a process reads once
    for _repeat in range(times):
        began = time.perf_counter()
        answer = client.get(address)
        took.append(time.perf_counter() - began)
        assert answer.status_code == 200, (address, answer.status_code)
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    p95 = statistics.quantiles(took, n=20, method="inclusive")[-1]
    print(
        f"{address:<40} {1000 * statistics.median(took):>7.0f} {1000 * p95:>7.0f} {len(queries):>7}",
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
        print(f"{'':<40} {'median':>7} {'p95':>7} {'queries':>7}   ms")
        addresses = [f"/s/study-00/{page}{query}" for page in LISTS for query in QUERIES]
        for page in LISTS:
            sign_in("manager", "study-00").get(f"/s/study-00/{page}")
        gc.collect()
        gc.freeze()
        slow = sum([measure(address, options.times) for address in addresses])
    print(f"{slow} of {len(addresses)} over {1000 * LIMIT:.0f} ms at the 95th percentile")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
