from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from annotation.core.formatting import format_bracketed, format_decimal, format_signed
from annotation.core.names import split_name_lists
from annotation.core.terminal import format_table
from annotation.management.base import AssayCommand
from annotation.models import Batch
from annotation.selectors.batches import get_batches
from annotation.selectors.quality import build_quality_report

HEADS = ("person", "tasks", "as gold", "as partners", "follows", "severity", "drift", "seconds", "findings")


class Command(AssayCommand):
    help = "Report how everybody's labels compare with gold and with the others', and the findings."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--batch",
            nargs="+",
            help="only these batches, each response of them once (default: all that were opened)",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        named = options["batch"]
        if named is not None:
            return build_quality_report(get_batches(split_name_lists(named)))
        opened = Batch.objects.exclude(state=Batch.State.DRAFT).select_related("guideline")
        return build_quality_report(list(opened.order_by("pk")))

    def show(self, data: dict[str, Any]) -> None:
        for line in format_table([HEADS, *map(_build_line, data["people"])], texts=len(HEADS)):
            self.stdout.write(line)
        for pair in (candidate for candidate in data["copying"] if candidate["flagged"]):
            observed, expected = (round(pair[name] * pair["n"]) for name in ("observed", "expected"))
            names = " and ".join(pair["people"])
            self.stdout.write(f"{names}: {observed} of {pair['n']} equal labels, {expected} expected")
        for adjudicator in data["adjudicators"]:
            share = _format_share(adjudicator["alike_again"])
            self.stdout.write(
                f"{adjudicator['person']}: {adjudicator['decisions']} disputes decided, intra-rater agreement {share}"
            )


def _build_line(person: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = person["median_seconds"]
    return (
        person["person"],
        str(person["tasks"]),
        _format_share(person["gold"]),
        _format_share(person["partners"]),
        *(_format_figure(person[name]) for name in ("random", "severity", "drift")),
        format_decimal(seconds, 1),
        ", ".join(person["flags"]) or "-",
    )


def _format_share(statistic: Mapping[str, Any]) -> str:
    return format_bracketed(statistic["value"], statistic["low"], statistic["high"])


def _format_figure(statistic: Mapping[str, Any] | None) -> str:
    return format_signed(statistic["value"] if statistic else None, 2)
