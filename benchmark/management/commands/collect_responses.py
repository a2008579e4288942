from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.models import Job
from annotation.selectors.datasets import get_dataset
from benchmark.management.endpoint_command import (
    EndpointCommand,
    add_settings_arguments,
    read_settings,
)
from benchmark.models import CollectionRun
from benchmark.selectors.collection import CollectionProgress, TextCounts, compute_progress, count_texts
from benchmark.services.collection import start_collection


class Command(EndpointCommand):
    progress_formats = {
        "responses a second": "{:.1f}/s",
        "retries": "{:.0f} retries",
        "without an answer": "{:.0f} failed",
    }
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
        add_settings_arguments(parser)
        parser.add_argument("--system", metavar="TEXT|@FILE", help="the message before each prompt")
        self.add_pace_arguments(parser, "requests")

    def act(self, **options: Any) -> dict[str, Any]:
        run = start_collection(
            model=options["model"],
            dataset=get_dataset(options["dataset"]),
            endpoint=options["endpoint"],
            collection=options["collection"],
            served_model=options["served_model"],
            settings=read_settings(options),
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            send=options["detach"],
        )
        assert run.job is not None
        if options["detach"]:
            return {"run": run.pk, "job": run.job.pk, "state": run.job.state}
        job = self.run_watched(run.job)
        run.refresh_from_db()
        return _result(run, job, compute_progress(run), count_texts(run))

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
        self.show_stop(data, "prompts")


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
