"""A fine-tuning in a process of its own, or in several that ``accelerate launch`` starts.

    python -m scoring.backbones.transformer.launcher CONFIG.json

The process reads its configuration and, as lines of JSON, its examples; it tells its progress as lines of JSON on its
standard output and leaves the scorer in a folder. It ends when its standard input does: so nothing goes on training
once whoever asked for it was killed. What one process computes is the same here as where it is called directly.

No learning library is imported before ``main``.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from annotation.core.errors import N_, AssayError
from scoring.domain.backbone import FitProgress, FittedScorer, ProcessKilled, Report, ignore_progress
from scoring.domain.spec import Spec
from scoring.domain.training_data import Example, Head

ROOT = Path(__file__).resolve().parents[3]
CONFIG, EXAMPLES, FITTED = "config.json", "examples.jsonl", "fitted"
PROGRESS, REFUSED = "progress", "refused"
RUNNING = "running-"
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(2**28),
}
"""Activations come and go at every step: kept in the process they are not cleared and mapped anew each time."""
MAX_SILENCE_SECONDS = 1.0
"""Seconds without a line from the process after which the last progress is told again, so that a cancel arrives."""
LAST_LINES = 5


def fit_in_process(
    launch: str,
    spec: Spec,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> FittedScorer:
    """As ``fit_transformer``, by the command ``launch`` (``python``, ``accelerate launch --num_processes 2``).

    Raises AssayError with the reason where the process fails, ProcessKilled where it, or one that it started, was
    killed: a second call with the same ``checkpoints`` goes on. If ``report`` raises, the process is killed.
    """
    from scoring.backbones.transformer.predictor import TransformerScorer

    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="launch-", dir=checkpoints) as name:
        folder = Path(name)
        config = {
            "spec": spec.to_json(),
            "heads": [head.to_json() for head in heads],
            "seed": seed,
            "checkpoints": str(checkpoints.resolve()) if checkpoints else None,
        }
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
        with (folder / EXAMPLES).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(example)) + "\n" for example in examples)
        _follow_process(
            [*build_command(launch), "-m", "scoring.backbones.transformer.launcher", str(folder / CONFIG)],
            report,
            folder,
        )
        return TransformerScorer.load(folder / FITTED)


def build_command(launch: str) -> list[str]:
    """The words of the command; ``python`` and ``accelerate`` are those of this environment."""
    first, *rest = shlex.split(launch)
    if first == "python":
        return [sys.executable, *rest]
    environment_program = Path(sys.executable).parent / first
    return [
        str(environment_program) if environment_program.is_file() else shutil.which(first) or first,
        *rest,
    ]


def _follow_process(arguments: Sequence[str], report: Report, folder: Path) -> None:
    """Run the process to its end and tell its progress. Raises AssayError or ProcessKilled if it does not end well."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        _start_process(arguments, errors) as process,
    ):
        refused: Mapping[str, Any] | None = None
        for line in _read_messages(process, report):
            if PROGRESS in line:
                report(FitProgress(**line[PROGRESS]))
            else:
                refused = line[REFUSED]
        code = process.wait()
        if refused is not None:
            raise AssayError(refused["template"], **refused["params"])
        if code < 0 or (code and _was_killed(folder)):
            raise ProcessKilled(
                f"the process that trains ended with {_format_exit(code)}: {_read_tail(errors)}"
            )
        if code:
            raise AssayError(
                N_("The process that trains ended with {code}: {reason}"),
                code=_format_exit(code),
                reason=_read_tail(errors),
            )


def _was_killed(folder: Path) -> bool:
    """Whether one of the processes of a launcher, which ends with a code of its own, could not say that it ended."""
    return any(folder.glob(f"{RUNNING}*"))


@contextmanager
def _start_process(arguments: Sequence[str], errors: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """The process; whatever happens, neither it nor what it started goes on afterwards."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**ALLOCATOR, **os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    try:
        process = subprocess.Popen(  # noqa: S603 (the command is the administrator's own setting)
            arguments,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise AssayError(
            N_("{command} cannot be started: {reason}"), command=arguments[0], reason=str(error)
        ) from error
    try:
        yield process
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()  # the end of all that read it, in other sessions too
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _read_messages(process: subprocess.Popen[str], report: Report) -> Iterator[dict[str, Any]]:
    """What the process tells. While it is silent its last progress is told again."""
    assert process.stdout is not None
    last = FitProgress("load", 0.0)
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(MAX_SILENCE_SECONDS):
                report(last)
                continue
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                return
            *complete_lines, rest = (rest + part).split(b"\n")
            for line in complete_lines:
                if (message := _parse_message(line)) is not None:
                    repeated: dict[str, Any] = {
                        "loss": None,
                        "metrics": {},
                    }  # a point of a curve is told once
                    last = FitProgress(**{**message[PROGRESS], **repeated}) if PROGRESS in message else last
                    yield message


def _parse_message(line: bytes) -> dict[str, Any] | None:
    """A library may print what it likes: only our own lines count."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and (PROGRESS in message or REFUSED in message) else None


def _format_exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"


def _read_tail(errors: IO[str]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    return " / ".join(lines[-LAST_LINES:]) or "-"


def main(path: Path) -> int:
    """In the new process: fit, and save beside the configuration. A mark stays where it is killed."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    if "WORLD_SIZE" in os.environ:  # where one of several fails the launcher ends the others so
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    running = path.with_name(f"{RUNNING}{os.getpid()}")
    running.touch()
    try:
        return _fit(path)
    finally:
        running.unlink()


def _fit(path: Path) -> int:
    from scoring.backbones.transformer.training import fit_transformer

    config = json.loads(path.read_text(encoding="utf-8"))
    with (path.parent / EXAMPLES).open(encoding="utf-8") as file:
        examples = [Example(**json.loads(line)) for line in file]
    first = int(os.environ.get("RANK", "0")) == 0
    try:
        scorer = fit_transformer(
            Spec.from_json(config["spec"]),
            examples,
            [Head.from_json(head) for head in config["heads"]],
            seed=config["seed"],
            report=_print_progress if first else ignore_progress,
            checkpoints=Path(config["checkpoints"]) if config["checkpoints"] else None,
        )
        if first:
            scorer.save(path.parent / FITTED)
    except AssayError as error:
        if first:
            _print_message({REFUSED: {"template": error.template, "params": error.params}})
        return 1
    return 0


def _print_progress(progress: FitProgress) -> None:
    _print_message({PROGRESS: asdict(progress)})


def _print_message(message: dict[str, Any]) -> None:
    print(json.dumps(message, default=str), flush=True)


def _end_with_input() -> None:
    """Nobody writes here: the end means that who asked for this is gone."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
