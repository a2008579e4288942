from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.names import split_name_lists
from annotation.management.base import AssayCommand
from annotation.selectors.batches import get_batches
from annotation.selectors.releases.releases import get_release
from annotation.selectors.reports import build_batches_report, build_release_report
from annotation.views.reports import render_json, render_latex

LANGUAGES = {"en": "en", "zh": "zh-hans"}


class Command(AssayCommand):
    help = "Report on batches or a gold release for the appendix of a paper, as JSON or LaTeX."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--batches", nargs="+", default=[], help="the batches to report on")
        parser.add_argument("--release", help="or the gold release to report on")
        parser.add_argument("--format", choices=["json", "latex"], default="latex", help="default: latex")
        parser.add_argument("--language", choices=list(LANGUAGES), default="en", help="of LaTeX; default: en")
        parser.add_argument("--out", metavar="FILE", help="a new file to write into")

    def act(self, **options: Any) -> dict[str, Any]:
        self.options = options
        batch_names = split_name_lists(options["batches"])
        if bool(batch_names) == bool(options["release"]):
            raise AssayError(N_("Name the batches to report on, or a gold release."))
        if options["release"]:
            report = build_release_report(get_release(options["release"]))
        else:
            report = build_batches_report(get_batches(batch_names))
        if options["out"]:
            self._write(options["out"], self._text(report))
        return report

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(self.options["out"] or self._text(data).rstrip("\n"))

    def _text(self, report: dict[str, Any]) -> str:
        if self.options["format"] == "json":
            return render_json(report)
        return render_latex(report, LANGUAGES[self.options["language"]])

    def _write(self, path: str, text: str) -> None:
        with self.new_file(path) as file:
            file.write(text)
