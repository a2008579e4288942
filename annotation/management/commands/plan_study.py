from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.terminal import format_table
from annotation.domain.planning import (
    MAX_RATERS,
    POWER,
    AgreementDesign,
    AgreementPlan,
    ComparisonDesign,
    parse_shares,
    plan_agreement,
    plan_comparison,
    space_prompts,
)
from annotation.management.base import AssayCommand


class Command(AssayCommand):
    is_of_study = False
    help = "Say how many prompts a study takes, before the first label: for an interval of alpha, for a difference."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--models", type=int, default=5, help="each answers every prompt (default %(default)s)"
        )
        parser.add_argument(
            "--half-width",
            type=float,
            metavar="W",
            help="wanted half-width of alpha's 95%% interval, as in 0.05",
        )
        parser.add_argument(
            "--alpha", type=float, default=0.7, help="the expected nominal alpha (default %(default)s)"
        )
        parser.add_argument(
            "--shares", default="60 25 15", help="the expected shares of the levels (default %(default)s)"
        )
        parser.add_argument(
            "--raters",
            type=int,
            help=f"labels per response (default: a row for each from 2 to {MAX_RATERS})",
        )
        parser.add_argument(
            "--similarity",
            type=float,
            default=0.1,
            help="intraclass correlation of the responses to one prompt in how far people agree (default %(default)s)",
        )
        parser.add_argument(
            "--difference", type=float, metavar="POINTS", help="wanted difference of two models, as in 10"
        )
        parser.add_argument(
            "--rate",
            type=float,
            default=70,
            help="about which the two models lie, in percent (default %(default)s)",
        )
        parser.add_argument(
            "--correlation",
            type=float,
            default=0.2,
            help="of two models' outcomes on one prompt (default %(default)s)",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        if options["half_width"] is None and options["difference"] is None:
            raise AssayError(N_("Say what is wanted: --half-width, --difference, or both."))
        return {
            "models": options["models"],
            "agreement": None if options["half_width"] is None else _plan_agreement(options),
            "comparison": None if options["difference"] is None else _plan_comparison(options),
        }

    def show(self, data: dict[str, Any]) -> None:
        if data["agreement"] is not None:
            rows = [["labels per response", "prompts", "labels", "disputes"]]
            rows += [
                [str(row[key]) for key in ("raters", "prompts", "labels", "disputes")]
                for row in data["agreement"]
            ]
            for line in format_table(rows, texts=0):
                self.stdout.write(line)
        comparison = data["comparison"]
        if comparison is not None:
            self.stdout.write(
                f"{comparison['prompts']} prompts ({comparison['responses']} responses): the difference is separated"
                f" in about {POWER:.0%} of studies"
            )


def _plan_agreement(options: dict[str, Any]) -> list[dict[str, Any]]:
    shares = parse_shares(options["shares"])
    raters = range(2, MAX_RATERS + 1) if options["raters"] is None else [options["raters"]]
    plans = [
        plan_agreement(
            AgreementDesign(options["alpha"], shares, number, options["models"], options["similarity"]),
            options["half_width"],
        )
        for number in raters
    ]
    return [_agreement_to_json(plan) for plan in plans]


def _agreement_to_json(plan: AgreementPlan) -> dict[str, Any]:
    return {
        "raters": plan.design.raters,
        "prompts": plan.prompts,
        "labels": plan.labels,
        "disputes": plan.disputes,
        "has_floor": plan.has_floor,
        "curve": [
            {"prompts": prompts, "half_width": plan.design.half_width(prompts)}
            for prompts in space_prompts(plan.prompts)
        ],
    }


def _plan_comparison(options: dict[str, Any]) -> dict[str, Any]:
    design = ComparisonDesign(options["rate"] / 100, options["models"], options["correlation"])
    plan = plan_comparison(design, options["difference"] / 100)
    return {
        "difference": options["difference"],
        "prompts": plan.prompts,
        "responses": plan.responses,
        "curve": [
            {"prompts": prompts, "power": design.power(prompts, plan.difference)}
            for prompts in space_prompts(plan.prompts)
        ],
    }
