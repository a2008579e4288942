from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from tests.performance.annotate_loop import __doc__ as about
from tests.performance.annotate_loop import stages, world
from tests.performance.annotate_loop.people import WORKERS
from tests.performance.annotate_loop.probe import Probe
from tests.performance.annotate_loop.report import table
from tests.performance.annotate_loop.server import Server

# The address of a database can hold a password; its kind stands in "where".
UNTOLD = {"json", "stage", "database", "begin_with"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.performance.annotate_loop",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--database", default="sqlite", metavar="URL", help="sqlite, or postgres://HOST/NAME")
    common.add_argument("--replace", action="store_true", help="drop a database of that name first")
    common.add_argument(
        "--begin-with", type=Path, metavar="FILE", help="on SQLite: a migrated database without rows, to copy"
    )
    common.add_argument("--keep", action="store_true", help="leave the database and the logs behind")
    common.add_argument("--guideline", default=str(world.ROOT / "fixtures/guidelines/flames.yaml"))
    common.add_argument("--workers", type=int, help="of gunicorn (default 2, on SQLite 1)")
    common.add_argument("--threads", type=int, default=8, help="of each of them (default 8)")
    common.add_argument("--seed", type=int, default=1)
    common.add_argument("--json", action="store_true", help="print JSON, for machines")
    shared = argparse.ArgumentParser(add_help=False, parents=[common])
    shared.add_argument("--annotators", type=int, default=32)
    shared.add_argument("--adjudicators", type=int, default=2, help="so many of them adjudicate too")
    shared.add_argument("--tasks", type=int, default=5000)
    shared.add_argument("--overlap", type=int, default=2)
    shared.add_argument("--pairing", default="pool", choices=["pool", "balanced"])
    shared.add_argument(
        "--via",
        nargs="+",
        default=["api"],
        choices=sorted(WORKERS),
        help="api; pages: the work page as its script uses it; reload: the pages without a script. Of several, each "
        "round takes the next",
    )
    shared.add_argument("--hostile", action="store_true", help="now and then somebody does what is wrong")
    parts = parser.add_subparsers(dest="stage", required=True)
    loop = parts.add_parser("loop", parents=[shared], help="work without end for a while")
    loop.add_argument("--seconds", type=float, default=30)
    loop.add_argument("--warm-up", type=float, default=5, metavar="SECONDS")
    loop.add_argument("--think", type=float, default=0, metavar="SECONDS", help="the mean of a reading time")
    drain = parts.add_parser("drain", parents=[shared], help="work until nothing is left")
    drain.add_argument("--rounds", type=int, default=1, help="each on a batch of its own")
    drain.add_argument("--kill-every", type=float, default=0, metavar="SECONDS", help="kill -9 a web worker")
    probe = parts.add_parser("probe", parents=[common], help="the cost of next in a large batch")
    probe.add_argument("--sizes", type=int, nargs=2, default=[1000, 1_000_000], metavar=("SMALL", "LARGE"))
    probe.add_argument("--samples", type=int, default=200, help="calls of next in each case")
    options = parser.parse_args()
    if options.workers is None:
        options.workers = 1 if options.database == "sqlite" else 2
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with world.database(
        options.database, replace=options.replace, keep=options.keep, begin_with=options.begin_with
    ) as folder:
        guideline = world.load_guideline(options.guideline)
        log = folder / "server.log"
        load = os.getloadavg()[0]
        with Server(workers=options.workers, threads=options.threads, log=log) as server:
            outcome = _run(options, guideline, server)
        errors = [line for line in log.read_text(errors="replace").splitlines() if "Traceback" in line]
        return {
            "stage": options.stage,
            "where": _where(options, load),
            "settings": {name: value for name, value in vars(options).items() if name not in UNTOLD},
            "figures": outcome.figures,
            "tracebacks_in_the_log": len(errors),
            "checks": [check.__dict__ for check in outcome.checks],
        }


def _run(options: argparse.Namespace, guideline: str, server: Server) -> stages.Outcome:
    if options.stage == "probe":
        sizes, samples = tuple(options.sizes), options.samples
        return Probe(
            server=server, guideline=guideline, sizes=sizes, samples=samples, seed=options.seed
        ).run()
    world.make_corpus("corpus", tasks=options.tasks, guideline=guideline, seed=options.seed)
    people = world.make_people(options.annotators)
    plan = stages.Plan(
        port=server.port,
        guideline=guideline,
        annotators=people,
        adjudicators=people[: options.adjudicators],
        tasks=options.tasks,
        overlap=options.overlap,
        pairing=options.pairing,
        via=options.via,
        hostile=options.hostile,
        seed=options.seed,
    )
    if options.stage == "loop":
        return stages.loop(
            plan, server=server, seconds=options.seconds, warm_up=options.warm_up, think=options.think
        )
    return stages.drain(plan, rounds=options.rounds, server=server, kill_every=options.kill_every)


def _where(options: argparse.Namespace, load: float) -> str:
    database = options.database.split(":", 1)[0]
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} processors, {database}, "
        f"load {load:.1f} at the start"
    )


def _interrupt(_number: int, _frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGTERM, _interrupt)
    options = arguments()
    try:
        outcome = measure(options)
    except KeyboardInterrupt:
        sys.exit(130)
    print(json.dumps(outcome, indent=1) if options.json else table(outcome))
    wrong = [check["rule"] for check in outcome["checks"] if check["wrong"]]
    if wrong:
        sys.exit("Violated: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
