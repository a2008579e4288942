from __future__ import annotations

import hashlib
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from annotation.core.errors import N_, InputError
from annotation.management.base import AssayCommand
from benchmark.management.campaigns import get_named_campaign
from benchmark.services.workbench.exports import FILES, JSONL, count_lines, iterate_lines


class Command(AssayCommand):
    help = (
        "Write a campaign into a folder: its accepted prompts in Flames' form, or all about every proposal that was"
        " submitted (docs/workbench.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument(
            "--format",
            choices=list(FILES),
            default=JSONL,
            help="flames: dimension, subcomponent and prompt of what was accepted; jsonl: everything"
            " (default: %(default)s)",
        )
        parser.add_argument("--out", required=True, metavar="DIR", help="the folder, made if need be")
        parser.add_argument(
            "--names", action="store_true", help="people under their names, not under pseudonyms"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        campaign, format_name = get_named_campaign(options["name"]), options["format"]
        path = Path(options["out"]) / FILES[format_name]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                N_("this cannot be written: {why}."), path=str(path.parent), why=error.strerror
            ) from error
        digest, number = hashlib.sha256(), 0
        with self.new_file(str(path)) as file, self.progress(total=count_lines(campaign, format_name)) as bar:
            try:
                for line in iterate_lines(campaign, format_name, names=options["names"]):
                    file.write(line)
                    digest.update(line.encode())
                    number += 1
                    bar.update()
            except BaseException:
                path.unlink()  # half a file would pass for the whole
                raise
        return {
            "campaign": campaign.name,
            "format": format_name,
            "path": str(path),
            "lines": number,
            "sha256": digest.hexdigest(),
            "names": options["names"],
        }

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['path']}: {data['lines']} lines  sha256 {data['sha256']}")
