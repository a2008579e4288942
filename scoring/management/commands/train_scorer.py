from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.management.base import AssayCommand, names
from annotation.selectors.gold import release_named
from scoring.printing import figures_table
from scoring.selectors.scorers import scorer_named
from scoring.services import create_scorer
from scoring.services.scorers import EVALUATIONS, GROUPED


class Command(AssayCommand):
    help = "Train a scorer from a gold release, evaluate it, and register it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--release", required=True, help="the gold release it learns from")
        parser.add_argument(
            "--backbone", default="", help="a local folder or a hub name (default: the embedded char-ngram)"
        )
        parser.add_argument(
            "--evaluate",
            action="append",
            default=[],
            metavar="HOW",
            help=f"{' or '.join(EVALUATIONS)}; may be given twice (default: {GROUPED}, which is always done)",
        )
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--detach", action="store_true", help="queue it for a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        scorer, job = create_scorer(
            name=options["name"],
            release=release_named(options["release"]),
            backbone=options["backbone"],
            evaluate=[name for value in options["evaluate"] for name in names(value)],
            seed=options["seed"],
            send=options["detach"],
        )
        if options["detach"]:
            return {"scorer": scorer.name, "backbone": scorer.backbone, "job": job.pk, "state": job.state}
        self.run_job(job)
        trained = scorer_named(scorer.name)
        return {"scorer": trained.name, "backbone": trained.backbone, "evaluation": trained.evaluation}

    def show(self, data: dict[str, Any]) -> None:
        if "job" in data:
            self.stdout.write(f"{data['scorer']} waits for a worker (job {data['job']})")
            return
        card = scorer_named(data["scorer"]).card
        self.stdout.write(f"{data['scorer']}: {card['responses']} responses to {card['prompts']} prompts")
        self.stdout.write(f"backbone {card['backbone']['description']}")
        self.stdout.write(f"release {card['release']['name']}, sha256 {card['release']['sha256']}")
        self.stdout.write(f"weights sha256 {card['weights_sha256']}")
        for line in ["", *figures_table(data["evaluation"], card["baselines"])]:
            self.stdout.write(line)
