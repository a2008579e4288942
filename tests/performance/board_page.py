"""How long the page of a run takes, tab by tab: of 50 models, 2,251 prompts and 12 subcomponents.

    python -m tests.performance.board_page --database postgres://HOST/NAME
    python -m tests.performance.board_page --database postgres://HOST/NAME --use   # made by --keep before

The board, its pairs, groups and estimates are computed by the product from invented responses and kept as a run keeps
them. For each tab: the first time in a process that has read nothing, the median and the longest of the times after
it, the queries and the bytes. The HTML is ready by then; charts are images, which a browser fetches later.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.performance.annotate_loop import world

WARM = 0.3  # seconds: "It must show" of issue 7
MODELS, PROMPTS = 50, 2251
TABS = {
    "board": "",
    "board, the other metric": "?metric=harmless_score",
    "pairs": "?view=pairs",
    "pairs of a dimension, a model": "?view=pairs&scope=Legality&model=Claude",
    "groups": "?view=groups",
    "estimates": "?view=estimates",
    "over time": "?view=time",
    "lineage": "?view=lineage",
}
EXPORTS = {"csv": "?format=csv", "json": "?format=json", "latex": "?format=latex", "report": "?format=report"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", required=True, metavar="URL", help="postgres://HOST/NAME, or sqlite")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--keep", action="store_true", help="keep the database")
    parser.add_argument("--use", action="store_true", help="measure a database that --keep left")
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--times", type=int, default=15, help="how often each tab is asked for")
    return parser.parse_args()


@contextmanager
def database(options: argparse.Namespace) -> Iterator[None]:
    if options.use:
        os.environ |= {"DATABASE_URL": options.database, "DJANGO_SETTINGS_MODULE": "config.settings"}
        import django

        django.setup()
        yield
        return
    with world.database(options.database, replace=options.replace, keep=options.keep):
        make_runs(options.models, options.prompts)
        yield


def make_runs(models: int, prompts: int) -> None:
    """Three runs, each replacing the one before it, so that there is something over time."""
    from tests.benchmark.boards import finished_run
    from tests.support import FLAMES_GUIDELINE

    guideline, before = FLAMES_GUIDELINE.load(), None
    for at, name in enumerate(("first", "second", "third")):
        report(f"making {name}: {models} models x {prompts} prompts")
        before = finished_run(
            guideline, name=name, models=models, prompts=prompts, seed=at, replaces=before, days_ago=20 - at
        )


def main() -> int:
    options = arguments()
    with database(options):
        from django.conf import settings
        from django.db import connection
        from django.test import Client
        from django.test.utils import CaptureQueriesContext
        from django.urls import reverse

        from annotation.models import Person
        from annotation.services.people.people import add_person

        settings.ALLOWED_HOSTS = ["*"]
        person = Person.objects.filter(username="measurer").first() or add_person(
            name="measurer", roles=["researcher"]
        )
        client = Client(raise_request_exception=True)
        client.force_login(person)
        page = reverse("run", args=["third"])
        addresses = {name: page + query for name, query in TABS.items()}
        addresses |= {"list of boards": reverse("runs")}
        addresses |= {name: reverse("run-export", args=["third"]) + query for name, query in EXPORTS.items()}
        print(f"{'':<30} {'first':>7} {'median':>7} {'longest':>7} {'queries':>7} {'KB':>6}   ms")
        slow = 0
        for name, address in addresses.items():
            took = []
            for _repeat in range(options.times + 1):
                began = time.perf_counter()
                answer = client.get(address)
                content = answer.content
                took.append(time.perf_counter() - began)
                assert answer.status_code == 200, (name, answer.status_code)
            with CaptureQueriesContext(connection) as queries:
                client.get(address)
            middle = statistics.median(took[1:])
            slow += name in TABS and middle > WARM
            print(
                f"{name:<30} {1000 * took[0]:>7.0f} {1000 * middle:>7.0f} {1000 * max(took[1:]):>7.0f} "
                f"{len(queries):>7} {len(content) / 1024:>6.0f}"
            )
    print("all tabs within" if not slow else f"{slow} tabs over", f"{1000 * WARM:.0f} ms")
    return 1 if slow else 0


def report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
