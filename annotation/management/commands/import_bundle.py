from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.domain.formats import Source
from annotation.domain.formats.bundle import Bundle
from annotation.management.base import ImportCommand
from annotation.services.imports import BundleNames, import_bundle
from annotation.services.imports.bundle import batch_names


class Command(ImportCommand):
    help = (
        "Take in a bundle that another site exported: guidelines, data, labels and decisions, replayed through the"
        " same rules. Kept only if the release comes out with the bundle's sha256."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument(
            "--as-batch",
            action="append",
            default=[],
            metavar="[OLD=]NEW",
            help="what its batch is called here; with several, one for each to be called otherwise",
        )
        parser.add_argument("--release", default="", metavar="NAME", help="keep the release under this name")
        parser.add_argument(
            "--protocol", default="", help="what you know of how its labels were made: documents quote it"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        source = Source(options["file"])
        called = BundleNames(
            _read_names(options["as_batch"], source), options["release"], options["protocol"] or ""
        )
        with self.watched_run() as run:
            report = import_bundle(source=source, called=called, run=run)
        manifest = Bundle(source).manifest
        return report.as_json() | {
            "sha256": manifest.sha256,
            "batches": list(batch_names(manifest, called.batches).values()),
            "release": called.release or None,
        }

    def show(self, data: dict[str, Any]) -> None:
        self.show_report(data)


def _read_names(texts: list[str], source: Source) -> dict[str, str]:
    """``NEW`` alone is for the only batch of a bundle."""
    names = dict(text.split("=", 1) for text in texts if "=" in text)
    new_names = [text for text in texts if "=" not in text]
    if new_names:
        known = [batch.name for batch in Bundle(source).manifest.batches]
        if len(new_names) > 1 or len(known) > 1 or names:
            raise AssayError(
                N_(
                    "The bundle has the batches {known}; write OLD=NEW for each that is to be called otherwise."
                ),
                known=", ".join(known),
            )
        names[known[0]] = new_names[0]
    return names
