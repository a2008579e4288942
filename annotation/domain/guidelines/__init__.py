"""Guidelines as documents: read from YAML with line-numbered errors, held as frozen values. Pure."""

from __future__ import annotations

from annotation.domain.guidelines.document import (
    AppliesTo,
    AskedIf,
    Criterion,
    Dimension,
    GuidelineDocument,
    Level,
    LevelExample,
    Metric,
    Range,
    Subcomponent,
)
from annotation.domain.guidelines.parser import parse_guideline
from annotation.domain.guidelines.values import NA, Label, LocalizedText, find_language, localize

__all__ = [
    "NA",
    "AppliesTo",
    "AskedIf",
    "Criterion",
    "Dimension",
    "GuidelineDocument",
    "Label",
    "Level",
    "LevelExample",
    "LocalizedText",
    "Metric",
    "Range",
    "Subcomponent",
    "find_language",
    "localize",
    "parse_guideline",
]
