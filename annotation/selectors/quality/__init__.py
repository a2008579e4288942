"""How people's labels and decisions compare with those of others; docs/quality.md says what counts.

No function here refuses anybody: pass only batches whose results the reader may open.
"""

from annotation.selectors.quality.annotator import (
    DAYS_AROUND,
    GOLD,
    PARTNERS,
    DimensionAgreement,
    AgreementDay,
    AnnotatorQuality,
    PartnerAgreement,
    Shift,
    LevelTable,
    AnnotationTimes,
    measure_annotator,
)
from annotation.selectors.quality.comparisons import CriterionScale, ComparisonTable, clear_caches, build_scale, build_comparison_table
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
from .items import ItemFilter, QualityItem, find_rows, list_items, list_prompts
from .overview import Overview, AnnotatorRow, flatten_labels, get_overview

__all__ = [
    "DAYS_AROUND",
    "GOLD",
    "MAX_READ",
    "PARTNERS",
    "Adjudicator",
    "DimensionAgreement",
    "CheckAnswer",
    "AgreementDay",
    "AdjudicatorSummary",
    "ItemFilter",
    "QualityItem",
    "Lean",
    "Overview",
    "AnnotatorQuality",
    "PartnerAgreement",
    "AnnotatorSummary",
    "AnnotatorRow",
    "CriterionScale",
    "EqualShare",
    "ComparisonTable",
    "Shift",
    "LevelTable",
    "AnnotationTimes",
    "list_adjudicators",
    "list_checks",
    "summarize_adjudicator",
    "clear_caches",
    "find_rows",
    "list_items",
    "flatten_labels",
    "get_overview",
    "measure_annotator",
    "list_prompts",
    "summarize_annotator",
    "build_quality_report",
    "list_qualifications",
    "build_scale",
    "build_comparison_table",
]
