from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.conf import settings

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.formatting import format_duration
from annotation.core.terminal import format_table
from annotation.management.base import AssayCommand
from annotation.selectors.releases.releases import get_release
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.leaderboards.comparison import compare_run
from benchmark.selectors.leaderboards.runs import list_retraining_runs, plan_retraining
from benchmark.services.leaderboards.runs import retrain
from scoring.domain.spec import Spec


class Command(AssayCommand):
    help = (
        "Train a scorer on a release, run the boards of its lineage again with it, compare the runs. These are "
        "the boards whose scorer's release shares a batch with the release; others by the guideline stay."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--release", required=True)
        parser.add_argument("--name", help="of the new scorer (default: the last one's, numbered on)")
        parser.add_argument(
            "--backbone",
            default="",
            help="ngram, encoder, ensemble, or an encoder (default: that of the last scorer)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be trained and run again, and do nothing"
        )
        parser.add_argument("--detach", action="store_true", help="leave the work to a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        request = {
            "release": get_release(options["release"]),
            "name": options["name"],
            "spec": Spec.from_request(options["backbone"], default_encoder=settings.ASSAY_ENCODER)
            if options["backbone"]
            else None,
        }
        plan = plan_retraining(**request)
        if options["dry_run"]:
            return {"retraining": None, "plan": plan.to_json(), "runs": []}
        if not self.quiet:
            self._say(plan.to_json())  # before it takes its time
        made = retrain(**request, send=options["detach"])
        if not options["detach"]:
            assert made.scorer.job is not None
            self.run_job(made.scorer.job)
        return _retraining_to_json(made, detached=options["detach"]) | {"plan": plan.to_json()}

    def _say(self, plan: dict[str, Any]) -> None:
        """What is trained, and which boards are run again, each with its data."""
        self.stdout.write(
            f"Trains {plan['scorer']} ({plan['backbone']}) on {plan['release']}, and runs again:"
        )
        for board in plan["boards"]:
            place = f"{board['dataset']}/{board['collection']}" if board["collection"] else board["dataset"]
            self.stdout.write(f"  {board['run']} ({place}: {', '.join(board['models'])})")
        if not plan["boards"]:
            self.stdout.write("  no board: none rests on this gold")
        if plan["seconds"] is not None:
            self.stdout.write(f"  about {format_duration(max(1, plan['seconds']))}")

    def show(self, data: dict[str, Any]) -> None:
        if self.quiet or data["retraining"] is None:
            self._say(data["plan"])
        if data["retraining"] is None:
            return
        self.stdout.write(f"scorer {data['scorer']} from {data['release']} ({data['release_sha256'][:12]})")
        for run in data["runs"]:
            self.stdout.write(f"\n{run['run']} beside {run['replaces']}")
            for line in format_table([HEAD, *map(_cell_row, run["cells"])]):
                self.stdout.write(line)
        if not data["runs"]:
            self.stdout.write("No board of this lineage was there to run again.")


HEAD = ["model", "dimension", "metric", "old", "new", "delta", "n", "why"]


def _retraining_to_json(made: Retraining, *, detached: bool) -> dict[str, Any]:
    return {
        "retraining": made.pk,
        "scorer": made.scorer.name,
        "release": made.release.name,
        "release_sha256": made.release.sha256,
        "runs": [_run_to_json(run, detached=detached) for run in list_retraining_runs(made)],
    }


def _run_to_json(run: BenchmarkRun, *, detached: bool) -> dict[str, Any]:
    moved = (
        []
        if detached
        else [
            moved_number.to_json() | {"printed": moved_number.change.printed}
            for moved_number in compare_run(run).moved
        ]
    )
    return {"run": run.name, "replaces": run.replaces.name if run.replaces else None, "cells": moved}


def _cell_row(cell: Mapping[str, Any]) -> list[str]:
    printed = cell["printed"]
    n = f"{cell['n_new']}" if cell["n_new"] == cell["n_old"] else f"{cell['n_old']} -> {cell['n_new']}"
    reasons = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in cell["reasons"].items())
    delta = "-" if cell["delta"] is None else printed["delta"] or "0"
    if "predicted" in (cell["kind_old"], cell["kind_new"]):
        delta += " (predicted)"
    place = [cell["model"], cell["dimension"] or "overall", cell["metric"]]
    return [*place, printed["old"], printed["new"], delta, n, reasons or "-"]
