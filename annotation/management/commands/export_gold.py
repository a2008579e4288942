from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.goldfile import FORMATS
from annotation.management.base import AssayCommand
from annotation.selectors.gold import release_named
from annotation.services.exports import export_release


class Command(AssayCommand):
    help = "Write a gold release and its manifest into a folder."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--format", choices=list(FORMATS), default="jsonl", help="default: jsonl")
        parser.add_argument("--out", required=True, metavar="DIR", help="the folder, made if need be")

    def act(self, **options: Any) -> dict[str, Any]:
        release = release_named(options["name"])
        export = export_release(release=release, format_name=options["format"], folder=options["out"])
        return {
            "name": release.name,
            "sha256": release.sha256,
            "path": str(export.path),
            "manifest": str(export.manifest),
            "rows": export.rows,
            "labels": export.labels,
        }

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['path']}: {data['rows']} rows, {data['labels']} labels")
