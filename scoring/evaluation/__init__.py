"""How good a scorer is: what is measured, and the predictions of responses it has not seen.

Pure: numpy alone. An undefined figure is None. A statistic is ``{"value", "low", "high"}``: a 95% percentile bootstrap
over groups of prompts, since the responses to one prompt are not independent of each other.
"""

from scoring.evaluation.figures import (
    Metrics,
    bootstrap_weights,
    collect_outcomes,
    measure,
    percentile_statistic,
    quadratic_kappa,
)
from scoring.evaluation.runs import (
    Evaluation,
    compute_split_key,
    evaluate_grouped,
    evaluate_leave_one_model_out,
    evaluate_splits,
    predict_split,
    split_off_test,
)
from scoring.evaluation.seeds import compare_seeds
from scoring.evaluation.sureness import expected_calibration_error, reliability, risk_coverage

__all__ = [
    "Evaluation",
    "Metrics",
    "bootstrap_weights",
    "collect_outcomes",
    "compare_seeds",
    "compute_split_key",
    "evaluate_grouped",
    "evaluate_leave_one_model_out",
    "evaluate_splits",
    "expected_calibration_error",
    "measure",
    "percentile_statistic",
    "predict_split",
    "quadratic_kappa",
    "reliability",
    "risk_coverage",
    "split_off_test",
]
