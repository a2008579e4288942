from __future__ import annotations

import math
from argparse import ArgumentParser
from collections import Counter
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.formatting import (
    UNDEFINED,
    format_decimal,
    format_percent,
    format_signed,
    format_significant,
)
from annotation.core.names import split_names
from annotation.core.specs import check_seed
from annotation.core.terminal import format_table
from annotation.domain.batch_spec import Policy
from annotation.management.base import AssayCommand
from annotation.selectors.people import get_people
from benchmark.domain.estimates.label_plan.comparison import POWER
from benchmark.domain.estimates.label_plan.label_plan import StratumTarget
from benchmark.domain.estimates.label_plan.separation import ModelPair
from benchmark.selectors.estimates.comparison_plan import (
    ComparisonStatus,
    find_comparison_under_way,
    find_default_gap,
    plan_run_comparison,
)
from benchmark.selectors.estimates.label_plan import LabellingStatus, PlanGoal, measure_effort
from benchmark.selectors.estimates.prompts import (
    count_labelled,
    count_prompts_to_compare,
    count_prompts_to_separate,
    list_prompt_needs,
)
from benchmark.selectors.leaderboards.runs import get_run, list_board_rows
from benchmark.services.estimates import create_label_plan, list_targets, load_standing

USUAL = object()
"""What ``--compare`` stands for without a number."""


class Command(AssayCommand):
    help = "Say which gold labels a benchmark run needs next, and make a batch of them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="RUN", help="the benchmark run")
        parser.add_argument(
            "--points",
            type=float,
            help="every model and dimension to plus or minus so many points: hundredths of a rate (default: 2)",
        )
        parser.add_argument(
            "--pair", nargs=2, metavar=("A", "B"), help="what would separate these two models"
        )
        parser.add_argument(
            "--compare",
            nargs="?",
            type=float,
            const=USUAL,
            metavar="POINTS",
            help="what would compare every model, and show a true difference of so many points (default: 15)",
        )
        parser.add_argument(
            "--make-batch", metavar="NAME", help="draw the labels, and make and open this batch"
        )
        parser.add_argument("--annotators", nargs="*", default=[], help="of the batch")
        parser.add_argument("--adjudicators", nargs="*", default=[], help="of the batch")
        parser.add_argument("--overlap", type=int, default=2, help="annotations per response (default: 2)")
        parser.add_argument("--draft", action="store_true", help="do not open the batch")
        parser.add_argument("--seed", type=int, help="of the draw (default: by chance; it is kept)")

    def act(self, **options: Any) -> dict[str, Any]:
        run = get_run(options["name"])
        basis = load_standing(run)
        goal = _make_goal(basis, options["points"], options["pair"], options["compare"])
        self.unit = 100 if basis.metric.kind == "rate" else 1
        summary = self._summarize(basis, goal, options["overlap"])
        if options["make_batch"] is None:
            if options["annotators"] or options["adjudicators"] or options["seed"] is not None:
                raise AssayError(N_("Name the batch with --make-batch; people and a seed go with it."))
            return summary
        seed = options["seed"]
        if seed is not None:
            check_seed(seed)
        made = create_label_plan(
            run=run,
            goal=goal,
            name=options["make_batch"],
            annotators=_list_people(options["annotators"]),
            adjudicators=_list_people(options["adjudicators"]),
            policy=Policy(overlap=options["overlap"]),
            open_now=not options["draft"],
            seed=seed,
        )
        drawn = sum(stratum["drawn"] for stratum in made.strata)
        return summary | {
            "batch": {"name": made.batch.name, "state": made.batch.state, "drawn": drawn, "seed": made.seed}
        }

    def _summarize(self, basis: LabellingStatus, goal: PlanGoal, overlap: int) -> dict[str, Any]:
        demands = list_targets(basis, goal)
        more = sum(demand.more for demand in demands)
        takes = measure_effort(basis.run.scorer.guideline.name, overlap)
        return {
            "run": basis.run.name,
            "metric": basis.metric.name,
            "goal": goal.to_json(),
            "labels": more,
            "hours_each": takes.compute_hours(more),
            "hours_deciding": takes.compute_decision_hours(more),
            "overlap": overlap,
            "cells": _cells_to_json(demands),
            "assumed": sum(demand.stratum.assumed for demand in demands),
            "strata": len(demands),
            "waiting": basis.waiting,
            "all_labelled": count_labelled(basis.run) > 0,
            "responses": sum(row["n"] for row in list_board_rows(basis.run)),
            "prompts": [] if goal.half_width is None else _prompts_to_json(basis, goal.half_width),
            "neighbours": [_pair_to_json(basis, pair) for pair in basis.neighbours if pair is not None],
            "comparison": _comparison_to_json(basis, plan_run_comparison(basis, goal.gap)),
        }

    def show(self, data: dict[str, Any]) -> None:
        self._show_comparison(data["comparison"])
        self.stdout.write("neighbours on the board, difference in points")
        lines = [
            ["models", "difference", "interval", "labels to separate"],
            *map(self._line, data["neighbours"]),
        ]
        for line in format_table(lines):
            self.stdout.write(line)
        self.stdout.write(
            f"\n{self._goal_in_words(data['goal'])}: {_labels_in_words(data['labels'])}{_work_text(data)}"
        )
        if data["all_labelled"]:
            self.stdout.write(f"All {data['responses']} responses are labelled: no label is left to be made.")
        for line in format_table(
            [["model", "dimension", "labels"]]
            + [[cell["model"], cell["dimension"], str(cell["labels"])] for cell in data["cells"]]
        ):
            self.stdout.write(line)
        self._show_prompts(data["prompts"])
        if data["assumed"]:
            self.stdout.write(
                f"In {data['assumed']} of {data['strata']} strata too few labels: the scorer's errors are assumed."
            )
        if data["waiting"]:
            self.stdout.write(
                f"{data['waiting']} responses are being labelled or have been since the run; they count as labelled:"
                " cut the next gold release when their batches are done."
            )
        if "batch" in data:
            made = data["batch"]
            self.stdout.write(
                f"batch {made['name']} is {made['state']}: {made['drawn']} responses, seed {made['seed']}"
            )

    def _show_comparison(self, comparison: dict[str, Any]) -> None:
        points = format_significant(comparison["gap"] * self.unit)
        self.stdout.write(
            f"{comparison['compared']} of {comparison['all']} models are compared; to compare every one, and to show a"
            f" true difference of {points} points on {format_percent(comparison['power'], 0)} of boards:"
            f" {_labels_in_words(comparison['labels'])}"
        )
        rows = [
            [
                row["model"],
                "compared" if row["reason"] is None else f"not compared: {row['reason']}",
                "-" if row["labels"] is None else str(row["labels"]),
            ]
            for row in comparison["models"]
        ]
        for line in format_table([["model", "state", "labels"], *rows]) if rows else ():
            self.stdout.write(line)
        if comparison["short_of_prompts"]:
            self.stdout.write(
                f"{comparison['short_of_prompts']} of them have too few prompts for that; their labels show about"
                f" {format_decimal(comparison['shown_gap'] * self.unit, 1)} points. It takes about"
                f" {comparison['prompts_needed']} prompts like these."
            )
        if comparison["batch"] is not None:
            batch = comparison["batch"]
            self.stdout.write(f"batch {batch['name']} was drawn for this and is {batch['state']}")
        self.stdout.write("")

    def _show_prompts(self, prompts: list[dict[str, Any]]) -> None:
        if all(prompt["needed"] is not None and prompt["needed"] <= prompt["prompts"] for prompt in prompts):
            return
        self.stdout.write(
            "That is for exactly these responses. For all prompts like these only more prompts narrow the intervals:"
        )
        head = ["dimension", "prompts", "now +-", "about so many are needed"]
        lines = [
            [
                prompt["dimension"],
                str(prompt["prompts"]),
                UNDEFINED
                if prompt["half_width"] is None
                else format_decimal(prompt["half_width"] * self.unit, 1),
                "-" if prompt["needed"] is None else str(prompt["needed"]),
            ]
            for prompt in prompts
        ]
        for line in format_table([head, *lines]):
            self.stdout.write(line)

    def _line(self, pair: dict[str, Any]) -> list[str]:
        interval = UNDEFINED
        if pair["low"] is not None:
            interval = " to ".join(format_signed(pair[end] * self.unit, 1) for end in ("low", "high"))
        if not pair["compared"]:
            interval = "not compared"
        if pair["separated"]:
            more = "separated"
        elif pair["labels"] is None:
            more = "they differ by less than this dataset can tell"
            if pair["prompts"] is not None:
                more += f"; about {pair['prompts']} prompts like these might"
        else:
            more = str(pair["labels"])
        return [
            f"{pair['first']} / {pair['second']}",
            format_signed(pair["difference"] * self.unit, 1),
            interval,
            more,
        ]

    def _goal_in_words(self, goal: dict[str, Any]) -> str:
        if goal["pair"]:
            return f"to separate {goal['pair'][0]} and {goal['pair'][1]}"
        if goal.get("gap"):
            return "to compare every model"
        points = format_significant(goal["half_width"] * self.unit)
        return f"to plus or minus {points} points on every dimension"


def _labels_in_words(n: int) -> str:
    """What none means: the labels that would help are there, and what is left takes more prompts."""
    return f"{n} more labels" if n else "the labels that help are there or under way"


def _make_goal(
    basis: LabellingStatus, points: float | None, pair: list[str] | None, compare: Any
) -> PlanGoal:
    if compare is not None:
        if pair is not None or points is not None:
            raise AssayError(N_("Give one of --points, --pair and --compare."))
        return PlanGoal(gap=_read_gap(basis, compare))
    if pair is not None:
        if points is not None:
            raise AssayError(N_("Give either --points or --pair."))
        return PlanGoal(pair=(pair[0], pair[1]))
    half_width_points = 2.0 if points is None else points
    if not (math.isfinite(half_width_points) and 0 < half_width_points <= 100):
        raise AssayError(N_("The points are a number above 0, up to 100."))
    return PlanGoal(half_width=half_width_points / (100 if basis.metric.kind == "rate" else 1))


def _read_gap(basis: LabellingStatus, points: Any) -> float:
    """In the metric's own unit; the usual one where no number was typed."""
    if points is USUAL:
        return find_default_gap(basis.document)
    if not 0 < float(points) <= 100:
        raise AssayError(N_("The points are a number above 0, up to 100."))
    return float(points) / (100 if basis.metric.kind == "rate" else 1)


def _comparison_to_json(basis: LabellingStatus, comparison: ComparisonStatus) -> dict[str, Any]:
    """``labels`` of a model are None where none would compare it, or only all of them."""
    planned = {plan.model.model: plan for plan in comparison.plans}
    under_way = find_comparison_under_way(basis.run)
    return {
        "gap": comparison.gap,
        "power": POWER,
        "shown_gap": comparison.shown_gap,
        "short_of_prompts": comparison.short_of_prompts,
        "prompts_needed": count_prompts_to_compare(basis, comparison),
        "compared": comparison.compared,
        "all": len(comparison.grounds),
        "labels": comparison.more,
        "models": [
            {
                "model": model,
                "ground": ground.name,
                "reason": ground.reason,
                "labels": planned[model].more
                if model in planned and not planned[model].model.is_spoiled
                else None,
            }
            for model, ground in comparison.grounds.items()
            if model in planned or not ground.is_compared
        ],
        "batch": under_way and {"name": under_way.batch.name, "state": under_way.batch.state},
    }


def _list_people(texts: list[str]) -> Any:
    return get_people([name for text in texts for name in split_names(text)])


def _cells_to_json(demands: list[StratumTarget]) -> list[dict[str, Any]]:
    more: Counter[tuple[str, str]] = Counter()
    for demand in demands:
        more[demand.stratum.model, demand.stratum.scope] += demand.more
    return [{"model": model, "dimension": scope, "labels": n} for (model, scope), n in more.items()]


def _prompts_to_json(basis: LabellingStatus, half_width: float) -> list[dict[str, Any]]:
    return [
        {
            "dimension": prompt_need.scope,
            "prompts": prompt_need.prompts,
            "half_width": prompt_need.half_width,
            "needed": prompt_need.needed,
        }
        for prompt_need in list_prompt_needs(basis, half_width)
    ]


def _pair_to_json(basis: LabellingStatus, pair: ModelPair) -> dict[str, Any]:
    demands = pair.plan_labels()
    low, high = pair.interval or (None, None)
    return {
        "first": pair.first,
        "second": pair.second,
        "difference": pair.difference,
        "low": low,
        "high": high,
        "least_half_width": pair.min_half_width,
        "compared": pair.is_compared,
        "separated": pair.separated,
        "labels": None if demands is None else sum(demand.more for demand in demands),
        "prompts": count_prompts_to_separate(basis, pair),
    }


def _work_text(data: dict[str, Any]) -> str:
    if data["hours_each"] is None or not data["labels"]:
        return ""
    hours = f", about {format_decimal(data['hours_each'], 1)} h for each of {data['overlap']} people"
    return hours + (
        f" and {format_decimal(data['hours_deciding'], 1)} h for an adjudicator"
        if data["hours_deciding"]
        else ""
    )
