from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
print(",".join(name for name in sys.argv[1].split(",") if name in sys.modules))
"""


def test_an_import_only_points_down():
    linter = Path(sys.executable).parent / "lint-imports"
    told = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


def test_the_web_process_imports_no_learning_library(tmp_path: Path):
    command = [sys.executable, "-c", WEB, ",".join(HEAVY)]
    environment = {"ASSAY_DATA_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() == ""


@pytest.mark.parametrize(
    "module",
    [
        "annotation.guidelines",
        "annotation.distribution",
        "annotation.adjudication",
        "annotation.forecast",
        "annotation.formats",
        "scoring.dataset",
        "scoring.evaluation",
        "scoring.conformal",
        "scoring.drift",
        "scoring.gate",
        "scoring.learning_curve",
        "scoring.adaptation",
        "benchmark.metrics",
    ],
)
def test_a_pure_module_runs_without_the_framework(module: str):
    code = (
        f"import sys, {module}; print(','.join(n for n in ('django', 'celery', 'torch') if n in sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout.strip()) == (0, ""), told.stderr
