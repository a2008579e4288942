"""How people's labels and decisions compare with those of others; docs/quality.md says what counts.

No function here refuses anybody: pass only batches whose results the reader may open.
"""

from annotation.selectors.quality.annotator import (
    DAYS_AROUND,
    GOLD,
    PARTNERS,
    AgreementDay,
    AnnotationTimes,
    AnnotatorQuality,
    DimensionAgreement,
    LevelTable,
    PartnerAgreement,
    Shift,
    measure_annotator,
)
from annotation.selectors.quality.comparisons import (
    ComparisonTable,
    CriterionScale,
    build_comparison_table,
    build_scale,
    clear_caches,
)
from annotation.selectors.quality.items import CheckAnswer, list_checks, list_qualifications
from annotation.selectors.quality.overview import build_quality_report
from annotation.selectors.quality.summary import (
    MAX_READ,
    AdjudicatorSummary,
    AnnotatorSummary,
    EqualShare,
    summarize_adjudicator,
    summarize_annotator,
)

from .adjudicators import Adjudicator, Lean, list_adjudicators
from .items import ItemFilter, QualityItem, find_rows, list_items, list_responses
from .overview import AnnotatorRow, Overview, flatten_labels, get_overview

__all__ = [
    "DAYS_AROUND",
    "GOLD",
    "MAX_READ",
    "PARTNERS",
    "Adjudicator",
    "AdjudicatorSummary",
    "AgreementDay",
    "AnnotationTimes",
    "AnnotatorQuality",
    "AnnotatorRow",
    "AnnotatorSummary",
    "CheckAnswer",
    "ComparisonTable",
    "CriterionScale",
    "DimensionAgreement",
    "EqualShare",
    "ItemFilter",
    "Lean",
    "LevelTable",
    "Overview",
    "PartnerAgreement",
    "QualityItem",
    "Shift",
    "build_comparison_table",
    "build_quality_report",
    "build_scale",
    "clear_caches",
    "find_rows",
    "flatten_labels",
    "get_overview",
    "list_adjudicators",
    "list_checks",
    "list_items",
    "list_qualifications",
    "list_responses",
    "measure_annotator",
    "summarize_adjudicator",
    "summarize_annotator",
]
