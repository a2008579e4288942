from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

HEAVY = ("torch", "transformers", "sklearn", "safetensors", "tokenizers")
WEB = """
import sys
from django.urls import get_resolver
import config.wsgi

def names(resolver):
    for pattern in resolver.url_patterns:
        if hasattr(pattern, "url_patterns"):
            names(pattern)

names(get_resolver())
from django.test import Client
assert Client(SERVER_NAME="localhost").get("/sign-in/").status_code == 200
import scoring.tasks
from scoring.backbones.registry import choose_backbone
from scoring.domain.spec import Spec
choose_backbone(Spec.from_request("ngram"))
for tuning in ("frozen", "full", "lora"):
    choose_backbone(Spec.from_request("encoder", encoder="some/name", tuning=tuning))
choose_backbone(Spec.from_request("ensemble", encoder="some/name"))
print(",".join(name for name in sys.argv[1].split(",") if name in sys.modules))
"""


def test_an_import_only_points_down():
    linter = Path(sys.executable).parent / "lint-imports"
    process = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout


def test_the_web_process_imports_no_learning_library(tmp_path: Path):
    """Nor does a look for each backbone, as the form of a training has it."""
    command = [sys.executable, "-c", WEB, ",".join(HEAVY)]
    environment = {"ASSAY_DATA_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == ""


BEAT = """
import sys
from celery.apps.beat import Beat
from config.beat import app

Beat(app=app).init_loader()
from annotation.core.signs import leave_sign_of_beat
print(*(name for name in ("annotation.models", "annotation.tasks", "numpy", "config.urls") if name in sys.modules))
"""


def test_beat_imports_neither_models_nor_tasks(tmp_path: Path):
    """They are two thirds of the memory of a process that sends six messages by their names."""
    process = subprocess.run(
        [sys.executable, "-c", BEAT],
        cwd=ROOT,
        env={"ASSAY_DATA_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == ""


PURE = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for app in ("annotation", "scoring", "benchmark")
    for path in (ROOT / app / "domain").rglob("*.py")
)
FRAMEWORK = ("django", "celery", "torch")
ALONE = """
import importlib, os, sys
import numpy, pydantic, scipy.stats, yaml  # what many of them need, and what needs nothing of the framework
pure, framework = (told.split(",") for told in sys.argv[1:])
for module in pure:
    if not os.fork():
        try:
            importlib.import_module(module)
            found = [name for name in framework if name in sys.modules]
        except BaseException as error:
            found = [repr(error)]
        if found:
            print(module, *found, flush=True)
        os._exit(0)
    if os.wait()[1]:
        print(module, "did not come to its end", flush=True)
"""


def test_a_pure_module_runs_without_the_framework():
    """Each is imported in a child of its own, so that none is helped or blamed by another."""
    command = [sys.executable, "-c", ALONE, ",".join(PURE), ",".join(FRAMEWORK)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout.splitlines()) == (0, []), process.stderr
