from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset, get_models
from scoring.management.tables import drift_table
from scoring.selectors.scorers import get_ready_scorer
from scoring.services import check_drift


class Command(AssayCommand):
    help = "Compare a model's responses with what a scorer has learned from; no label of the model is needed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--scorer", required=True)
        parser.add_argument("--model", required=True)
        parser.add_argument("--dataset", default="", help="only its responses to this dataset (default: all)")
        parser.add_argument("--detach", action="store_true", help="queue it for a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        (model,) = get_models([options["model"]])
        job = check_drift(
            scorer=get_ready_scorer(options["scorer"]),
            model=model,
            dataset=get_dataset(options["dataset"]) if options["dataset"] else None,
            send=options["detach"],
        )
        if options["detach"]:
            return {"scorer": options["scorer"], "model": model.name, "job": job.pk, "state": job.state}
        return dict(self.run_job(job).result)

    def show(self, data: dict[str, Any]) -> None:
        if "job" in data:
            self.stdout.write(f"{data['scorer']} waits for a worker (job {data['job']})")
            return
        for line in drift_table(data["model"], data["drift"]):
            self.stdout.write(line)
        if data["labelled"]:
            self.stdout.write(
                f"{data['scorer']} has learned from {data['labelled']} labels of {data['model']}"
            )
