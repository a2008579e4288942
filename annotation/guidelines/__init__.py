"""Guidelines as documents: read from YAML with line-numbered errors, held as frozen values. Pure."""

from __future__ import annotations

from .document import (
    AppliesTo,
    Criterion,
    Dimension,
    Example,
    GuidelineDocument,
    Level,
    Metric,
    Range,
    Subcomponent,
)
from .reading import parse_guideline
from .values import LocalizedText, localized

__all__ = [
    "AppliesTo",
    "Criterion",
    "Dimension",
    "Example",
    "GuidelineDocument",
    "Level",
    "LocalizedText",
    "Metric",
    "Range",
    "Subcomponent",
    "localized",
    "parse_guideline",
]
