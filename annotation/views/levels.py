"""A label's value, and what else a guideline names, in words: for the pages that show labels."""

from __future__ import annotations

from django.utils.translation import get_language

from annotation.core.formatting import format_compact
from annotation.guidelines import GuidelineDocument, localized
from annotation.guidelines.document import Criterion
from annotation.models import Person
from annotation.selectors.care import documents_of


def level_text(criterion: Criterion, value: float) -> str:
    """``3 Full compliance`` in the reader's language; the number alone where the level has no name."""
    level = criterion.level(value)
    name = localized(level.name, get_language() or "en") if level else ""
    return f"{format_compact(value)} {name}".strip()


def label_text(document: GuidelineDocument, criterion: str, value: float) -> str:
    """As ``level_text``, also for a criterion that the document does not have."""
    known = next((one for one in document.criteria if one.name == criterion), None)
    return level_text(known, value) if known else format_compact(value)


def criterion_label(document: GuidelineDocument, criterion: str) -> str:
    known = next((one for one in document.criteria if one.name == criterion), None)
    return localized(known.label, get_language() or "en") if known else criterion


def dimension_label(document: GuidelineDocument, dimension: str) -> str:
    """In the reader's language; ``-`` where the prompts have no dimension."""
    known = document.dimension(dimension)
    return localized(known.label, get_language() or "en") if known else dimension or "-"


def subcomponent_label(document: GuidelineDocument, subcomponent: str) -> str:
    """As ``dimension_label``; its bare name where two dimensions have one of this name and call it differently."""
    labels = {
        localized(one.label, get_language() or "en")
        for dimension in document.dimensions
        for one in dimension.subcomponents
        if one.name == subcomponent
    }
    return labels.pop() if len(labels) == 1 else subcomponent or "-"


def topic_labels(person: Person) -> dict[str, str]:
    """The dimensions of the guidelines that the person works with, and those that they opted out of wherever these
    stand: by name, in the reader's language.
    """
    labels: dict[str, str] = {}
    for document in documents_of(person):
        for name in document.dimension_names:
            labels.setdefault(name, dimension_label(document, name))
    return labels | {name: name for name in person.opted_out if name not in labels}
