"""Ask for every address of the product as 26 kinds of people with 6 methods, and count what is answered wrongly.

    python -m tests.performance.access_matrix

Exit code 1: somebody was given what is not theirs, or not given what is, or a refused request wrote something.
"""

from __future__ import annotations

import logging
import sys
import time

from tests.performance.annotate_loop import world as databases


def main() -> int:
    with databases.database("sqlite", replace=False, keep=False):
        from django.conf import settings
        from tqdm import tqdm

        settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "testserver"]
        logging.disable(logging.CRITICAL)
        from tests.access_matrix import METHODS, make_kinds, requests, walk_matrix
        from tests.test_everyone_everywhere import ADDRESSES, make_world

        world = make_world()
        kinds = make_kinds(world)
        began = time.monotonic()
        with tqdm(total=len(list(requests(kinds))), unit="request") as bar:
            outcome = walk_matrix(world, kinds, report=lambda count: bar.update(count - bar.n))
        seconds = time.monotonic() - began
    print(f"{len(ADDRESSES)} addresses, {len(kinds)} kinds of people, {len(METHODS)} methods")
    print(
        f"{outcome.requests} requests in {seconds:.0f} s, answered with",
        dict(sorted(outcome.by_status.items())),
    )
    print("\n".join([*outcome.faults, f"{len(outcome.faults)} wrong"]))
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
