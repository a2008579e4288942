from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.error_messages import error_from_json
from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.formatting import format_decimal
from annotation.management.base import AssayCommand
from scoring.selectors.scorers import get_latest_guideline, get_ready_scorer
from scoring.services import promote, roll_back


class Command(AssayCommand):
    help = (
        "Make a scorer the current one of its guideline, if it passes the gate; or go back to the one before."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "name", nargs="?", default="", help="the scorer that is to become the current one"
        )
        parser.add_argument("--back", metavar="GUIDELINE", default="", help="go back to the scorer before")
        parser.add_argument("--detach", action="store_true", help="queue it for a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        if bool(options["name"]) == bool(options["back"]):
            raise AssayError(N_("Name a scorer to promote, or with --back the guideline to go back in."))
        if options["back"]:
            name = get_latest_guideline(options["back"]).name
            promotion = roll_back(guideline_name=name)
            assert promotion.replaced is not None, "a step back replaces the scorer that was gone back from"
            return {"scorer": promotion.scorer.name, "guideline": name, "instead_of": promotion.replaced.name}
        scorer = get_ready_scorer(options["name"])
        job = promote(scorer=scorer, send=options["detach"])
        if options["detach"]:
            return {"scorer": scorer.name, "job": job.pk, "state": job.state}
        result: dict[str, Any] = self.run_job(job).result
        if not result["promoted"]:
            reasons = " ".join(error_from_json(refusal) for refusal in result["refusals"])
            raise Conflict(N_("{scorer} was not promoted: {why}"), scorer=scorer.name, why=reasons)
        return {"scorer": scorer.name, "guideline": scorer.guideline.name} | result

    def show(self, data: dict[str, Any]) -> None:
        if "job" in data:
            self.stdout.write(f"{data['scorer']} waits for a worker (job {data['job']})")
            return
        self.stdout.write(f"{data['scorer']} is now the current scorer of {data['guideline']}")
        for comparison in data.get("verdict", {}).get("criteria", []):
            new, old, loss = (format_decimal(comparison[name]) for name in ("new", "old", "smallest_loss"))
            self.stdout.write(
                f"  {comparison['criterion']}: {new}, {data['against']} had {old} of {comparison['n']} labels; "
                f"a loss of {loss} would have been noticed"
            )
