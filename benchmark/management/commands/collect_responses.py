from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from annotation.selectors.datasets import get_dataset
from benchmark.management.endpoint_command import (
    EndpointCommand,
    add_settings_arguments,
    read_settings,
)
from benchmark.models import CollectionRun
from benchmark.selectors.collection import compute_samples_progress, count_texts, list_runs_of_job
from benchmark.selectors.endpoint_runs import RunProgress
from benchmark.services.collection import start_collection


class Command(EndpointCommand):
    unit = "responses"
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
        parser.add_argument(
            "--samples",
            type=int,
            default=1,
            help="responses to each prompt: kept in the collections NAME-1, NAME-2 .. of --collection NAME",
        )
        parser.add_argument("--served-model", default="", help="its name there (default: that of --model)")
        add_settings_arguments(parser)
        parser.add_argument("--system", metavar="TEXT|@FILE", help="the message before each prompt")
        self.add_pace_arguments(parser, "requests")

    def start_run(self, options: Mapping[str, Any], *, send: bool) -> CollectionRun:
        return start_collection(
            model=options["model"],
            dataset=get_dataset(options["dataset"]),
            endpoint=options["endpoint"],
            collection=options["collection"],
            samples=options["samples"],
            served_model=options["served_model"],
            settings=read_settings(options),
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            send=send,
        )

    def measure_run(self, run: CollectionRun) -> tuple[RunProgress, Mapping[str, Any]]:
        assert run.job is not None
        runs = list_runs_of_job(run, run.job.payload)
        progress = compute_samples_progress(runs)
        counts = {"cut": progress.cut, "replaced": sum(count_texts(each).replaced for each in runs)}
        if len(runs) > 1:
            counts["lost_in_all"] = sum(each.lost for each in runs)
        return progress, {**counts, "collections": [each.collection.name for each in runs]}

    def show_counts(self, data: Mapping[str, Any]) -> None:
        samples = len(data["collections"])
        noun = "prompts have a response" if samples == 1 else f"responses in {samples} samples are stored"
        self.stdout.write(
            f"{data['stored']} of {data['prompts']} {noun}; {data['answers']} came now,"
            f" {data['requests']} requests, {data['retries']} retries, {data['failed']} without an answer"
        )
        if data["cut"]:
            self.stdout.write(f"{data['cut']} answers were cut off by the limit of tokens (--max-tokens)")
        if data["replaced"]:
            self.stdout.write(
                f"{data['replaced']} answers hold a character that cannot be kept: it is U+FFFD"
            )
