from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.names import join_names
from annotation.domain.formats import Source
from annotation.domain.formats.rows import as_number
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline
from benchmark.domain.judges.formats import FORMATS, LOGS
from benchmark.selectors.leaderboards.runs import get_collection
from benchmark.services.judges.labels import JudgeLabelTarget, import_judge_labels, import_scores


class Command(AssayCommand):
    help = "Take the labels of a judge from files; each file is taken whole or not at all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="file")
        parser.add_argument(
            "--judge",
            help="whose labels these are; made if it is not there. Of a harness's log only the scores of this"
            " judge, such as inspect/match (default: each scorer is a judge of its name)",
        )
        parser.add_argument("--guideline", required=True, help="G (latest published) or G@V")
        parser.add_argument("--format", required=True, help=", ".join(FORMATS))
        parser.add_argument("--dataset", required=True)
        parser.add_argument(
            "--collection", default="", help="the collection of responses (default: the unnamed)"
        )
        parser.add_argument(
            "--levels",
            nargs="*",
            default=[],
            metavar="SCORE=LEVEL",
            help="which level each score in a harness's log means, as in C=3 I=1 (default: that of its value)",
        )
        parser.add_argument("--model", help="whose responses were judged, where the file does not say")

    def act(self, **options: Any) -> dict[str, Any]:
        is_log = options["format"] in LOGS
        if not is_log and not options["judge"]:
            raise AssayError(N_("Say whose labels these are (--judge)."))
        levels = _read_levels(options["levels"])
        into = JudgeLabelTarget(
            judge=options["judge"] or "",
            guideline=get_guideline(options["guideline"]),
            dataset=get_dataset(options["dataset"]),
            collection=get_collection(options["collection"]),
            model=options["model"],
        )
        reports = []
        with self.progress(total=len(options["files"]), unit="file") as bar:
            for file in options["files"]:
                source = Source(file)
                if is_log:
                    file_reports = import_scores(
                        source=source, format_name=options["format"], into=into, levels=levels
                    )
                else:
                    file_reports = [
                        import_judge_labels(source=source, format_name=options["format"], into=into)
                    ]
                reports += [report.as_json() for report in file_reports]
                bar.update()
        return {
            "judge": join_names(dict.fromkeys(report["judge"] for report in reports)),
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
                f"{file_report['file']} ({file_report['judge']}): {file_report['taken']} labels taken,"
                f" {file_report['already_there']} there already, {file_report['off_scale']} of its labels off the scale"
            )
        self.stdout.write(f"{data['judge']} ({data['guideline']}): {data['taken']} labels taken")


def _read_levels(texts: list[str]) -> dict[str, float]:
    """From ``C=3 I=1``."""
    levels = {}
    for text in texts:
        score, _equals, level = text.rpartition("=")
        number = as_number(level)
        if not score or number is None:
            raise AssayError(
                N_("{text} says of no score which level it means: write such as C=3."), text=repr(text)
            )
        levels[score] = number
    return levels
