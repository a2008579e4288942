"""The README's loop in ten commands on the published XSTest labels, timed; prints a Markdown table.

    python tests/performance/xstest_loop.py ../shared/data/xstest

Each command is a process of its own with a fresh data folder, as a person types it. Wall time is what one waits;
processor time, the command's own and its children's, hardly depends on what else the machine does.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")


@dataclass(frozen=True)
class CommandTime:
    command: str
    wall: float
    processor: float


def loop(labels: Path, out: Path) -> list[list[str]]:
    files = [str(labels / f"xstest_v2_completions_{model}.csv") for model in MODELS]
    evaluate = ["--evaluate", "grouped", "--evaluate", "leave-one-model-out"]
    return [
        ["migrate"],
        ["load_guideline", "fixtures/guidelines/xstest.yaml", "--publish"],
        ["import_annotations", *files, "--batch", "xstest", "--format", "xstest"],
        ["agreement", "--batch", "xstest", "--by", "model"],
        ["release_gold", "xstest-1", "--batches", "xstest"],
        ["export_gold", "xstest-1", "--format", "jsonl", "--out", str(out)],
        ["train_scorer", "xstest-scorer", "--release", "xstest-1", *evaluate],
        ["run_benchmark", "xstest-board", "--scorer", "xstest-scorer", "--dataset", "xstest"],
        ["leaderboard", "xstest-board"],
        ["retrain", "--release", "xstest-1"],
    ]


def measure(labels: Path) -> Iterator[CommandTime]:
    with tempfile.TemporaryDirectory(prefix="assay-benchmark-") as folder:
        for command in loop(labels, Path(folder) / "gold"):
            yield run_timed(command, Path(folder))


def run_timed(command: list[str], folder: Path) -> CommandTime:
    environment = {**os.environ, "ASSAY_DATA_DIR": str(folder)}
    used, began = _processor_seconds(), time.perf_counter()
    subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return CommandTime(_short(command), time.perf_counter() - began, _processor_seconds() - used)


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _short(command: list[str]) -> str:
    """As the README has it: the five files in one word, and no path of this machine."""
    words = ["xstest_v2_completions_*.csv" if "completions" in word else word for word in command]
    return " ".join(Path(word).name if word.startswith("/") else word for word, _same in groupby(words))


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("Say where the XSTest files lie: python tests/performance/xstest_loop.py FOLDER")
    where = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    database = os.environ.get("DATABASE_URL", "sqlite").split(":", 1)[0]
    print(f"{where}, {database}, load {os.getloadavg()[0]:.1f} at the start\n")
    print("| command | wall, s | processor, s |\n| --- | ---: | ---: |")
    total = CommandTime("all ten", 0, 0)
    for timed_command in measure(Path(sys.argv[1])):
        print(
            f"| `{timed_command.command}` | {timed_command.wall:.1f} | {timed_command.processor:.1f} |",
            flush=True,
        )
        total = CommandTime(
            total.command, total.wall + timed_command.wall, total.processor + timed_command.processor
        )
    print(f"| {total.command} | {total.wall:.1f} | {total.processor:.1f} |")


if __name__ == "__main__":
    main()
