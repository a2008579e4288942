from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from annotation.domain.batch_spec import USUAL_POLICY
from annotation.domain.formats import ANNOTATIONS, Source, get_format
from annotation.management.base import ImportCommand
from annotation.management.policies import add_settling_arguments
from annotation.services.imports import (
    COLLECTION_TERMS,
    ImportReport,
    ImportRequest,
    Run,
    build_collection_policy,
    import_annotations,
    plan_label_files,
)


class Command(ImportCommand):
    help = "Replay labels made elsewhere through the same rules; each file is taken whole or not at all."
    kind = ANNOTATIONS

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="file")
        parser.add_argument("--batch", required=True, help="where they belong; it stays open")
        parser.add_argument("--guideline", help="to make the batch: G (latest published) or G@V")
        parser.add_argument("--dataset", help="to make the batch, or where prompt ids are not unique in it")
        parser.add_argument("--slates", metavar="NAME", help="to make the batch: of the slates of this set")
        parser.add_argument("--model", help="whose responses were labelled, where the file does not say")
        parser.add_argument(
            "--annotator",
            help="whose labels these are, where the file does not say (default: its name); made if unknown",
        )
        parser.add_argument(
            "--overlap",
            type=int,
            help="to make the batch: for how many people each response is, where more files come later (default: as"
            " many as these files have, 2 at least); of an open plan how many at least (default: 1)",
        )
        parser.add_argument(
            "--leave-out",
            nargs="+",
            action="extend",
            default=[],
            metavar="NAME",
            help="columns, controls of Label Studio and criteria that the guideline does not know, and that are to be"
            " left out",
        )
        parser.add_argument(
            "--quotations",
            choices=("refuse", "rationale"),
            default="refuse",
            help="what becomes of quoted evidence whose words stand nowhere in the response: its line is refused, or"
            " the words become a part of the rationale (default: %(default)s)",
        )
        parser.add_argument(
            "--without-final", action="store_true", help="leave the final decisions out: disputes stay open"
        )
        parser.add_argument(
            "--plan",
            help="of a batch that is made: fixed, with as many labels for each response as the overlap says; or open,"
            f" with as many as there are, until end_collection (default {USUAL_POLICY.plan})",
        )
        add_settling_arguments(parser, is_usual=False)
        parser.add_argument(
            "--protocol",
            help="how the labels were made, in your words (who judged, how many, blind or not, in which tool):"
            " documents quote it; without it they say that it is not recorded",
        )
        self.add_file_arguments(parser)

    def act(self, **options: Any) -> dict[str, Any]:
        files = {file: self.build_source(file, options) for file in options["files"]}
        request = ImportRequest(
            batch=options["batch"],
            guideline=options["guideline"],
            dataset=options["dataset"],
            overlap=options["overlap"],
            slates=options["slates"],
            policy=build_collection_policy(options),
            stated=frozenset(name for name in ("overlap", *COLLECTION_TERMS) if options[name] is not None),
        )
        request = plan_label_files(list(files.values()), request)
        passed_over = _list_judge_files(files)
        outcomes: list[dict[str, Any]] = []
        new_people = False
        for file, (source, format_name) in files.items():
            if file in passed_over:
                continue
            take = _build_taking(source, format_name, request, options, new_people=new_people)
            if options["preview"]:
                outcomes.append(self.preview(source, format_name, take))
                continue
            with self.watched_run() as run:
                report = take(run).as_json()
            # Who is unknown is made together with the batch: also by the later files of the same command.
            new_people = new_people or "batches" in report["made"]
            outcomes.append(report)
        skipped = [{"file": file, "field": field} for file, field in passed_over.items()]
        if options["preview"]:
            return {"preview": outcomes, "passed_over": skipped}
        return {
            "batch": options["batch"],
            "taken": sum(report["taken"] for report in outcomes),
            "already_there": sum(report["already_there"] for report in outcomes),
            "files": outcomes,
            "passed_over": skipped,
        }

    def show(self, data: dict[str, Any]) -> None:
        for unfit in data["passed_over"]:
            self.stdout.write(
                f"{unfit['file']}: passed over: its column {unfit['field']} holds an automatic judge's labels,"
                " not people's; import_judge_labels takes them"
            )
        for preview in data.get("preview", ()):
            self.show_preview(preview)
        for report in data.get("files", ()):
            self.show_report(report)


def _build_taking(
    source: Source, format_name: str, request: ImportRequest, options: dict[str, Any], *, new_people: bool
) -> Callable[[Run], ImportReport]:
    def take(run: Run) -> ImportReport:
        return import_annotations(
            source=source,
            format=format_name,
            request=request,
            model=options["model"],
            without_final=options["without_final"],
            new_people=new_people,
            protocol=options["protocol"],
            run=run,
        )

    return take


def _list_judge_files(files: dict[str, tuple[Source, str]]) -> dict[str, str]:
    """The files of judges among those of people, which a pattern takes along, each with the column that shows it.

    Where no file is left they are none of a pattern: each is then refused for itself.
    """
    columns = {
        file: get_format(format_name).unfit_column(source.reopen())
        for file, (source, format_name) in files.items()
    }
    judges = {file: column for file, column in columns.items() if column is not None}
    return judges if len(judges) < len(columns) else {}
