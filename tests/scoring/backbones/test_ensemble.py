from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from annotation.core.errors import AssayError
from scoring.backbones.choices import HeadLabels
from scoring.backbones.ensemble import (
    EnsembleBackbone,
    FittedMember,
    build_members,
    fit_mixture,
    list_model_splits,
)
from scoring.backbones.ngram import NgramBackbone
from scoring.backbones.registry import choose_backbone, load
from scoring.domain.backbone import ignore_progress
from scoring.domain.evaluation import evaluate_grouped
from scoring.domain.spec import Spec
from scoring.domain.training_data import Example, Head
from scoring.inference import ngram as portable
from tests.scoring.domain.test_ngram import HEAD, small


def rows_of(*models: str) -> list[Example]:
    return [replace(row, model=models[i % len(models)]) for i, row in enumerate(small())]


def test_without_an_encoder_it_averages_word_runs_and_patterns(tmp_path: Path):
    scorer = choose_backbone(Spec("ensemble")).fit(rows_of("a", "b", "c"), [HEAD])
    predictions = scorer.predict(
        [Example("a", "q", "新", "对不起，我不能提供帮助。"), Example("b", "q", "new", "Sure! Here is how.")]
    )
    assert [HEAD.most_likely(prediction["compliance"]) for prediction in predictions] == [1, 3]
    assert all(sum(prediction["compliance"].values()) == pytest.approx(1) for prediction in predictions)
    scorer.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.predict(small()) == scorer.predict(small())
    assert (loaded.backbone, loaded.heads) == ("ensemble", (HEAD,))
    manifest = json.loads((tmp_path / "scorer.json").read_text(encoding="utf-8"))
    assert {folder.name for folder in tmp_path.iterdir() if folder.is_dir()} == set(manifest["members"])


def test_the_card_says_what_each_member_weighs_and_lost_on_both_kinds_of_folds():
    details = (
        choose_backbone(Spec("ensemble")).fit(rows_of("a", "b"), [HEAD]).details["criteria"]["compliance"]
    )
    assert sum(details["weights"].values()) == pytest.approx(1)
    assert set(details["inner_log_loss"]) == {"prompt", "model"}
    assert all(
        set(losses) == {"ngram", "patterns", "ensemble"} for losses in details["inner_log_loss"].values()
    )


@pytest.mark.parametrize("good", [("prompt", "model"), ("prompt",), ("model",), ()])
def test_a_member_is_let_in_only_where_it_helps_on_folds_by_prompt_and_by_model(good: tuple[str, ...]):
    draws = np.random.default_rng(0)
    n = 300
    truth = draws.integers(0, 3, n)
    rows = [
        Example(str(i), f"p{i}", "q", "r", labels={"compliance": int(t) + 1}) for i, t in enumerate(truth)
    ]

    def logs(knows: float, wrong: bool = False) -> dict[str, np.ndarray]:
        answers = (truth + 1) % 3 if wrong else truth
        scores = knows * np.eye(3)[np.where(draws.random(n) < 0.8, answers, draws.integers(0, 3, n))]
        return {"compliance": portable.log_softmax(scores)}

    first = {kind: logs(2.0) for kind in ("prompt", "model")}
    trial = {
        kind: {"simple": first[kind], "encoder": logs(2.0, wrong=kind not in good)}
        for kind in ("prompt", "model")
    }
    (labels,) = HeadLabels.collect(rows, [HEAD])
    weights = fit_mixture(labels, trial, ["simple", "encoder"]).weights
    assert (weights["encoder"] > 0) is (len(good) == 2)


def test_tiny_and_odd_data():
    heads = (HEAD, Head("always", (1, 2)), Head("never", (1, 2)))
    texts = ("", "\ud800", "不", "no")
    rows = [
        Example(f"{i}", f"p{i % 2}", texts[i], texts[i], labels={"compliance": 1 + i // 2, "always": 1})
        for i in range(4)
    ]
    for prediction in choose_backbone(Spec("ensemble")).fit(rows, heads).predict(rows):
        assert set(prediction) == {"compliance", "always"}
        assert prediction["always"] == {1: 1.0, 2: 0.0}


def test_it_is_evaluated_like_any_other_backbone():
    evaluation = evaluate_grouped(choose_backbone(Spec("ensemble")), rows_of("a", "b"), [HEAD], k=2)
    assert evaluation.metrics["n"] == 24


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(AssayError, match="nothing to learn from"):
        choose_backbone(Spec("ensemble")).fit(small(labels=False), [HEAD])


def test_a_tuned_encoder_is_tuned_by_the_command_that_is_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("scoring.backbones.registry._checked", lambda spec: spec)
    backbone = choose_backbone(Spec("ensemble", "an-encoder", "full"), launch="python")
    assert isinstance(backbone, EnsembleBackbone)
    *_simple, tuned = build_members(backbone.spec, backbone.launch)
    assert tuned.backbone == choose_backbone(Spec("encoder", "an-encoder", "full"), launch="python")


def test_no_trial_of_a_member_that_is_fitted_whole_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folders: list[Path | None] = []
    fit = NgramBackbone.fit

    def watched(self: NgramBackbone, *args: Any, checkpoints: Path | None = None, **options: Any) -> Any:
        folders.append(checkpoints)
        return fit(self, *args, checkpoints=checkpoints, **options)

    monkeypatch.setattr(NgramBackbone, "fit", watched)
    rows = rows_of("a", "b", "c")
    kinds = {"model": list_model_splits(rows)}
    member = FittedMember("encoder", NgramBackbone())
    first, second = (
        member.try_folds(rows, [HEAD], kinds, seed=0, report=ignore_progress, checkpoints=tmp_path)
        for _time in range(2)
    )
    assert folders == [tmp_path / name / "fit" for name in ("0", "1", "2")]
    assert np.isfinite(first["model"]["compliance"]).all()
    assert (second["model"]["compliance"] == first["model"]["compliance"]).all()
