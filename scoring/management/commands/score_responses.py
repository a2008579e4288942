from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.formatting import format_decimal
from annotation.core.names import split_names
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset, get_models
from scoring.selectors.scorers import get_ready_scorer
from scoring.services import create_scoring


class Command(AssayCommand):
    help = "Store a scorer's predictions of a dataset's responses; never of what it was trained on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--scorer", required=True)
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--models", nargs="*", default=[], help="only the responses of these models")
        parser.add_argument("--detach", action="store_true", help="queue it for a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        job = create_scoring(
            scorer=get_ready_scorer(options["scorer"]),
            dataset=get_dataset(options["dataset"]),
            models=get_models([name for value in options["models"] for name in split_names(value)]),
            send=options["detach"],
        )
        target = {"scorer": options["scorer"], "dataset": options["dataset"]}
        if options["detach"]:
            return target | {"job": job.pk, "state": job.state}
        result = self.run_job(job).result
        stored = {basis: result[basis] for basis in ("out_of_fold", "unseen")}
        return (
            target | {"stored": stored} | {name: result[name] for name in ("responses", "asked", "seconds")}
        )

    def show(self, data: dict[str, Any]) -> None:
        if "job" in data:
            self.stdout.write(f"{data['scorer']} waits for a worker (job {data['job']})")
            return
        stored = data["stored"]
        self.stdout.write(
            f"{data['scorer']} on {data['dataset']}: {stored['out_of_fold']} new predictions out of fold, "
            f"{stored['unseen']} of unseen responses; {data['asked']} different texts read, "
            f"{data['responses']} responses in {format_decimal(data['seconds'], 1)} s"
        )
