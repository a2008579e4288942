"""How good a scorer is: what is measured, and the predictions of responses it has not seen.

Pure: numpy alone. An undefined figure is None. A statistic is ``{"value", "low", "high"}``: a 95% percentile bootstrap
over groups of prompts, since the responses to one prompt are not independent of each other.
"""

from scoring.evaluation.figures import (
    Metrics,
    bootstrap_weights,
    measure,
    collect_outcomes,
    percentile_statistic,
    quadratic_kappa,
)
from scoring.evaluation.runs import (
    Evaluation,
    evaluate_grouped,
    evaluate_leave_one_model_out,
    evaluate_splits,
    split_off_test,
    predict_split,
    compute_split_key,
)
from scoring.evaluation.seeds import compare_seeds
from scoring.evaluation.sureness import expected_calibration_error, reliability, risk_coverage

__all__ = [
    "Evaluation",
    "Metrics",
    "bootstrap_weights",
    "compare_seeds",
    "evaluate_grouped",
    "evaluate_leave_one_model_out",
    "evaluate_splits",
    "expected_calibration_error",
    "split_off_test",
    "measure",
    "collect_outcomes",
    "percentile_statistic",
    "predict_split",
    "quadratic_kappa",
    "reliability",
    "risk_coverage",
    "compute_split_key",
]
