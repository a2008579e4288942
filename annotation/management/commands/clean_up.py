from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from annotation.management.base import AssayCommand
from annotation.services.upkeep.clean_up import clean_up


class Command(AssayCommand):
    help = "Remove what is not needed any more, as the beat does each night; without --yes only say what would go."
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="remove it")

    def act(self, **options: Any) -> dict[str, Any]:
        remains = clean_up(remove=options["yes"])
        return {
            "removed": options["yes"],
            "remains": {kind: asdict(of_kind) for kind, of_kind in remains.items()},
        }

    def is_failure(self, data: dict[str, Any]) -> bool:
        return any(of_kind["error"] for of_kind in data["remains"].values())

    def show(self, data: dict[str, Any]) -> None:
        for kind, of_kind in data["remains"].items():
            size = f"  {of_kind['bytes']:>15,} bytes" if of_kind["bytes"] else ""
            self.stdout.write(f"{kind:<20} {of_kind['number']:>10,}{size}")
            if of_kind["error"]:
                self.stderr.write(f"{kind}: {of_kind['error']}")
        if not data["removed"]:
            self.stdout.write("Nothing was removed; --yes removes it.")
