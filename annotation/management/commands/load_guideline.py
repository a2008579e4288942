from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.files import read_text
from annotation.management.base import AssayCommand
from annotation.services.guidelines import load_guideline


class Command(AssayCommand):
    is_of_study = False
    help = "Validate and store a guideline version; --publish freezes it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="the YAML document")
        parser.add_argument(
            "--publish", action="store_true", help="publish it: from then on it never changes"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        file = options["file"]
        guideline = load_guideline(text=read_text(file), path=file, publish=options["publish"])
        return {
            "name": guideline.name,
            "version": guideline.version,
            "sha256": guideline.sha256,
            "published": guideline.is_published,
        }

    def show(self, data: dict[str, Any]) -> None:
        state = "published" if data["published"] else "draft"
        self.stdout.write(f"{data['name']}@{data['version']} ({state}) sha256 {data['sha256']}")
