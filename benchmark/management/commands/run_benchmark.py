from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.formatting import format_decimal
from annotation.core.names import split_names
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset, get_models
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import get_collection, list_board_rows
from benchmark.services.leaderboards.runs import create_run
from scoring.selectors.scorers import get_scorer


class Command(AssayCommand):
    help = "Run a scorer over the responses of some models on a dataset; leaderboard NAME prints the result."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the name of the new run")
        parser.add_argument("--scorer", required=True)
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--models", nargs="*", default=[], help="only these models (default: all)")
        parser.add_argument(
            "--collection", default="", help="the collection of responses (default: the unnamed)"
        )
        parser.add_argument("--detach", action="store_true", help="leave the work to a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        run = create_run(
            name=options["name"],
            scorer=get_scorer(options["scorer"]),
            dataset=get_dataset(options["dataset"]),
            collection=get_collection(options["collection"]),
            models=get_models([name for text in options["models"] for name in split_names(text)]),
            send=options["detach"],
        )
        assert run.job is not None
        job = run.job if options["detach"] else self.run_job(run.job)
        answer = {"run": run.name, "job": job.pk, "state": job.state}
        return answer | ({} if options["detach"] else _count_composition(run))

    def show(self, data: dict[str, Any]) -> None:
        counted = ", ".join(
            f"{n} {basis.replace('_', ' ')}" for basis, n in data.get("composition", {}).items()
        )
        cost = data.get("cost", {})
        took = ""
        if cost.get("predicted"):
            took = f"; {cost['predicted']} predicted in {format_decimal(cost['seconds'], 1)} s"
        self.stdout.write(
            f"{data['run']}: job {data['job']} is {data['state']}; {counted or 'a worker does it'}{took}"
        )


def _count_composition(run: BenchmarkRun) -> dict[str, Any]:
    run.refresh_from_db()
    cells = [cell for row in list_board_rows(run) for cell in row["dimensions"].values()]
    bases = ("gold", "out_of_fold", "unseen")
    composition = {basis: sum(cell["composition"][basis] for cell in cells) for basis in bases}
    return {"models": len(list_board_rows(run)), "composition": composition, "cost": run.cost}
