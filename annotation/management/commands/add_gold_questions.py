from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.names import split_names
from annotation.management.base import AssayCommand
from annotation.models import GoldLabel, GoldQuestion
from annotation.selectors.batches import get_batch
from annotation.selectors.releases.releases import get_release
from annotation.services.gold_questions.sources import (
    RELIABLE_SOURCES,
    add_from_batches,
    add_from_file,
    add_from_release,
)


class Command(AssayCommand):
    help = "Add gold questions to a batch: for gold checks, or for the qualification before the work."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("batch")
        parser.add_argument(
            "--kind", default=GoldQuestion.Kind.CHECK.value, help="check (the default) or qualification"
        )
        parser.add_argument("--from-release", metavar="R", help="draw them from this gold release")
        parser.add_argument("--from-batches", nargs="+", default=[], help="or from these closed batches")
        parser.add_argument("--file", help="or take those of this file: JSON lines or CSV")
        parser.add_argument("--number", type=int, default=50, help="how many to draw (default 50)")
        parser.add_argument(
            "--sources",
            nargs="+",
            default=[source.value for source in RELIABLE_SOURCES],
            metavar="SOURCE",
            help=f"draw gold of these sources alone, of {', '.join(GoldLabel.Source.values)}"
            " (default unanimous adjudicated)",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        batch, kind = get_batch(options["batch"]), options["kind"]
        batches = [get_batch(name) for value in options["from_batches"] for name in split_names(value)]
        origins = [bool(options["from_release"]), bool(batches), bool(options["file"])]
        if sum(origins) != 1:
            raise AssayError(N_("Say where the items come from: --from-release, --from-batches or --file."))
        sources = [name for value in options["sources"] for name in split_names(value)]
        unknown = sorted(set(sources) - set(GoldLabel.Source.values))
        if unknown:
            raise AssayError(
                N_("{source} is no source of gold; there are: {known}."),
                source=unknown[0],
                known=", ".join(GoldLabel.Source.values),
            )
        if options["file"]:
            made = add_from_file(batch=batch, kind=kind, path=options["file"])
        elif batches:
            number = options["number"]
            made = add_from_batches(batch=batch, kind=kind, batches=batches, number=number, sources=sources)
        else:
            release, number = get_release(options["from_release"]), options["number"]
            made = add_from_release(batch=batch, kind=kind, release=release, number=number, sources=sources)
        total = GoldQuestion.objects.filter(batch=batch, kind=kind, active=True).count()
        return {"batch": batch.name, "kind": kind, "added": len(made), "there": total}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(
            f"{data['batch']}: {data['added']} items added as {data['kind']}, {data['there']} are there"
        )
