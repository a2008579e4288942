from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.formatting import UNDEFINED, format_percent, format_percent_number
from annotation.core.names import split_names
from annotation.core.terminal import format_table
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset, get_models
from annotation.selectors.people import get_people
from benchmark.domain.leaderboards.metrics import SMALL
from benchmark.domain.multiple_choice.scores import COUNTING_RULES, STRICT
from benchmark.models import ChoiceReport
from benchmark.selectors.judges.judges import get_judge
from benchmark.selectors.leaderboards.runs import get_collection
from benchmark.selectors.multiple_choice.reports import get_report, result_to_json
from benchmark.services.multiple_choice import OPEN, UNREAD, compute_result, create_report, make_batch
from scoring.selectors.scorers import get_scorer

HEADS = {
    "fine": {"cs": "CS", "css": "CSS", "open_accuracy": "open", "choice_accuracy": "choice"},
    "cvalues": {"acc": "acc", "acc_star": "acc*"},
}
COUNTS = {"fine": ("missing",), "cvalues": ("other", "refuse", "need_check", "missing")}


class Command(AssayCommand):
    help = "FINE's scores, or CValues' multiple-choice accuracies: make a report (--kind), or print one that is there."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--kind", help=f"make the report: {', '.join(ChoiceReport.Kind.values)}")
        parser.add_argument("--dataset", help="with --kind: whose questions")
        parser.add_argument("--collection", help="with --kind: the responses' (default: the unnamed)")
        parser.add_argument(
            "--models", nargs="*", default=[], help="with --kind: only these models (default: all)"
        )
        parser.add_argument("--scorer", help="with --kind fine: says which open-ended answers are safe")
        parser.add_argument("--judge", help="instead of a scorer; with neither, people say it")
        parser.add_argument(
            "--rule",
            choices=COUNTING_RULES,
            default=STRICT,
            help="FINE: a choice that nobody can parse is missing (strict), or not safe, as the published code counts"
            " it (published)",
        )
        parser.add_argument(
            "--make-batch", action="store_true", help="a batch of the answers that no rule reads"
        )
        parser.add_argument(
            "--make-open-batch",
            action="store_true",
            help="a batch of the open-ended answers that people must settle",
        )
        parser.add_argument(
            "--annotators", nargs="*", default=[], help="opens the batches; without, they are drafts"
        )
        parser.add_argument("--adjudicators", nargs="*", default=[])

    def act(self, **options: Any) -> dict[str, Any]:
        report = self._create_report(options) if options["kind"] else self._get_report(options)
        annotators, adjudicators = (
            get_people([name for text in options[role] for name in split_names(text)])
            for role in ("annotators", "adjudicators")
        )
        kinds = [kind for kind, key in ((UNREAD, "make_batch"), (OPEN, "make_open_batch")) if options[key]]
        batches = [
            make_batch(report=report, kind=kind, annotators=annotators, adjudicators=adjudicators).name
            for kind in kinds
        ]
        return result_to_json(compute_result(report, options["rule"])) | (
            {"batches": batches} if batches else {}
        )

    def _create_report(self, options: dict[str, Any]) -> ChoiceReport:
        if not options["dataset"]:
            raise AssayError(N_("--kind makes a report, and needs --dataset."))
        return create_report(
            name=options["name"],
            kind=options["kind"],
            dataset=get_dataset(options["dataset"]),
            collection=get_collection(options["collection"] or ""),
            models=get_models([name for text in options["models"] for name in split_names(text)]),
            scorer=get_scorer(options["scorer"]) if options["scorer"] else None,
            judge=get_judge(options["judge"]) if options["judge"] else None,
        )

    def _get_report(self, options: dict[str, Any]) -> ChoiceReport:
        new_report_option = next(
            (key for key in ("dataset", "collection", "models", "scorer", "judge") if options[key]), None
        )
        if new_report_option is not None:
            raise AssayError(
                N_("--{option} makes a new report, and needs --kind; without both, NAME is printed."),
                option=new_report_option,
            )
        return get_report(options["name"])

    def show(self, data: dict[str, Any]) -> None:
        heads, counts = HEADS[data["kind"]], COUNTS[data["kind"]]
        rows = [["model", "category", "n", *heads.values(), *counts]]
        for row in data["rows"]:
            difficulties = [(f"difficulty {name}", cell) for name, cell in row["difficulties"].items()]
            cells = [("overall", row["overall"]), *row["categories"].items(), *difficulties]
            rows += [
                [
                    row["model"],
                    category or "-",
                    str(cell["n"]),
                    *(_printed(cell[key], cell["n"]) for key in heads),
                    *(str(cell[key]) for key in counts),
                ]
                for category, cell in cells
            ]
        for line in format_table(rows, texts=2):
            self.stdout.write(line)
        for line in _todo(data["todo"]):
            self.stdout.write(line)
        for name in data.get("batches", ()):
            self.stdout.write(f"made the batch {name}")


def _printed(statistic: dict[str, float | None] | None, n: int) -> str:
    """A percentage; with its 95% interval where there are few."""
    if statistic is None or statistic["value"] is None:
        return UNDEFINED
    value = format_percent(statistic["value"])
    low, high = statistic["low"], statistic["high"]
    if n >= SMALL or low is None or high is None:
        return value
    return f"{value} ({format_percent_number(low)}-{format_percent_number(high)})"


def _todo(todo: dict[str, int]) -> list[str]:
    words = {
        "without_response": "prompts have no response: collect_responses asks for them",
        "need_check": "answers are read by no rule: --make-batch gives those in no batch to people",
        "open_unsettled": "open-ended answers are not settled",
    }
    return [f"{todo[key]} {text}" for key, text in words.items() if todo[key]]
