"""How well annotators agree: percent agreement, Cohen's, Scott's and Fleiss' coefficients, Krippendorff's alpha and
Gwet's AC1 and AC2, each with an interval over prompts.

The formulas, their sources and the conventions for what is undefined stand in ``docs/agreement.md``.
Units with the same labels are counted, not listed: real data have few distinct sets of labels, so every statistic, and
what a unit adds to it, is a few matrix products, and a prompt is a few counts.
"""

from annotation.domain.agreement.patterns import (
    FEW_DISPUTES,
    FEW_PROMPTS,
    MASI,
    MEASUREMENTS,
    MORE_THAN_TWO,
    MORE_THAN_TWO_FOR_PI,
    NO_DIFFERENT_UNITS,
    NO_DISTANCES,
    NO_ORDER,
    NO_PAIRS,
    NO_SETS,
    NO_VARIATION,
    ONE_CATEGORY,
    POOL,
    Agreement,
    Measurement,
    Pattern,
    Patterns,
    PromptCounts,
    Statistic,
    Value,
    count_by_prompt,
    count_label_patterns,
    join_prompt_counts,
    pool,
)
from annotation.domain.agreement.statistics import STATISTICS, measure_agreement, measure_difference

__all__ = [
    "FEW_DISPUTES",
    "FEW_PROMPTS",
    "MASI",
    "MEASUREMENTS",
    "MORE_THAN_TWO",
    "MORE_THAN_TWO_FOR_PI",
    "NO_DIFFERENT_UNITS",
    "NO_DISTANCES",
    "NO_ORDER",
    "NO_PAIRS",
    "NO_SETS",
    "NO_VARIATION",
    "ONE_CATEGORY",
    "POOL",
    "STATISTICS",
    "Agreement",
    "Measurement",
    "Pattern",
    "Patterns",
    "PromptCounts",
    "Statistic",
    "Value",
    "count_by_prompt",
    "count_label_patterns",
    "join_prompt_counts",
    "measure_agreement",
    "measure_difference",
    "pool",
]
