from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset
from annotation.services.slates import SlateSpec, make_slates


class Command(AssayCommand):
    help = "Put several responses to one prompt side by side, to be judged together: a named set of slates."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="of the set; create_batch --slates NAME makes a batch of it")
        parser.add_argument("--dataset", required=True)
        parser.add_argument(
            "--models", nargs="+", default=[], metavar="MODEL", help="whose responses (default: all)"
        )
        parser.add_argument(
            "--collections",
            nargs="+",
            default=[],
            metavar="C",
            help="of these collections, as of several samples of one model (default: the one without a name)",
        )
        parser.add_argument(
            "--pairs",
            choices=["all", "balanced"],
            help="two responses at a time: all pairs of each prompt; or one pair of each prompt, every pair as often"
            " (default: all responses together, 2 to 5)",
        )
        parser.add_argument(
            "--keep-same",
            action="store_true",
            help="make slates whose responses are all equal, too, as where labels of them are imported",
        )
        parser.add_argument(
            "--seed", type=int, default=0, help="of the order of the responses (default %(default)s)"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        made = make_slates(
            SlateSpec(
                name=options["name"],
                dataset=get_dataset(options["dataset"]),
                models=options["models"],
                collections=options["collections"],
                pairs=options["pairs"],
                seed=options["seed"],
                keep_same=options["keep_same"],
            )
        )
        return {**asdict(made.counts), "incomplete": made.incomplete, "same": made.same}

    def show(self, data: dict[str, Any]) -> None:
        sizes = ", ".join(f"{n} of {size} responses" for size, n in data["sizes"])
        self.stdout.write(f"{data['slates']} slates to {data['prompts']} prompts: {sizes}")
        for pair in data["pairs"]:
            self.stdout.write(f"  {pair['first']} with {pair['second']}: {pair['slates']}")
        if data["incomplete"]:
            self.stdout.write(f"{data['incomplete']} prompts have no slate: responses to them are missing.")
        if data["same"]:
            self.stdout.write(f"{data['same']} prompts have no slate: the responses to them are the same.")
