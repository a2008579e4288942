from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from annotation.selectors.datasets import get_dataset
from benchmark.domain.dialogues import ANY_LANGUAGE, MAX_ROUNDS, TEMPLATES
from benchmark.management.endpoint_command import (
    EndpointCommand,
    add_settings_arguments,
    read_settings,
    read_text,
)
from benchmark.models import DialogueRun
from benchmark.selectors.dialogues import compute_dialogue_progress, count_faults
from benchmark.selectors.endpoint_runs import RunProgress
from benchmark.services.dialogues import ROUNDS, DialogueSide, start_dialogues


class Command(EndpointCommand):
    unit = "dialogues"
    help = (
        "Have an agent play the role cards of a dataset, and a model answer it, turn by turn; each dialogue becomes a"
        " response. Stopped, the same command goes on; keys come from the environment, by the hosts' names"
        " (docs/dialogues.md)."
    )
    progress_formats = {
        "turns a second": "{:.1f} turns/s",
        "retries": "{:.0f} retries",
        "without an answer": "{:.0f} failed",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="of the run; the same name goes on")
        parser.add_argument("--dataset", required=True, help="whose prompts are the role cards")
        parser.add_argument("--model", required=True, help="the model under test; made if it is new")
        parser.add_argument("--endpoint", required=True, metavar="URL", help="as in http://127.0.0.1:8000/v1")
        parser.add_argument("--served-model", default="", help="its name there (default: that of --model)")
        parser.add_argument("--agent", required=True, help="who plays the role cards")
        parser.add_argument("--agent-endpoint", metavar="URL", help="(default: that of --endpoint)")
        parser.add_argument("--agent-model", default="", help="its name there (default: that of --agent)")
        parser.add_argument(
            "--rounds",
            type=int,
            default=ROUNDS,
            help=f"turns of each side, 1 to {MAX_ROUNDS} (default %(default)s)",
        )
        parser.add_argument(
            "--template",
            metavar=f"{'|'.join(TEMPLATES)}|@FILE",
            help="the text before each card (default: the one that comes with Assay in the card's language)",
        )
        parser.add_argument(
            "--opening",
            metavar="TEXT|@FILE",
            help="the greeting that the agent answers first (default: in the card's language)",
        )
        parser.add_argument(
            "--collection", default="", help="where the dialogues are kept (default: the unnamed collection)"
        )
        add_settings_arguments(parser)
        parser.add_argument("--system", metavar="TEXT|@FILE", help="the model's own system message")
        add_settings_arguments(parser, "agent-")
        self.add_pace_arguments(parser, "dialogues")

    def start_run(self, options: Mapping[str, Any], *, send: bool) -> DialogueRun:
        return start_dialogues(
            name=options["name"],
            dataset=get_dataset(options["dataset"]),
            model=DialogueSide(
                options["model"], options["endpoint"], options["served_model"], read_settings(options)
            ),
            agent=DialogueSide(
                options["agent"],
                options["agent_endpoint"] or options["endpoint"],
                options["agent_model"],
                read_settings(options, "agent_"),
            ),
            collection=options["collection"],
            rounds=options["rounds"],
            templates=_read_template(options["template"]),
            openings=None if options["opening"] is None else {ANY_LANGUAGE: read_text(options["opening"])},
            concurrency=options["concurrency"],
            timeout=options["timeout"],
            send=send,
        )

    def measure_run(self, run: DialogueRun) -> tuple[RunProgress, Mapping[str, Any]]:
        progress = compute_dialogue_progress(run)
        return progress, {"agent": run.agent, "turns": progress.answers, "faults": count_faults(run)}

    def show_counts(self, data: Mapping[str, Any]) -> None:
        self.stdout.write(
            f"{data['stored']} of {data['prompts']} cards have a dialogue; {data['answers']} turns came now,"
            f" {data['requests']} requests, {data['retries']} retries, {data['failed']} without an answer"
        )
        faults = [f"{n} {kind.replace('_', ' ')}" for kind, n in data["faults"].items() if n]
        if faults:
            self.stdout.write(f"dialogues with faults: {', '.join(faults)}")


def _read_template(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    return {ANY_LANGUAGE: TEMPLATES[text] if text in TEMPLATES else read_text(text)}
