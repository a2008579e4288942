"""What gold checks cost the annotation loop: claims and submissions of one person, in process, on PostgreSQL.

    DATABASE_URL=postgres://HOST/NAME python -m tests.performance.checks_cost [--items 400] [--rounds 3]

In a transaction that is rolled back; the database must be migrated. Shares are measured in turn, so that all of them
meet the same load of the machine. Printed are medians in milliseconds, of items of work and of checks.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.db import transaction  # noqa: E402

from annotation.models import Batch, Person  # noqa: E402
from annotation.services.assignments import claim_next_task  # noqa: E402
from annotation.services.people.people import add_person  # noqa: E402
from tests.annotation.gold_question_support import make_checked  # noqa: E402
from tests.support import XSTEST_GUIDELINE, label  # noqa: E402

SHARES = (0.0, 0.05, 0.2)
Times = dict[tuple[float, str, str], list[float]]


def measure_time(call: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    answer = call()
    return answer, 1000 * (perf_counter() - start)


def work_items(batch: Batch, person: Person, items: int, times: Times) -> None:
    for number in range(items):
        claim, claiming = measure_time(lambda: claim_next_task(batch=batch, person=person))
        _receipt, submitting = measure_time(lambda item=claim: label(item, person, 3))
        if number >= 5:  # by then all is prepared
            times[batch.check_share, claim.task.kind, "claim"].append(claiming)
            times[batch.check_share, claim.task.kind, "submit"].append(submitting)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=400, help="of each share (default 400)")
    parser.add_argument("--rounds", type=int, default=4, help="in which they are taken in turn (default 4)")
    options = parser.parse_args()
    times: Times = defaultdict(list)
    with transaction.atomic():
        people = [add_person(name=f"cost{number}", roles=["annotator"]) for number in range(2)]
        batches = [
            make_checked(
                XSTEST_GUIDELINE.load(),
                annotators=people,
                prompts=options.items,
                checks=options.items // 4 if share else 0,
                check_share=share,
                name=f"cost{share}",
            )
            for share in SHARES
        ]
        for _turn in range(options.rounds):
            for batch in batches:
                work_items(batch, people[0], options.items // options.rounds, times)
        transaction.set_rollback(True)
    print(f"{'share':>6} {'kind':>6} {'claim ms':>9} {'submit ms':>10} {'n':>5}")
    for share, kind in sorted(
        {(share, kind) for share, kind, _step in times},
        key=lambda share_and_kind: (share_and_kind[0], share_and_kind[1] == "check"),
    ):
        claims, submits = times[share, kind, "claim"], times[share, kind, "submit"]
        print(f"{share:>6} {kind:>6} {median(claims):>9.2f} {median(submits):>10.2f} {len(claims):>5}")


if __name__ == "__main__":
    main()
