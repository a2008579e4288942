"""How people's labels and decisions stand beside the others'; docs/people.md says what counts.

Refuse nobody here: ask only for batches whose results the reader may open.
"""

from annotation.selectors.quality.annotator import (
    AROUND,
    GOLD,
    PARTNERS,
    Beside,
    Day,
    Part,
    Partner,
    Shift,
    Table,
    Times,
    part_of,
)
from annotation.selectors.quality.comparisons import Scale, Sheet, forget, scale_of, sheet_of
from annotation.selectors.quality.items import Check, checks_of, rounds_of
from annotation.selectors.quality.overview import report
from annotation.selectors.quality.summary import (
    MOST_READ,
    Decisions,
    Quality,
    Share,
    decisions_of,
    quality_of,
)

from .adjudicators import Adjudicator, Lean, adjudicators_of
from .items import Filters, Item, found_items, items_at, prompts_of
from .overview import Overview, Row, labels_of, overview_of

__all__ = [
    "AROUND",
    "GOLD",
    "MOST_READ",
    "PARTNERS",
    "Adjudicator",
    "Beside",
    "Check",
    "Day",
    "Decisions",
    "Filters",
    "Item",
    "Lean",
    "Overview",
    "Part",
    "Partner",
    "Quality",
    "Row",
    "Scale",
    "Share",
    "Sheet",
    "Shift",
    "Table",
    "Times",
    "adjudicators_of",
    "checks_of",
    "decisions_of",
    "forget",
    "found_items",
    "items_at",
    "labels_of",
    "overview_of",
    "part_of",
    "prompts_of",
    "quality_of",
    "report",
    "rounds_of",
    "scale_of",
    "sheet_of",
]
