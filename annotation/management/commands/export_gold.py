from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.releases.releases import get_release
from annotation.services.exports import WRITERS, Options, export_release


class Command(AssayCommand):
    help = "Write a gold release, its manifest and its datasheet into a folder."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--format", choices=list(WRITERS), default="jsonl", help="default: jsonl")
        parser.add_argument("--out", required=True, metavar="DIR", help="the folder, made if need be")
        parser.add_argument(
            "--real-names",
            action="store_true",
            help="people under their names, not under pseudonyms (where people are named)",
        )
        parser.add_argument(
            "--rationales", action="store_true", help="with what people wrote and marked beside their labels"
        )
        parser.add_argument("--times", action="store_true", help="with the time of each label (bundle)")
        parser.add_argument(
            "--table", choices=["csv", "jsonl"], default="csv", help="of labels; default: csv"
        )
        parser.add_argument("--license", default="other", help="of hf, as its card says it; default: other")

    def act(self, **options: Any) -> dict[str, Any]:
        release = get_release(options["name"])
        chosen_options = Options(
            **{name: options[name] for name in ("real_names", "rationales", "times", "table", "license")}
        )
        with self.fraction() as report:
            export = export_release(
                release=release,
                format_name=options["format"],
                folder=options["out"],
                options=chosen_options,
                report=report,
            )
        return {
            "name": release.name,
            "sha256": release.sha256,
            "path": str(export.path),
            "manifest": str(export.manifest),
            "rows": export.rows,
            "labels": export.labels,
            "files": [
                {"name": file.name, "bytes": file.bytes, "sha256": file.sha256} for file in export.files
            ],
        }

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['path']}: {data['rows']} rows, {data['labels']} labels")
        for file in data["files"]:
            self.stdout.write(f"  {file['name']}  {file['bytes']} bytes  sha256 {file['sha256']}")
