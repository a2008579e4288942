"""How good a scorer is: what is measured, and the predictions of responses it has not seen.

Pure: numpy and scipy alone. An undefined figure is None. A statistic is ``{"value", "low", "high"}``: a 95% percentile
bootstrap over groups of prompts, since the responses to one prompt are not independent of each other.
"""

from scoring.domain.evaluation.cross_validation import (
    Evaluation,
    compare_seeds,
    compute_rates,
    compute_split_key,
    evaluate_grouped,
    evaluate_leave_one_model_out,
    evaluate_splits,
    predict_split,
    predict_splits,
    split_off_test,
)
from scoring.domain.evaluation.metrics import (
    Metrics,
    expected_calibration_error,
    list_criteria_below_rates,
    measure,
    measure_briefly,
    quadratic_kappa,
    reliability,
    risk_coverage,
)
from scoring.domain.evaluation.outcomes import collect_outcomes, draw_groups, percentile_statistic

__all__ = [
    "Evaluation",
    "Metrics",
    "collect_outcomes",
    "compare_seeds",
    "compute_rates",
    "compute_split_key",
    "draw_groups",
    "evaluate_grouped",
    "evaluate_leave_one_model_out",
    "evaluate_splits",
    "expected_calibration_error",
    "list_criteria_below_rates",
    "measure",
    "measure_briefly",
    "percentile_statistic",
    "predict_split",
    "predict_splits",
    "quadratic_kappa",
    "reliability",
    "risk_coverage",
    "split_off_test",
]
