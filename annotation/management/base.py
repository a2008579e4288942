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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

from django.core.management.base import BaseCommand, CommandParser
from django.db.utils import OperationalError, ProgrammingError
from tqdm import tqdm

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, InputError
from annotation.models import Job
from annotation.services import jobs
from annotation.services.imports import Run


class _Parser(CommandParser):
    def error(self, message: str) -> NoReturn:
        """Bad arguments are bad input like any other: one line, exit code 1."""
        sys.stderr.write(f"{self.prog}: {message}; see --help\n")
        raise SystemExit(1)


class AssayCommand(ABC, BaseCommand):
    requires_system_checks: list[str] = []
    former_name = present_name = ""  # where the command is called by the name that it had before

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        kwargs.setdefault("prog", f"{prog_name} {subcommand}")
        parser = _Parser(description=self.help or None, **kwargs)
        parser.add_argument("--json", action="store_true", help="print JSON, for machines")
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

    def handle(self, *args: Any, **options: Any) -> None:
        if self.former_name:
            self.stderr.write(
                f"{self.former_name} is called {self.present_name} now; the former name goes with the next version."
            )
        as_json = options.pop("json")
        self.quiet = as_json or not sys.stderr.isatty()
        try:
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

    def _print(self, data: Any, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(undefined_as_null(data), ensure_ascii=False, indent=1))
        else:
            self.show(data)
        sys.stdout.flush()

    @abstractmethod
    def act(self, **options: Any) -> Any:
        """Do it, and return what ``--json`` prints."""

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
    @contextmanager
    def watched_run(self) -> Iterator[Run]:
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:
            yield Run(progress=lambda fraction: _advance(bar, fraction))

    def show_report(self, report: dict[str, Any]) -> None:
        made = "".join(f", {number} {kind} made" for kind, number in report["made"].items())
        self.stdout.write(
            f"{report['file']}: {report['taken']} {report['kind']} taken,"
            f" {report['already_there']} already there{made}"
        )
        for note in report["notes"]:
            self.stdout.write(f"  note: {note}")


def _advance(bar: Any, fraction: float) -> None:
    bar.update(max(0.0, fraction - bar.n))
