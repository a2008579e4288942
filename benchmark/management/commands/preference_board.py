from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from annotation.core.formatting import format_decimal
from annotation.core.terminal import format_table
from annotation.management.base import AssayCommand
from annotation.selectors.releases.releases import get_release
from benchmark.selectors.preferences import BASES, build_comparison, build_query, list_judges_on_slates

TEXTS = 1


class Command(AssayCommand):
    help = "Rank models by what people preferred on the slates of a gold release."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("release")
        parser.add_argument(
            "--criterion", help="which asks for the best or a ranking (default: the guideline's first)"
        )
        parser.add_argument(
            "--labels",
            choices=BASES,
            default="gold",
            help="a gold label of each slate; or each annotator's, with the effect of position (default: gold)",
        )
        parser.add_argument("--dimension", help="only prompts of this dimension")
        parser.add_argument("--length", action="store_true", help="with length as a covariate")

    def act(self, **options: Any) -> dict[str, Any]:
        release = get_release(options["release"])
        query = build_query(
            release,
            criterion=options["criterion"],
            basis=options["labels"],
            dimension=options["dimension"],
            length=options["length"],
        )
        return {
            "release": release.name,
            "sha256": release.sha256,
            **build_comparison(release, query).to_json(),
            "judges": [row.to_json() for row in list_judges_on_slates(release, query)],
        }

    def show(self, data: dict[str, Any]) -> None:
        heads = ("model", "rank", "strength", "Elo", "Bradley-Terry", "win rate", "n")
        lines = [
            (
                row["model"],
                _format_rank(row["rank"]),
                _format_number(row["strength"]),
                format_decimal(row["elo"], 0),
                format_decimal(data["bradley_terry"][row["model"]], 4),
                _format_number(row["win_rate"]),
                str(row["n"]),
            )
            for row in data["rows"]
        ]
        for line in format_table([heads, *lines], texts=TEXTS):
            self.stdout.write(line)
        self.stdout.write(f"{data['comparisons']} comparisons on {data['prompts']} prompts")
        if data["excluded"]:
            self.stdout.write(f"{data['excluded']} of {data['labels']} labels compare nothing")
        if data["terms"]["position"]:
            share = _format_number(data["position"]["share"])
            self.stdout.write(f"shown first, a response won {share} of the decided; strengths are corrected")
        if data["length"]:
            self.stdout.write(f"effect of length (log-odds per log ratio): {_format_number(data['length'])}")
        for judge in data["judges"]:
            flips = judge["flip_rate"]
            both_ways = "" if flips is None else f"; asked both ways round, it flips {flips:.3f}"
            agreement = _format_number(judge["agreement"])
            self.stdout.write(f"judge {judge['judge']}: as the gold {agreement} of {judge['n']}{both_ways}")
        for part in data["undefined"]:
            self.stdout.write(f"undefined: {part['part']} ({part['reason']}) {part['groups'] or ''}".rstrip())


def _format_rank(rank: Mapping[str, Any] | None) -> str:
    return "-" if rank is None else f"{rank['value']} [{rank['low']}, {rank['high']}]"


def _format_number(number: Mapping[str, float | None]) -> str:
    if number["value"] is None:
        return "-"
    ends = [format_decimal(number[end], 3) for end in ("low", "high")]
    return f"{format_decimal(number['value'], 4)} [{ends[0]}, {ends[1]}]"
