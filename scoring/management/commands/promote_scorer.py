from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.errors import N_, AssayError, Conflict, Forbidden
from annotation.core.formatting import format_percent_number, format_percent_signed
from annotation.domain.permissions import PROMOTE_SCORER
from annotation.management.base import AssayCommand
from annotation.models import Person
from annotation.selectors.access import may
from annotation.selectors.people import get_person
from scoring.domain.gate import MARGIN
from scoring.models import Scorer
from scoring.selectors.scorers import get_latest_guideline, get_ready_scorer
from scoring.services import promote, roll_back
from scoring.views.scorers.promotions import describe_gate_reason

OUTCOMES = {"not_worse": "not worse, within the margin", "not_shown": "not shown", "worse": "worse"}


class Command(AssayCommand):
    help = (
        "Make a scorer the current one of its guideline, if the gate shows that it is not worse; or go back to the one"
        " before."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "name", nargs="?", default="", help="the scorer that is to become the current one"
        )
        parser.add_argument("--back", metavar="GUIDELINE", default="", help="go back to the scorer before")
        parser.add_argument(
            "--margin",
            type=float,
            default=100 * MARGIN,
            help="the loss of accuracy, in points, that is small enough (default %(default)g)",
        )
        parser.add_argument(
            "--reason",
            default="",
            help="promote it for this reason where the gate shows neither that it is worse nor that it is not; the"
            " reason stands on cards and boards; needs --by",
        )
        parser.add_argument("--by", metavar="PERSON", default="", help="the researcher who decides")
        parser.add_argument("--detach", action="store_true", help="queue it for a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        if bool(options["name"]) == bool(options["back"]):
            raise AssayError(N_("Name a scorer to promote, or with --back the guideline to go back in."))
        actor = _get_researcher(options["by"]) if options["by"] else None
        if options["back"]:
            name = get_latest_guideline(options["back"]).name
            promotion = roll_back(guideline_name=name, actor=actor)
            assert promotion.replaced is not None, "a step back replaces the scorer that was gone back from"
            return {"scorer": promotion.scorer.name, "guideline": name, "instead_of": promotion.replaced.name}
        scorer = get_ready_scorer(options["name"])
        job = promote(
            scorer=scorer,
            actor=actor,
            margin=options["margin"] / 100,
            reason=options["reason"],
            send=options["detach"],
        )
        if options["detach"]:
            return {"scorer": scorer.name, "job": job.pk, "state": job.state}
        result: dict[str, Any] = self.run_job(job).result
        if not result["promoted"]:
            raise Conflict(
                N_("{scorer} was not promoted: {why}"),
                scorer=scorer.name,
                why=_describe_refusal(scorer, result),
            )
        return {"scorer": scorer.name, "guideline": scorer.guideline.name} | result

    def show(self, data: dict[str, Any]) -> None:
        if "job" in data:
            self.stdout.write(f"{data['scorer']} waits for a worker (job {data['job']})")
            return
        self.stdout.write(f"{data['scorer']} is now the current scorer of {data['guideline']}")
        if data.get("reason"):
            self.stdout.write(f"  with a reason: {data['reason']}")
        for rival in data.get("verdict", {}).get("rivals", []):
            for comparison in rival["criteria"]:
                self.stdout.write(f"  {_describe_comparison(rival, comparison)}")


def _get_researcher(name: str) -> Person:
    person = get_person(name)
    if not may(person, PROMOTE_SCORER):
        raise Forbidden(N_("{name} is no researcher: only a researcher promotes."), name=name)
    return person


def _describe_refusal(scorer: Scorer, result: dict[str, Any]) -> str:
    verdict = result["verdict"]
    return " ".join(
        describe_gate_reason(reason, scorer.guideline.document, margin=verdict["margin"])
        for reason in verdict["reasons"]
    )


def _describe_comparison(rival: dict[str, Any], comparison: dict[str, Any]) -> str:
    difference = comparison["difference"]
    low, high = (format_percent_signed(difference[end], 1) for end in ("low", "high"))
    loss, margin = (format_percent_number(comparison[name]) for name in ("detectable_loss", "passing_margin"))
    return (
        f"{comparison['criterion']}, beside {rival['scorer']} ({rival['role']}): {OUTCOMES[comparison['outcome']]}; "
        f"{low} to {high} points on {comparison['n']} labels of {comparison['prompts']} prompts; with a chance of 80% "
        f"a loss of {loss} is found, and an equal scorer passes at a margin of {margin}"
    )
