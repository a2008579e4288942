from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats import FORMATS, Source, get_format
from annotation.management.base import ImportCommand
from annotation.services.imports import ImportRequest, import_annotations


class Command(ImportCommand):
    help = "Replay labels made elsewhere through the same rules; each file is taken whole or not at all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="file")
        parser.add_argument("--batch", required=True, help="where they belong; it stays open")
        parser.add_argument("--format", required=True, help=", ".join(FORMATS))
        parser.add_argument("--guideline", help="to make the batch: G (latest published) or G@V")
        parser.add_argument("--dataset", help="to make the batch, or where prompt ids are not unique in it")
        parser.add_argument("--model", help="whose responses were labelled, where the file does not say")
        parser.add_argument(
            "--without-final", action="store_true", help="leave the final decisions out: disputes stay open"
        )

        parser.add_argument(
            "--protocol",
            help="how the labels were made, in your words (who judged, how many, blind or not, in which tool):"
            " documents quote it; without it they say that it is not recorded",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        reports = []
        new_people = False
        passed_over = _judge_files(options["files"], options["format"])
        for file in options["files"]:
            if file in passed_over:
                continue
            report = self._import_file(file, new_people=new_people, options=options)
            # Who is unknown is made together with the batch: also by the later files of the same command.
            new_people = new_people or "batches" in report["made"]
            reports.append(report)
        return {
            "batch": options["batch"],
            "taken": sum(report["taken"] for report in reports),
            "already_there": sum(report["already_there"] for report in reports),
            "files": reports,
            "passed_over": [{"file": file, "field": field} for file, field in passed_over.items()],
        }

    def _import_file(self, file: str, *, new_people: bool, options: dict[str, Any]) -> dict[str, Any]:
        with self.watched_run() as run:
            report = import_annotations(
                source=Source(file),
                format=options["format"],
                request=ImportRequest(
                    batch=options["batch"], guideline=options["guideline"], dataset=options["dataset"]
                ),
                model=options["model"],
                without_final=options["without_final"],
                new_people=new_people,
                protocol=options["protocol"],
                run=run,
            )
        return report.as_json()

    def show(self, data: dict[str, Any]) -> None:
        for unfit in data["passed_over"]:
            self.stdout.write(
                f"{unfit['file']}: passed over: its column {unfit['field']} holds an automatic judge's labels,"
                " not people's; import_judge_labels takes them"
            )
        for report in data["files"]:
            self.show_report(report)


def _judge_files(files: list[str], format_name: str) -> dict[str, str]:
    """The files of judges among those of people, which a pattern takes along, each with the column that shows it.

    Where no file is left they are none of a pattern: each is then refused for itself.
    """
    form = get_format(format_name)
    columns = {file: form.unfit_column(Source(file)) for file in files}
    judges = {file: column for file, column in columns.items() if column is not None}
    return judges if len(judges) < len(columns) else {}
