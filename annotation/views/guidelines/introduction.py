"""A guideline's introduction, which holds its rules: before the first item of a version, and one key away after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language

from annotation.domain.guidelines import GuidelineDocument, find_language, localize
from annotation.domain.guidelines.comparison import compare
from annotation.domain.guidelines.prose import split_blocks
from annotation.models import Batch
from annotation.selectors.guidelines import find_last_read_guideline
from annotation.views.access import person_of
from annotation.views.guidelines.comparison import ClauseRow, list_sections
from annotation.views.guidelines.wording import guideline_text


def localize_introduction(document: GuidelineDocument) -> Mapping[str, Any]:
    """In the reader's language, or in one that it has. A version never changes: put into words once for each."""
    language = get_language() or "en"
    key = (document.sha256, language)
    if key not in _INTRODUCTIONS:
        _INTRODUCTIONS[key] = build_introduction(document, language)
    return _INTRODUCTIONS[key]


def show_introduction(request: HttpRequest, batch: Batch, next_url: str) -> HttpResponse:
    """Before anything is claimed; ``go_on`` is the address that records that it was read."""
    before = find_last_read_guideline(batch.guideline, person_of(request))
    introduction = localize_introduction(batch.guideline.document)
    context = {
        "batch": batch,
        "introduction": introduction,
        "before": before and before.version,
        "changes": list_changes(before.document, batch.guideline.document) if before else [],
        "go_on": next_url,
    }
    return render(request, "annotation/annotations/introduction.html", context)


def list_changes(before: GuidelineDocument, document: GuidelineDocument) -> list[ClauseRow]:
    """The clauses that differ from the version that the person knows, in the language in which they read it."""
    language = find_language(document.introduction, get_language() or "en")
    comparison = compare(before, document, language, guideline_text)
    rows = (row for section in list_sections(comparison, {}) for row in section.rows)
    return [row for row in rows if row.clause and row.clause.change != "same"]


_INTRODUCTIONS: dict[tuple[str, str], Mapping[str, Any]] = {}


def build_introduction(document: GuidelineDocument, language: str) -> Mapping[str, Any]:
    return {
        "title": localize(document.title, language),
        "version": document.version,
        "name": document.name,
        "language": find_language(document.introduction, language),
        "blocks": split_blocks(localize(document.introduction, language)),
    }
