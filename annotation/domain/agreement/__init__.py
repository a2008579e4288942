"""How well annotators agree: percent agreement, Cohen's, Scott's and Fleiss' coefficients, Krippendorff's alpha and
Gwet's AC1 and AC2, each with a bootstrap interval over units.

The formulas, their sources and the conventions for what is undefined stand in ``docs/agreement.md``.
Units with the same labels are counted, not listed: real data have few distinct sets of labels, so a bootstrap over
units is one multinomial draw over those, and every statistic is a few matrix products.
"""

from annotation.domain.agreement.patterns import (
    MEASUREMENTS,
    MORE_THAN_TWO,
    MORE_THAN_TWO_FOR_PI,
    NO_DISTANCES,
    NO_ORDER,
    NO_PAIRS,
    ONE_CATEGORY,
    Agreement,
    Measurement,
    Pattern,
    Patterns,
    Statistic,
    Value,
    count_label_patterns,
    pool,
)
from annotation.domain.agreement.statistics import STATISTICS, measure_agreement, measure_difference

__all__ = [
    "MEASUREMENTS",
    "MORE_THAN_TWO",
    "MORE_THAN_TWO_FOR_PI",
    "NO_DISTANCES",
    "NO_ORDER",
    "NO_PAIRS",
    "ONE_CATEGORY",
    "STATISTICS",
    "Agreement",
    "Measurement",
    "Pattern",
    "Patterns",
    "Statistic",
    "Value",
    "count_label_patterns",
    "measure_agreement",
    "measure_difference",
    "pool",
]
