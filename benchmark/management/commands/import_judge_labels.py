from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats import Source
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline
from benchmark.domain.judges.formats import FORMATS
from benchmark.selectors.leaderboards.runs import get_collection
from benchmark.services.judges.labels import JudgeLabelTarget, import_judge_labels


class Command(AssayCommand):
    help = "Take the labels of a judge from files; each file is taken whole or not at all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="file")
        parser.add_argument("--judge", required=True, help="whose labels these are; made if it is not there")
        parser.add_argument("--guideline", required=True, help="G (latest published) or G@V")
        parser.add_argument("--format", required=True, help=", ".join(FORMATS))
        parser.add_argument("--dataset", required=True)
        parser.add_argument(
            "--collection", default="", help="the collection of responses (default: the unnamed)"
        )
        parser.add_argument("--model", help="whose responses were judged, where the file does not say")

    def act(self, **options: Any) -> dict[str, Any]:
        into = JudgeLabelTarget(
            judge=options["judge"],
            guideline=get_guideline(options["guideline"]),
            dataset=get_dataset(options["dataset"]),
            collection=get_collection(options["collection"]),
            model=options["model"],
        )
        reports = []
        with self.progress(total=len(options["files"]), unit="file") as bar:
            for file in options["files"]:
                report = import_judge_labels(source=Source(file), format_name=options["format"], into=into)
                reports.append(report.as_json())
                bar.update()
        return {
            "judge": into.judge,
            "guideline": str(into.guideline),
            **{
                name: sum(report[name] for report in reports)
                for name in ("taken", "already_there", "off_scale")
            },
            "files": reports,
        }

    def show(self, data: dict[str, Any]) -> None:
        for file_report in data["files"]:
            self.stdout.write(
                f"{file_report['file']}: {file_report['taken']} labels taken,"
                f" {file_report['already_there']} there already, {file_report['off_scale']} of its labels off the scale"
            )
        self.stdout.write(f"{data['judge']} ({data['guideline']}): {data['taken']} labels taken")
