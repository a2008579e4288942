from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from benchmark.management.campaigns import format_report, get_named_campaign
from benchmark.selectors.workbench.report import build_report


class Command(AssayCommand):
    help = (
        "Show the board of a campaign: quotas, attack success by target, method and dimension, authors, the reviewers'"
        " agreement, cost (docs/workbench.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def act(self, **options: Any) -> dict[str, Any]:
        return build_report(get_named_campaign(options["name"]), None).to_json()

    def show(self, data: dict[str, Any]) -> None:
        for line in format_report(data):
            self.stdout.write(line)
