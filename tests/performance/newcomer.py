"""From an empty folder to a site that answers over TLS: the steps of README's Production section, each with its time.

    python -m tests.performance.newcomer [--cold]

On a machine of its own (tests/installing.py), as root. Debian's packages are there already, so their two lines say how
long apt takes to see that; ``--cold`` has pip fetch everything anew.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from tests.installing import HOST, Machine, copy_code, machine, read_steps, start_packaged

TRACE = "PS4='=> $EPOCHREALTIME '; set -x\n"
WIDTH = 100


def follow(site: Machine, *, cold: bool) -> list[tuple[str, float]]:
    """Each command that the shell has traced, and the time until the next one."""
    environment = {"PIP_NO_CACHE_DIR": "1"} if cold else {}
    process = site.run(TRACE + read_steps() + "\n: served", inside=False, **environment)
    assert process.returncode == 0, process.stderr
    traced = re.findall(r"^=> (\d+\.\d+) (.*)$", process.stderr, re.MULTILINE)
    return [(command, float(until) - float(since)) for (since, command), (until, _next) in pairwise(traced)]


def wait_for_page(site: Machine) -> float:
    start = time.monotonic()
    page = f"curl --fail --silent --cacert /etc/ssl/assay/fullchain.pem https://{HOST}/sign-in/"
    while site.run(page).returncode:
        time.sleep(0.2)
    return time.monotonic() - start


def measure_memory(site: Machine) -> list[tuple[str, float]]:
    """Proportional set sizes in MB, of each service with the processes that it has made."""
    sizes = []
    for service in ("web", "worker", "beat"):
        script = (
            f"first=$(cat /run/assay-{service}.pid); for p in $first $(pgrep -P $first); do"
            " awk '/^Pss:/ { print $2 }' /proc/$p/smaps_rollup; done"
        )
        sizes.append((service, sum(int(size) for size in site.must(script).split()) / 1024))
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cold", action="store_true")
    cold = parser.parse_args().cold
    with tempfile.TemporaryDirectory() as folder, machine(Path(folder)) as site:
        copy_code(site.disk / "opt" / "assay")
        start_packaged(site, durable=True)
        steps = follow(site, cold=cold)
        steps.append(("the first page over TLS", wait_for_page(site)))
        for command, seconds in steps:
            if seconds >= 0.5:
                print(f"| `{command[:WIDTH]}` | {seconds:.1f} |")
        print(f"| all {len(steps)} | {sum(seconds for _command, seconds in steps):.1f} |\n")
        for service, size in measure_memory(site):
            print(f"| {service} | {size:.0f} |")


if __name__ == "__main__":
    main()
