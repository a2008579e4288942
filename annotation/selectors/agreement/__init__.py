"""The agreement report: the labels of batches counted by columns, the statistics on them, and why people disagree.

``docs/agreement.md`` says what a unit is, which tasks count and what the figures mean.
"""

from annotation.selectors.agreement.groupings import (
    FACETS,
    Group,
    Grouping,
    Narrowing,
    parse_groupings,
    parse_narrowing,
)
from annotation.selectors.agreement.label_table import COMPLETE, MIN_OPEN_LABELS, Coverage
from annotation.selectors.agreement.report import (
    LabelPatterns,
    LevelConfusion,
    PatternCounts,
    ReportRow,
    applicability_to_json,
)

__all__ = [
    "COMPLETE",
    "FACETS",
    "MIN_OPEN_LABELS",
    "Coverage",
    "Group",
    "Grouping",
    "LabelPatterns",
    "LevelConfusion",
    "Narrowing",
    "PatternCounts",
    "ReportRow",
    "applicability_to_json",
    "parse_groupings",
    "parse_narrowing",
]
