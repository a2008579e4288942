"""How long the quality pages take: of a usual batch, and of a large one.

    python -m tests.performance.quality_page
    python -m tests.performance.quality_page --people 40 --tasks 100000 --database postgres://HOST/NAME

For each page the first time in a process that has read nothing, and the median of the times after it: seconds by the
clock, and in brackets of the processor in this process, which the rest of the machine does not disturb.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from typing import Any

from tests.performance.annotate_loop import world

TIMES = 9
# "Quick" of the pages: a usual batch warm, a large one cold.
WARM, COLD = 0.3, 2.0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with world.database(options.database, replace=options.replace, keep=False):
        from django.conf import settings
        from django.test import Client
        from django.urls import reverse

        from annotation.selectors import quality
        from annotation.selectors.agreement import label_table
        from tests.performance.seeded_faults import ALL, simulate
        from tests.performance.simulated_batch import make_floor, write

        settings.ALLOWED_HOSTS = ["*"]
        floor = make_floor(people=options.people, tasks=options.tasks)
        write(floor, simulate(1, faults=ALL, people=options.people, tasks=options.tasks))
        client = Client()
        client.force_login(floor.manager)
        name, person = floor.batch.name, floor.people[0].username
        page, part = (
            reverse("batch-quality", args=[name]),
            reverse("batch-quality-person", args=[name, person]),
        )
        addresses = {
            "everybody": page,
            "random": f"{page}?show=random",
            "copying": f"{page}?show=copying",
            "adjudicators": f"{page}?show=adjudicators",
            "one person": part,
            "their items": f"{reverse('batch-quality-items', args=[name, person])}?apart=1",
            "all batches": reverse("quality"),
        }
        client.get(reverse("batches"))  # what a process loads once
        times = {}
        for page_name, address in addresses.items():
            label_table.clear_units()
            quality.clear_caches()
            cold = measure_time(client, address)
            warm = [measure_time(client, address) for _time in range(TIMES)]
            times[page_name] = {
                "cold": cold,
                "warm": tuple(
                    statistics.median(measurement[place] for measurement in warm) for place in (0, 1)
                ),
            }
        return times


def measure_time(client: Any, address: str) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    answer = client.get(address)
    took = time.perf_counter() - clock, time.process_time() - processor
    assert answer.status_code == 200, answer.status_code
    return took


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="sqlite", metavar="URL", help="sqlite, or postgres://HOST/NAME")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--people", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=2400)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    times = measure(options)
    if options.json:
        print(json.dumps(times, indent=2))
        return
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} processors, {options.database.split(':')[0]}; "
        f"{options.people} people, {options.tasks:,} tasks, {2 * options.tasks:,} annotations"
    )
    for page_name, page_times in times.items():
        cold, warm = (f"{page_times[name][0]:.3f} s ({page_times[name][1]:.3f})" for name in ("cold", "warm"))
        print(f"{page_name:<14} cold {cold:>18}   warm {warm:>18}")
    print(
        f"wanted: at most {WARM} s warm with 12 people and 2,400 tasks, {COLD} s cold with 200,000 annotations"
    )


if __name__ == "__main__":
    main()
