from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.management.base import AssayCommand
from annotation.selectors.releases.releases import get_release
from benchmark.domain.judges.alternative_annotator import EPSILON
from benchmark.management.arguments import resolve_names
from benchmark.management.tables import format_comparison
from benchmark.selectors.judges.comparison import build_comparison
from benchmark.selectors.judges.judges import get_judge
from scoring.selectors.scorers import get_ready_scorer


class Command(AssayCommand):
    help = (
        "Judges, scorers and people beside each other on one gold release, and who may stand in for a person."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--release", required=True, help="the gold that they are measured by")
        parser.add_argument("--judges", nargs="*", help="only these (default: all that labelled any of it)")
        parser.add_argument(
            "--scorers", nargs="*", help="only these (default: the current and the release's own)"
        )
        parser.add_argument(
            "--common", action="store_true", help="only labels that every judge and scorer said something of"
        )
        parser.add_argument(
            "--epsilon",
            type=float,
            default=EPSILON,
            help="alternative annotator test: what a person's label costs more (default: %(default)s)",
        )
        parser.add_argument(
            "--alignment",
            help="alternative annotator test: accuracy, or distance on the scale (default: by the scale)",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        if not 0 <= options["epsilon"] <= 1:
            raise AssayError(N_("Epsilon is a share of wins: write a number from 0 to 1."))
        if options["alignment"] not in {None, "accuracy", "distance"}:
            raise AssayError(N_("Write accuracy or distance as the alignment."))
        return build_comparison(
            get_release(options["release"]),
            judges=resolve_names(options["judges"], get_judge),
            scorers=resolve_names(options["scorers"], get_ready_scorer),
            common=options["common"],
            epsilon=options["epsilon"],
            alignment=options["alignment"],
        )

    def show(self, data: dict[str, Any]) -> None:
        for line in format_comparison(data):
            self.stdout.write(line)
