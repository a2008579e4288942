"""Which guideline is meant where no run says it: a published one, one shipped with Assay, or a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError

from annotation.core.errors import NotFound
from annotation.core.files import read_text
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from annotation.selectors.guidelines import get_guideline

SHIPPED = Path(settings.BASE_DIR) / "fixtures" / "guidelines"


@dataclass(frozen=True)
class ReferencedGuideline:
    document: GuidelineDocument
    shipped: bool = False
    """It is not in the database; the one that comes with Assay was taken."""


def get_document(reference: str) -> ReferencedGuideline:
    """``G`` or ``G@V`` in the database; else the one of that name shipped with Assay; or the path of a YAML file."""
    if reference.endswith((".yaml", ".yml")):
        return ReferencedGuideline(parse_guideline(read_text(reference), path=reference))
    try:
        return ReferencedGuideline(get_guideline(reference).document)
    except (NotFound, DatabaseError):  # a database error: there are no tables yet
        document = _find_shipped(reference)
        if document is None:
            raise
        return ReferencedGuideline(document, shipped=True)


def _find_shipped(reference: str) -> GuidelineDocument | None:
    name, _at, version = reference.partition("@")
    path = next((file for file in SHIPPED.glob("*.yaml") if file.stem == name), None)
    if path is None:
        return None
    document = parse_guideline(read_text(path), path=str(path))
    return document if version in ("", document.version) else None
