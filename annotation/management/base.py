"""What every command of Assay shares: one clear line and exit code 1 on bad input, ``--json``, progress.

Subclasses implement ``act``, which returns the data that ``--json`` prints, and ``show`` for people. ``ImportCommand``
adds the progress bar of a file and the report of an import.
"""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, TextIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db.utils import OperationalError, ProgrammingError
from django.utils.translation import gettext
from tqdm import tqdm

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, InputError
from annotation.core.study_scope import limit_to_studies
from annotation.domain.formats import (
    ANNOTATIONS,
    FORMATS,
    PROMPTS,
    RESPONSES,
    ReadOptions,
    Source,
    get_format,
    recognise_format,
)
from annotation.domain.formats.mapping.mapping import IGNORED, LEFT_OUT
from annotation.domain.formats.personal_data import PersonalDataScan
from annotation.domain.formats.preview import (
    FilePreview,
    ProblemGroup,
    group_problems,
    preview_file,
    record_to_json,
)
from annotation.domain.formats.table import NAME as TABLE
from annotation.domain.texts.personal_data import WAYS
from annotation.models import Job
from annotation.selectors.studies import find_study, get_study
from annotation.services import jobs
from annotation.services.imports import ImportReport, Run, rehearse

NAMED_BY = {PROMPTS: "dimensions", RESPONSES: "models", ANNOTATIONS: "people"}
MAX_NAMES = 50
USES = {IGNORED: "not used", LEFT_OUT: "left out"}


class _Parser(CommandParser):
    def error(self, message: str) -> NoReturn:
        """Bad arguments are bad input like any other: one line, exit code 1."""
        sys.stderr.write(f"{self.prog}: {message}; see --help\n")
        raise SystemExit(1)


class AssayCommand(ABC, BaseCommand):
    requires_system_checks: list[str] = []
    is_of_study = True  # whether it works within a study, which --study names
    former_name = present_name = ""  # where the command is called by the name that it had before

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        kwargs.setdefault("prog", f"{prog_name} {subcommand}")
        parser = _Parser(description=self.help or None, **kwargs)
        parser.add_argument("--json", action="store_true", help="print JSON, for machines")
        if self.is_of_study:
            parser.add_argument(
                "--study",
                default=settings.ASSAY_STUDY,
                help="the study that it works in (default: ASSAY_STUDY, or the only one)",
            )
        self.add_base_argument(
            parser, "--traceback", action="store_true", help="show the traceback of an error"
        )
        self.add_base_argument(parser, "--settings", help="the settings module")
        self.add_base_argument(parser, "--pythonpath", help="a folder to add to the Python path")
        self.add_base_argument(parser, "-v", "--verbosity", default=1, type=int, choices=[0, 1, 2, 3])
        self.add_base_argument(parser, "--no-color", action="store_true", help="no colours")
        self.add_base_argument(parser, "--force-color", action="store_true", help="colours")
        parser.set_defaults(skip_checks=True)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""

    def needs_study(self, _options: dict[str, Any]) -> bool:
        """Whether it reads or writes what is of a study, with these options."""
        return True

    def handle(self, *args: Any, **options: Any) -> None:
        if self.former_name:
            self.stderr.write(
                f"{self.former_name} is called {self.present_name} now; the former name goes with the next version."
            )
        as_json = options.pop("json")
        self.quiet = as_json or not sys.stderr.isatty()
        try:
            with self._limit_to_study(options.pop("study", None), options):
                data = self.act(**options)
        except AssayError as error:
            self._refuse(error_text(error), error, options)
        except (OperationalError, ProgrammingError) as error:
            if "no such table" not in str(error) and "does not exist" not in str(error):
                raise
            self._refuse("The database has no tables yet: run python manage.py migrate", error, options)
        try:
            self._print(data, as_json=as_json)
        except BrokenPipeError:  # whoever read, such as `head`, has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if self.is_failure(data):
            sys.exit(1)

    @contextmanager
    def _limit_to_study(self, name: str | None, options: dict[str, Any]) -> Iterator[None]:
        """Within the study of this name, or the only one. AssayError among several, where the command needs one."""
        study = None
        if self.is_of_study and self.needs_study(options):
            study = get_study(name) if name else find_study()
        with limit_to_studies(None if study is None else [study.pk]):
            yield

    def _print(self, data: Any, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(undefined_as_null(data), ensure_ascii=False, indent=1))
        else:
            self.show(data)
        sys.stdout.flush()

    @abstractmethod
    def act(self, **options: Any) -> Any:
        """Do it, and return what ``--json`` prints."""

    def is_failure(self, _data: Any) -> bool:
        """Whether what was printed is no success, so that the command ends with 1."""
        return False

    @abstractmethod
    def show(self, data: Any) -> None:
        """Print ``data`` for a person."""

    def progress(self, **kwargs: Any) -> tqdm[Any]:
        """A progress bar on a terminal; silent in a pipe and with ``--json``."""
        return tqdm(file=sys.stderr, disable=self.quiet, leave=False, **kwargs)

    @contextmanager
    def new_file(self, path: str) -> Iterator[TextIO]:
        """A file to write that is not there yet; UTF-8, line ends as they are written. InputError if it cannot be."""
        try:
            with Path(path).open("x", encoding="utf-8", newline="") as file:
                yield file
        except FileExistsError as error:
            raise InputError(N_("this file is there already; name another."), path=path) from error
        except OSError as error:
            raise InputError(N_("this cannot be written: {why}."), path=path, why=error.strerror) from error

    def run_job(self, job: Job) -> Job:
        """Run the job in this process with a progress bar; raises the reason if it failed."""
        with self.fraction() as watch:
            return jobs.run_now(job, watcher=watch)

    @contextmanager
    def fraction(self) -> Iterator[jobs.Watcher]:
        """A progress bar that is told the share done, from 0 to 1, and what is being done."""
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:

            def watch(progress: float, stage: str) -> None:
                bar.set_description(stage)
                bar.update(max(0.0, progress - bar.n))

            yield watch

    def _refuse(self, line: str, error: Exception, options: dict[str, Any]) -> NoReturn:
        if options.get("traceback"):
            raise error
        self.stderr.write(" ".join(line.splitlines()))
        raise SystemExit(1)


def make_former_name(command: type[AssayCommand], *, former: str, present: str) -> type[AssayCommand]:
    """The same command under the name that it had in the version before, which it mentions on standard error."""
    return type("Command", (command,), {"former_name": former, "present_name": present})


def undefined_as_null(data: Any) -> Any:
    """The data with every undefined statistic, ``{"value": None, ..}``, as None: one word for it in all JSON."""
    if isinstance(data, dict):
        undefined = "value" in data and data["value"] is None and {"low", "high"} & data.keys()
        return None if undefined else {key: undefined_as_null(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [undefined_as_null(value) for value in data]
    return data


class ImportCommand(AssayCommand):
    """A command that takes files: what they are is told by their content, and ``--preview`` shows it first."""

    kind: str

    @contextmanager
    def watched_run(self) -> Iterator[Run]:
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:
            yield Run(progress=lambda fraction: _advance(bar, fraction))

    def add_file_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--format", help=f"{', '.join(FORMATS)} (default: as the content of the file shows it)"
        )
        parser.add_argument(
            "--map",
            nargs="+",
            action="extend",
            default=[],
            metavar="FIELD=COLUMN",
            help="which column is which field, where the header does not show it: prompt=问题; A+B joins two columns,"
            " FIELD= says that there is none, models=A,B and annotators=A,B name a column for each",
        )
        parser.add_argument("--sheet", help="of a spreadsheet (default: the first), or the split of a folder")
        parser.add_argument(
            "--encoding", help="of a text file, such as gb18030 (default: as its bytes show it)"
        )
        parser.add_argument("--preview", action="store_true", help="show what would be taken; store nothing")

    def add_personal_data_argument(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--personal-data",
            choices=WAYS,
            default="",
            help="find: count e-mail addresses, phone and bank numbers and so on in the texts; mask: store"
            " placeholders in their place",
        )

    def build_source(self, file: str, options: dict[str, Any]) -> tuple[Source, str]:
        """The file as it is to be read, and its format."""
        fields = dict(_split_assignment(text) for text in options["map"])
        stated = ReadOptions(
            sheet=options["sheet"],
            encoding=options["encoding"],
            fields=fields,
            annotator=options.get("annotator"),
            left_out=tuple(options.get("leave_out") or ()),
            keeps_quotations=options.get("quotations") == "rationale",
        )
        source = Source(file, options=stated)
        name = options["format"] or recognise_format(source, self.kind)
        if stated.is_stated and name != TABLE:
            raise AssayError(
                N_("The format {format} has its own fields; leave --format out to say what columns are."),
                format=name,
            )
        return source, name

    def preview(
        self, source: Source, format_name: str, act: Callable[[Run], ImportReport], way: str = ""
    ) -> dict[str, Any]:
        """What the file was taken for, and what the import would do, which ``act`` tries and nothing keeps. ``way`` is
        what becomes of personal data.
        """
        scan = PersonalDataScan(way) if way else None
        preview = preview_file(source.reopen(), get_format(format_name), self.kind, personal_data=scan)
        problems, outcome = preview.problems, None
        if not problems:
            tried = rehearse(act)
            if isinstance(tried, ImportReport):
                outcome = tried.as_json()
            else:
                problems = group_problems(tried)
        examples = {"personal_data": [asdict(example) for example in scan.examples]} if scan else {}
        return _preview_to_json(preview, problems) | examples | {"outcome": outcome}

    def is_failure(self, data: dict[str, Any]) -> bool:
        """Whether a file of a preview would be refused."""
        return any(preview["outcome"] is None for preview in data.get("preview", ()))

    def show_outcome(self, data: dict[str, Any]) -> None:
        """Of one file: what came of it, or its preview."""
        for preview in data.get("preview", ()):
            self.show_preview(preview)
        if "preview" not in data:
            self.show_report(data)

    def show_preview(self, data: dict[str, Any]) -> None:
        shape = " ".join(filter(None, (data["shape"], data["sheet"]))) or data["format"]
        self.stdout.write(f"{data['file']}: {shape}, {data['count']} {data['kind']} read")
        for column, name in data["columns"]:
            self.stdout.write(f"  {column} -> {USES.get(name, name)}")
        for row in data["rows"]:
            self.stdout.write(f"  {json.dumps(row, ensure_ascii=False)[:400]}")
        if data["names"]:
            names = ", ".join(f"{name or '-'} {number}" for name, number in data["names"].items())
            self.stdout.write(f"  {NAMED_BY[data['kind']]}: {names[:400]}")
        duplicates = data["duplicates"]
        if duplicates["repeated"] or duplicates["contradicting"]:
            lines = ", ".join(f"{line} as {first}" for line, first in duplicates["lines"])
            self.stdout.write(
                f"  duplicates: {duplicates['repeated']} say the same again, {duplicates['contradicting']}"
                f" something else (lines {lines})"
            )
        if duplicates["renamed"]:
            lines = ", ".join(f"{line} as {first}" for line, first in duplicates["renamed_lines"])
            self.stdout.write(f"  {duplicates['renamed']} have the text of another id (lines {lines})")
        for left_out in data["left_out"]:
            self.stdout.write(f"  left out: {left_out['reason']}")
        for example in data.get("personal_data", ()):
            around = f"…{example['before']}[[{example['text']}]]{example['after']}…"
            self.stdout.write(f"  {example['kind']}, line {example['line']}: {' '.join(around.split())}")
        for problem in data["problems"]:
            where = f" (lines {', '.join(map(str, problem['lines']))}, ..)" if problem["number"] > 1 else ""
            self.stdout.write(f"  {problem['number']} lines: {problem['text']}{where}")
        if data["outcome"] is not None:
            self.stdout.write("Nothing was stored. An import would end so:")
            self.show_report(data["outcome"])
        else:
            self.stdout.write("Nothing was stored. An import would be refused.")

    def show_report(self, report: dict[str, Any]) -> None:
        made = "".join(f", {number} {kind} made" for kind, number in report["made"].items())
        self.stdout.write(
            f"{report['file']}: {report['taken']} {report['kind']} taken,"
            f" {report['already_there']} already there{made}"
        )
        for note in report["notes"]:
            self.stdout.write(f"  note: {note}")


def _split_assignment(text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not equals or not name:
        raise AssayError(N_("{text} is no FIELD=COLUMN, as in prompt=问题."), text=repr(text))
    return name.strip(), column.strip()


def _preview_to_json(preview: FilePreview, problems: list[ProblemGroup]) -> dict[str, Any]:
    return {
        "file": preview.file,
        "format": preview.format,
        "kind": preview.kind,
        "shape": preview.shape,
        "sheet": preview.sheet,
        "sheets": list(preview.sheets),
        "columns": [list(pair) for pair in preview.columns],
        "rows": [record_to_json(record) for record in preview.rows],
        "count": preview.count,
        "names": dict(preview.names.most_common(MAX_NAMES)) if set(preview.names) - {""} else {},
        "duplicates": asdict(preview.duplicates),
        "left_out": [
            {"reason": gettext(template).format(number=number), "number": number}
            for template, number in preview.left_out.items()
        ],
        "unused": preview.unused,
        "problems": [
            {
                "number": group.number,
                "lines": group.lines,
                "field": group.first.field,
                "text": gettext(group.first.template).format(**group.first.params),
            }
            for group in problems
        ],
    }


def _advance(bar: Any, fraction: float) -> None:
    bar.update(max(0.0, fraction - bar.n))
