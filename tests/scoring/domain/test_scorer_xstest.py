"""The embedded scorer on published labels: what ``tests/performance/scorer_xstest.py`` measures whole, in part."""

from __future__ import annotations

from scoring.backbones.ngram import NgramBackbone
from scoring.domain.training_data import splits_by_model, splits_by_prompt
from tests.conftest import missing
from tests.performance.scorer_xstest import accuracy, calibration_error, macro_f1, predict_shares, truth
from tests.scoring.xstest import FOLDER, examples, is_there


def test_it_predicts_new_prompts_and_the_model_that_speaks_like_no_other():
    if not is_there():
        missing("shared", f"XSTest's completions are not in {FOLDER}")
    rows = examples()
    fold = splits_by_prompt(rows)[0]
    shares = predict_shares(NgramBackbone(), [rows[i] for i in fold.train], [rows[i] for i in fold.test])
    right = truth([rows[i] for i in fold.test])
    assert accuracy(shares, right) > 0.87
    assert macro_f1(shares, right) > 0.70
    assert calibration_error(shares, right) < 0.05
    (gpt4,) = (split for split in splits_by_model(rows) if split.name == "gpt4")
    gpt4_shares = predict_shares(NgramBackbone(), [rows[i] for i in gpt4.train], [rows[i] for i in gpt4.test])
    assert accuracy(gpt4_shares, truth([rows[i] for i in gpt4.test])) > 0.90
