"""Guidelines as documents: read from YAML with line-numbered errors, held as frozen values. Pure."""

from __future__ import annotations

from annotation.domain.guidelines.criteria import AppliesTo, AskedIf, Criterion, Level, LevelExample, Range
from annotation.domain.guidelines.document import Dimension, GuidelineDocument, Subcomponent
from annotation.domain.guidelines.metrics import Metric
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
