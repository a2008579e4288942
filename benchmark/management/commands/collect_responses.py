from __future__ import annotations

import signal
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.errors import N_, AssayError, InputError
from annotation.management.base import AssayCommand
from annotation.models import Job
from annotation.selectors.datasets import get_dataset
from annotation.services import jobs
from benchmark.domain.llm_client.settings import MAX_SYSTEM_CHARACTERS
from benchmark.management.arguments import setting
from benchmark.models import CollectionRun
from benchmark.selectors.collection import CollectionProgress, TextCounts, compute_progress, count_texts
from benchmark.services.collection import CONCURRENCY, TIMEOUT, start_collection

PROGRESS_FORMATS = {
    "responses a second": "{:.1f}/s",
    "retries": "{:.0f} retries",
    "without an answer": "{:.0f} failed",
}


class Command(AssayCommand):
    help = (
        "Ask an OpenAI-compatible endpoint for a model's responses to a dataset. Stopped, the same command goes on;"
        " a key comes from the environment, by the host's name (docs/collection.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--model", required=True, help="whose responses they are; made if it is new")
        parser.add_argument("--endpoint", required=True, metavar="URL", help="as in http://127.0.0.1:8000/v1")
        parser.add_argument("--dataset", required=True, help="whose prompts are asked")
        parser.add_argument(
            "--collection", default="", help="where the responses are kept (default: the unnamed collection)"
        )
        parser.add_argument("--served-model", default="", help="its name there (default: that of --model)")
        parser.add_argument("--temperature", type=float)
        parser.add_argument("--top-p", type=float)
        parser.add_argument("--max-tokens", type=int)
        parser.add_argument("--seed", type=int)
        parser.add_argument("--stop", action="append", metavar="TEXT", help="may be given again")
        parser.add_argument("--system", metavar="TEXT|@FILE", help="the message before each prompt")
        parser.add_argument(
            "--set", action="append", default=[], type=setting, metavar="KEY=JSON", help="any other setting"
        )
        parser.add_argument("--concurrency", type=int, default=CONCURRENCY, help="requests at once")
        parser.add_argument(
            "--timeout", type=float, default=TIMEOUT, help="seconds until a request is given up"
        )
        parser.add_argument("--detach", action="store_true", help="leave the work to a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        run = start_collection(
            model=options["model"],
            dataset=get_dataset(options["dataset"]),
            endpoint=options["endpoint"],
            collection=options["collection"],
            served_model=options["served_model"],
            settings=_settings(options),
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            send=options["detach"],
        )
        assert run.job is not None
        if options["detach"]:
            return {"run": run.pk, "job": run.job.pk, "state": run.job.state}
        job = self._watched(run.job)
        run.refresh_from_db()
        return _result(run, job, compute_progress(run), count_texts(run))

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 1 where it did not come to its end, after saying what there is."""
        self._is_whole = True
        super().handle(*args, **options)
        if not self._is_whole:
            raise SystemExit(1)

    def _print(self, data: Any, *, as_json: bool) -> None:
        self._is_whole = data["state"] in {Job.State.DONE, Job.State.QUEUED}
        super()._print(data, as_json=as_json)

    def show(self, data: dict[str, Any]) -> None:
        if data["state"] == Job.State.QUEUED:
            self.stdout.write(f"job {data['job']} is queued: a worker does it")
            return
        self.stdout.write(
            f"{data['stored']} of {data['prompts']} prompts have a response; {data['answers']} came now,"
            f" {data['requests']} requests, {data['retries']} retries, {data['failed']} without an answer"
        )
        if data["cut"]:
            self.stdout.write(f"{data['cut']} answers were cut off by the limit of tokens (--max-tokens)")
        if data["replaced"]:
            self.stdout.write(
                f"{data['replaced']} answers hold a character that cannot be kept: it is U+FFFD"
            )
        if data["state"] == Job.State.DONE and not data["left"]:
            return
        lost = data["lost"]
        words = {"done": "Some got no answer.", "failed": f"Stopped: {data['error']}"}
        self.stderr.write(
            f"{words.get(data['state'], 'Stopped.')} {lost} answer{'s' * (lost != 1)} under way"
            f" {'were' if lost != 1 else 'was'} lost. The same command goes on with the {data['left']} prompts left."
        )

    def _watched(self, job: Job) -> Job:
        """Run it here, with a bar; Ctrl-C cancels it, so that all that came back is stored and what is lost counted."""
        stop = threading.Event()
        with _stop_on_interrupt(stop), self.fraction() as watch, self.progress(bar_format="{desc}") as line:

            def watcher(progress: float, stage: str) -> None:
                watch(progress, stage)
                line.set_description_str(_progress_text(job.pk) if not self.quiet else "")
                if stop.is_set():
                    raise jobs.Cancelled

            return jobs.run(job.pk, watcher=watcher)


def _result(run: CollectionRun, job: Job, progress: CollectionProgress, texts: TextCounts) -> dict[str, Any]:
    result = job.result
    names = ("answers", "requests", "retries", "limited", "waited", "seconds", "per_second", "lost")
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
        "cut": progress.cut,
        "replaced": texts.replaced,
        **{name: result.get(name, 0) for name in names},
        "lost_in_all": run.lost,
    }


def _progress_text(job_id: int) -> str:
    """The newest values that the job told."""
    newest = {point["name"]: point["value"] for point in Job.objects.get(pk=job_id).history[-8:]}
    return "  ".join(form.format(newest[name]) for name, form in PROGRESS_FORMATS.items() if name in newest)


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


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    named = {
        name: options[name]
        for name in ("temperature", "top_p", "max_tokens", "seed", "stop")
        if options[name] is not None
    }
    if options["system"] is not None:
        named["system"] = _system(options["system"])
    for name, value in options["set"]:
        if name in named:
            raise AssayError(N_("The setting {name} is given twice; give it once."), name=name)
        named[name] = value
    return named


def _system(text: str) -> str:
    if not text.startswith("@"):
        return text
    path = text[1:]
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(MAX_SYSTEM_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise InputError(N_("this file cannot be read as UTF-8."), path=path) from error
