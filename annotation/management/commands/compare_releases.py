from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.models import GoldRelease
from annotation.selectors.releases.comparison import (
    KINDS,
    compare_agreement,
    compare_releases,
    iterate_changes,
    iterate_csv_lines,
)
from annotation.selectors.releases.releases import get_release


class Command(AssayCommand):
    help = "Say what differs between two gold releases: labels added, removed and changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("before")
        parser.add_argument("after")
        parser.add_argument("--changes", metavar="FILE", help="write every change into a new CSV file")

    def act(self, **options: Any) -> dict[str, Any]:
        before, after = get_release(options["before"]), get_release(options["after"])
        if options["changes"]:
            self._write(before, after, options["changes"])
        return {**compare_releases(before, after).to_json(), "agreement": compare_agreement(before, after)}

    def _write(self, before: GoldRelease, after: GoldRelease, path: str) -> None:
        with self.new_file(path) as file:
            file.writelines(iterate_csv_lines(iterate_changes(before, after)))

    def show(self, data: dict[str, Any]) -> None:
        write = self.stdout.write
        write(f"{data['before']['name']} ({data['before']['labels']} labels) and "
              f"{data['after']['name']} ({data['after']['labels']} labels)")  # fmt: skip
        if data["before"]["sha256"] == data["after"]["sha256"]:
            write("They hold the same gold.")
            return
        write(f"the same: {data['same']}")
        for kind in KINDS:
            write(f"{WORDS[kind]}: {data[kind]}")
        for name, counts in data["by_criterion"].items():
            parts = ", ".join(f"{WORDS[kind]} {counts[kind]}" for kind in KINDS if counts.get(kind))
            write(f"  {name}: {parts}")


WORDS = {
    "value": "changed in value",
    "source": "changed in source",
    "version": "changed in guideline version alone",
    "added": "added",
    "removed": "removed",
}
