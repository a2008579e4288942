"""What the import commands share: the bar that follows the file, and the report for a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from annotation.management.base import AssayCommand
from annotation.services.imports import Run


class ImportCommand(AssayCommand):
    @contextmanager
    def watched_run(self) -> Iterator[Run]:
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:
            yield Run(progress=lambda fraction: _advance(bar, fraction))

    def show_report(self, report: dict[str, Any]) -> None:
        made = "".join(f", {number} {what} made" for what, number in report["made"].items())
        self.stdout.write(
            f"{report['file']}: {report['taken']} {report['kind']} taken,"
            f" {report['already_there']} already there{made}"
        )
        for note in report["notes"]:
            self.stdout.write(f"  note: {note}")


def _advance(bar: Any, fraction: float) -> None:
    bar.update(max(0.0, fraction - bar.n))
