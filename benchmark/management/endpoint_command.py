"""Commands that ask an endpoint: their settings, a bar while they ask, and Ctrl-C that loses nothing stored."""

from __future__ import annotations

import signal
import threading
from abc import abstractmethod
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.errors import N_, AssayError, InputError
from annotation.management.base import AssayCommand
from annotation.models import Job
from annotation.services import jobs
from benchmark.domain.llm_client.settings import MAX_SYSTEM_CHARACTERS
from benchmark.management.arguments import setting
from benchmark.models import EndpointRun
from benchmark.selectors.endpoint_runs import RunProgress
from benchmark.services.endpoint_runs import CONCURRENCY, TIMEOUT

JOB_COUNTS = ("answers", "requests", "retries", "limited", "waited", "seconds", "per_second", "lost")


class EndpointCommand(AssayCommand):
    """``unit`` is what it makes, one for each prompt. ``progress_formats`` says how the newest values of the job's
    curves are printed beside the bar.
    """

    unit: str
    progress_formats: Mapping[str, str]

    @abstractmethod
    def start_run(self, options: Mapping[str, Any], *, send: bool) -> EndpointRun:
        """Begin the run of these options, or go on with it."""

    @abstractmethod
    def measure_run(self, run: Any) -> tuple[RunProgress, Mapping[str, Any]]:
        """How far it is, and what else is counted of it."""

    @abstractmethod
    def show_counts(self, data: Mapping[str, Any]) -> None:
        """Print how far it is for a person."""

    def act(self, **options: Any) -> dict[str, Any]:
        run = self.start_run(options, send=options["detach"])
        assert run.job is not None
        if options["detach"]:
            return {"run": run.pk, "job": run.job.pk, "state": run.job.state}
        job = self.run_watched(run.job)
        run.refresh_from_db()
        progress, counts = self.measure_run(run)
        return {
            "run": run.pk,
            "job": job.pk,
            "state": job.state,
            "error": job.error,
            "model": run.model.name,
            "dataset": run.dataset.name,
            "collection": run.collection.name,
            "prompts": progress.prompts,
            "stored": progress.stored,
            "left": progress.left,
            "failed": progress.failed,
            **{name: job.result.get(name, 0) for name in JOB_COUNTS},
            "lost_in_all": run.lost,
            **counts,
        }

    def show(self, data: dict[str, Any]) -> None:
        if data["state"] == Job.State.QUEUED:
            self.stdout.write(f"job {data['job']} is queued: a worker does it")
            return
        self.show_counts(data)
        if data["state"] != Job.State.DONE or data["left"]:
            self._show_stop(data)

    def add_pace_arguments(self, parser: ArgumentParser, unit: str) -> None:
        parser.add_argument("--concurrency", type=int, default=CONCURRENCY, help=f"{unit} at once")
        parser.add_argument(
            "--timeout", type=float, default=TIMEOUT, help="seconds until a request is given up"
        )
        parser.add_argument("--detach", action="store_true", help="leave the work to a worker")

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 1 where it did not come to its end, after saying what there is."""
        self._is_whole = True
        super().handle(*args, **options)
        if not self._is_whole:
            raise SystemExit(1)

    def _print(self, data: Any, *, as_json: bool) -> None:
        self._is_whole = data["state"] in {Job.State.DONE, Job.State.QUEUED}
        super()._print(data, as_json=as_json)

    def _show_stop(self, data: Mapping[str, Any]) -> None:
        """Why it did not come to its end, and how it goes on."""
        lost, left = data["lost"], f"{data['left']} {self.unit}"
        reasons = {"done": "Some got no answer.", "failed": f"Stopped: {data['error']}"}
        self.stderr.write(
            f"{reasons.get(data['state'], 'Stopped.')} {lost} answer{'s' * (lost != 1)} under way"
            f" {'were' if lost != 1 else 'was'} lost. The same command goes on with the {left} left."
        )

    def run_watched(self, job: Job) -> Job:
        """Run it here, with a bar; Ctrl-C cancels it, so that all that came back is stored and what is lost counted."""
        stop = threading.Event()
        with _stop_on_interrupt(stop), self.fraction() as watch, self.progress(bar_format="{desc}") as line:

            def watcher(progress: float, stage: str) -> None:
                watch(progress, stage)
                line.set_description_str(self._format_progress(job.pk) if not self.quiet else "")
                if stop.is_set():
                    raise jobs.Cancelled

            return jobs.run(job.pk, watcher=watcher)

    def _format_progress(self, job_id: int) -> str:
        """The newest values that the job reported."""
        newest = {point["name"]: point["value"] for point in Job.objects.get(pk=job_id).history[-8:]}
        formats = self.progress_formats.items()
        return "  ".join(form.format(newest[name]) for name, form in formats if name in newest)


@contextmanager
def _stop_on_interrupt(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C asks to stop; the second one is the usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def add_settings_arguments(parser: ArgumentParser, prefix: str = "") -> None:
    """What is sent with every request; ``prefix`` goes before the names, as in ``--agent-temperature``."""
    option = f"--{prefix}"
    parser.add_argument(f"{option}temperature", type=float)
    parser.add_argument(f"{option}top-p", type=float)
    parser.add_argument(f"{option}max-tokens", type=int)
    parser.add_argument(f"{option}seed", type=int)
    parser.add_argument(f"{option}stop", action="append", metavar="TEXT", help="may be given again")
    parser.add_argument(
        f"{option}set",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=JSON",
        help="any other setting",
    )


def read_settings(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    values = {
        name: options[f"{prefix}{name}"] for name in ("temperature", "top_p", "max_tokens", "seed", "stop")
    }
    named = {name: value for name, value in values.items() if value is not None}
    if options.get(f"{prefix}system") is not None:
        named["system"] = read_text(options[f"{prefix}system"])
    for name, value in options[f"{prefix}set"]:
        if name in named:
            raise AssayError(N_("The setting {name} is given twice; give it once."), name=name)
        named[name] = value
    return named


def read_text(text: str) -> str:
    """The text, or what the file after an ``@`` holds, up to one character more than may be sent."""
    if not text.startswith("@"):
        return text
    path = text[1:]
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(MAX_SYSTEM_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise InputError(N_("this file cannot be read as UTF-8."), path=path) from error
