"""A fit in a process of its own: the same weights, its errors, its end, and two processes together."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annotation.core.errors import AssayError
from scoring.backbones.transformer.launcher import build_command, fit_in_process
from scoring.domain.backbone import FitProgress, ProcessKilled, WorkCancelled
from scoring.domain.spec import Spec
from scoring.domain.training_data import Example, Head
from tests.conftest import missing

HAS_TORCH = all(find_spec(name) for name in ("torch", "transformers", "safetensors", "peft", "accelerate"))

if HAS_TORCH:
    from tests.scoring.networks import COMPLIANCE, SAFETY, sixty, tiny
elif TYPE_CHECKING:
    raise ImportError

ROOT = Path(__file__).resolve().parents[3]
TWO = "accelerate launch --multi_gpu --num_processes 2 --num_cpu_threads_per_process 1"
HEAD = Head("compliance", (1, 2, 3))


@pytest.fixture
def with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    if not HAS_TORCH:
        missing("torch", "the transformer backbone needs requirements-encoder.txt")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as in this process: see networks.py


def launched(tmp_path: Path, code: str, reports: list[FitProgress] | None = None) -> None:
    """By a stand-in for the training process, which says what ``code`` says."""
    script = tmp_path / "script.py"
    script.write_text(f"import json, sys, time\n{code}\n", encoding="utf-8")
    rows = [Example("r", "p", "a", "b", labels={"compliance": 1})]

    def report(progress: FitProgress) -> None:
        if reports is not None:
            reports.append(progress)
        if progress.fraction > 0.5:
            raise WorkCancelled

    fit_in_process(
        shlex.join([sys.executable, str(script)]), Spec("encoder", "x", "full"), rows, [HEAD], report=report
    )


def test_python_and_accelerate_are_those_of_this_environment(with_torch: None):
    assert build_command("python") == [sys.executable]
    assert build_command("accelerate launch --num_processes 2")[1:] == ["launch", "--num_processes", "2"]
    assert Path(build_command("accelerate launch")[0]).parent == Path(sys.executable).parent


def test_what_the_process_refuses_is_refused_with_its_words(tmp_path: Path):
    refused = {"refused": {"template": "The {thing} is too small.", "params": {"thing": "memory"}}}
    with pytest.raises(AssayError, match="The memory is too small"):
        launched(tmp_path, f"print({json.dumps(json.dumps(refused))}, flush=True); sys.exit(1)")


def test_a_process_that_fails_or_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(AssayError, match=r"ended with code 3: .*out of luck"):
        launched(
            tmp_path, "print('a library says hello'); print('out of luck', file=sys.stderr); sys.exit(3)"
        )
    with pytest.raises(ProcessKilled, match="ended with signal 9"):
        launched(tmp_path, "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(AssayError, match="no-such-command cannot be started"):
        fit_in_process("no-such-command", Spec("encoder", "x", "full"), [], [HEAD])


def test_a_cancel_ends_the_process(tmp_path: Path):
    lines = [{"progress": {"stage": "learn", "fraction": share, "loss": 1.0}} for share in (0.2, 0.6)]
    code = (
        "".join(f"print({json.dumps(json.dumps(line))}, flush=True)\n" for line in lines) + "time.sleep(300)"
    )
    reports: list[FitProgress] = []
    began = time.monotonic()
    with pytest.raises(WorkCancelled):
        launched(tmp_path, code, reports)
    assert time.monotonic() - began < 300
    assert [progress.fraction for progress in reports] == [0.2, 0.6]
    assert not running(str(tmp_path))


WORKER = """
import json, sys
from pathlib import Path
from scoring.domain.training_data import Example, Head
from scoring.backbones.transformer.launcher import fit_in_process
from scoring.domain.spec import Spec
told = json.loads(Path(sys.argv[1]).read_text())
fit_in_process(
    "python", Spec.from_json(told["spec"]), [Example(**e) for e in told["examples"]],
    [Head.from_json(h) for h in told["heads"]], seed=1, checkpoints=Path(sys.argv[2]),
    report=lambda progress: print(progress.fraction, flush=True),
)
"""


def test_when_a_worker_is_killed_nothing_trains_on_and_the_next_goes_on_in_the_middle_of_an_epoch(
    with_torch: None, encoder: str, tmp_path: Path
):
    # 40 rows to learn from, in batches of 4: 10 steps an epoch, 60 in all. A checkpoint is kept every 4.
    backbone = tiny(encoder, rounds=6, patience=6, checkpoint_every=4)
    reference = backbone.fit(sixty(), [COMPLIANCE, SAFETY], seed=1)
    inputs_file, checkpoints = tmp_path / "told.json", tmp_path / "kept"
    heads = [COMPLIANCE.to_json(), SAFETY.to_json()]
    inputs = {"spec": backbone.spec.to_json(), "heads": heads, "examples": [asdict(e) for e in sixty()]}
    inputs_file.write_text(json.dumps(inputs), encoding="utf-8")
    words = [sys.executable, "-c", WORKER, str(inputs_file), str(checkpoints)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        next(line for line in worker.stdout if float(line) > 0.25)
        worker.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while running(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running(str(tmp_path))

    (checkpoint,) = checkpoints.glob("step-*")
    resumed_at = int(checkpoint.name.rsplit("-", 1)[-1])
    steps: list[FitProgress] = []
    resumed = backbone.fit(
        sixty(), [COMPLIANCE, SAFETY], seed=1, report=steps.append, checkpoints=checkpoints
    )
    assert 12 <= resumed_at < 60
    assert len([p for p in steps if p.loss is not None]) == 60 - resumed_at
    assert resumed.predict(sixty()) == reference.predict(sixty())


def running(argument: str) -> list[int]:
    """Processes that were started with something of the folder."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if argument in words:
            processes.append(int(path.parent.name))
    return processes


def test_when_one_of_several_processes_is_killed_that_is_no_failure_of_the_training(
    with_torch: None, encoder: str, tmp_path: Path
):
    """The launcher ends with a code of its own."""
    checkpoints = tmp_path / "kept"
    backbone = tiny(encoder, rounds=6, patience=6, checkpoint_every=4)

    killed: list[int] = []

    def kill_one(progress: FitProgress) -> None:
        marks = list(checkpoints.glob("launch-*/running-*"))
        if progress.fraction > 0.25 and not killed:
            killed.append(int(max(marks).name.rpartition("-")[2]))
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(ProcessKilled):
        replace(backbone, launch=TWO).fit(
            sixty(), [COMPLIANCE, SAFETY], seed=1, report=kill_one, checkpoints=checkpoints
        )
    assert list(checkpoints.glob("step-*"))


def test_two_processes_train_one_scorer_and_tell_their_progress(with_torch: None, encoder: str):
    config = Path(encoder) / "config.json"
    without_chance = json.loads(config.read_text()) | {"hidden_dropout_prob": 0.0}
    config.write_text(json.dumps(without_chance))
    backbone = tiny(encoder, rounds=2)
    two = replace(backbone, launch=TWO)
    reports: list[FitProgress] = []
    reference = backbone.fit(sixty(), [COMPLIANCE, SAFETY], seed=2)
    together = two.fit(sixty(), [COMPLIANCE, SAFETY], seed=2, report=reports.append)
    # The same gradients but for the order of their sums, and what bfloat16 rounds off them.
    close = 1e-4 if reference.details["computed_in"] == "fp32" else 5e-3  # type: ignore[attr-defined]
    for a, b in zip(reference.predict(sixty()), together.predict(sixty()), strict=True):
        for name in a:
            assert list(b[name].values()) == pytest.approx(list(a[name].values()), abs=close)
    assert [p.loss for p in reports if p.loss is not None]
    assert any(p.metrics.get("validation_loss") for p in reports)
    assert reports[-1].fraction == 1.0
