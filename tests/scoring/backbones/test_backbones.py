from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from annotation.core.errors import AssayError
from scoring.backbones.registry import choose_backbone, load
from scoring.backbones.transformer import backbone as transformer_backbone
from scoring.backbones.transformer.backbone import TransformerBackbone
from scoring.domain.backbone import FitProgress, scale_report
from scoring.domain.spec import Spec

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were installed: choosing looks for it and imports nothing."""
    monkeypatch.setattr(transformer_backbone, "find_spec", lambda _name: object())


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_backbone, "find_spec", lambda name: None if name == "torch" else object())


def test_without_torch_the_refusal_says_what_to_install(without_torch: None):
    with pytest.raises(AssayError, match=r"needs torch: pip install -r requirements-encoder\.txt"):
        choose_backbone(Spec.from_request("bert-base-chinese"))


def test_without_torch_the_embedded_backbone_is_there(without_torch: None):
    assert choose_backbone().name == "ngram"


def test_a_hub_name_is_a_transformer(with_torch: None):
    spec = Spec.from_request("organisation/model-1.5b")
    assert choose_backbone(spec) == TransformerBackbone(spec)
    assert choose_backbone(spec, launch="python") == TransformerBackbone(spec, "python")


def test_a_folder_with_a_model_is_a_transformer(with_torch: None, tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    assert choose_backbone(Spec.from_request(str(tmp_path))).name == f"encoder ({tmp_path.name}, full)"


def test_a_path_that_is_not_there_is_refused(with_torch: None):
    with pytest.raises(AssayError, match="neither a folder here nor a name on the hub"):
        choose_backbone(Spec.from_request("/nowhere/at/all"))


def test_a_folder_that_holds_no_scorer_is_refused(tmp_path: Path):
    with pytest.raises(AssayError, match="No scorer can be read from"):
        load(tmp_path)


def test_a_scorer_of_another_format_is_refused(tmp_path: Path):
    (tmp_path / "scorer.json").write_text('{"format": 99}')
    with pytest.raises(AssayError, match="of another version"):
        load(tmp_path)


def test_a_step_of_longer_work_tells_its_share_of_the_whole():
    reports: list[FitProgress] = []
    part = scale_report(reports.append, 0.5, 0.75, part=3, parts=4)
    part(FitProgress("learn", 0.5, loss=0.1))
    assert reports == [FitProgress("learn", 0.625, loss=0.1, part=3, parts=4)]


def test_the_default_backbone_is_the_embedded_one():
    assert choose_backbone().name == choose_backbone(Spec.from_request("ngram")).name == "ngram"


def test_choosing_a_backbone_and_reading_the_modules_of_the_core_imports_no_learning_library():
    code = (
        "import sys\n"
        "import scoring.backbones.registry, scoring.domain.evaluation, scoring.backbones.ngram\n"
        "scoring.backbones.registry.choose_backbone()\n"
        "print([m for m in ('torch', 'transformers', 'sklearn', 'django') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"
