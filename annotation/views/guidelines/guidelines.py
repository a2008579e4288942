"""Guidelines: the list, and reading a version."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from annotation.core.formatting import format_compact
from annotation.core.http import breadcrumbs
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.guidelines.prose import split_blocks
from annotation.domain.permissions import READ_GUIDELINES, WRITE_GUIDELINES
from annotation.forms.guidelines import clause_value
from annotation.models import GuidelineNote
from annotation.selectors.guidelines import (
    ClauseKey,
    choose_language,
    count_open_notes,
    criterion_label,
    get_guideline_version,
    group_by_clause,
    list_families,
    list_guideline_versions,
    list_open_notes,
    localized_title,
    record_note_openings,
    to_language,
)
from annotation.views.access import act_required, may, person_of
from annotation.views.guidelines.comparison import compare_with_published
from annotation.views.guidelines.editing import list_unused_shipped
from annotation.views.guidelines.wording import format_severity, guideline_text, language_name


@require_GET
@act_required(READ_GUIDELINES)
def guidelines(request: HttpRequest) -> HttpResponse:
    """Every guideline by name. Drafts, and the batches that use a version, are for managers."""
    person = person_of(request)
    manages = may(person, WRITE_GUIDELINES)
    language = get_language() or "en"
    waiting = count_open_notes(person) if manages else {}
    listed = [
        (
            family,
            localized_title(family, language),
            [(version, waiting.get(version.guideline.pk, 0)) for version in family.versions],
        )
        for family in list_families(drafts=manages)
    ]
    context = {"families": listed, "shipped": list_unused_shipped() if manages else ()}
    return render(request, "annotation/guidelines/list.html", context)


@require_GET
@act_required(READ_GUIDELINES)
def guideline(request: HttpRequest, name: str, version: str) -> HttpResponse:
    """A version to read, in the reader's language or in the one asked for with ``?language=``."""
    person = person_of(request)
    manages = may(person, WRITE_GUIDELINES)
    found_version = get_guideline_version(name, version, drafts=manages)
    document = found_version.document
    language = choose_language(document, request.GET.get("language") or get_language() or "en")
    content = to_language(document, language)
    waiting = list(list_open_notes(person).filter(guideline=found_version)) if manages else []
    record_note_openings(person, waiting)
    notes = group_by_clause(found_version, waiting)
    other_versions = [
        other_version
        for other_version in list_guideline_versions(name, drafts=manages)
        if other_version.pk != found_version.pk
    ]
    context = {
        "guideline": found_version,
        "content": content,
        "introduction": split_blocks(content["introduction"]),
        "dimensions": list_dimensions(content),
        "criteria": list_criteria(document, content, notes),
        "whole_notes": notes.get(("", None), ()),
        "waiting": len(waiting),
        "other_versions": other_versions,
        "language": language,
        "languages": [(code, language_name(code)) for code in document.languages],
        "batches": found_version.batches.all() if manages else (),
        "since": compare_with_published(person, found_version)
        if manages and not found_version.is_published
        else {},
        "crumbs": breadcrumbs((_("Guidelines"), "guidelines", []), title=str(found_version)),
    }
    return render(request, "annotation/guidelines/guideline.html", context)


def list_dimensions(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        dimension | {"severity_words": format_severity(dimension["severity"])}
        for dimension in content["dimensions"]
    ]


def list_other_answers(document: GuidelineDocument, criterion: Criterion) -> list[str]:
    """When and of what it is asked, and what may be answered beside its levels."""
    words = []
    if criterion.kind == "text":
        words.append(_("at most {n} characters").format(n=criterion.text_limit))
    if criterion.several:
        words.append(_("several options may be chosen"))
    if criterion.per_turn is not None:
        words.append(_("asked of each of the model's turns"))
    if criterion.asked_if is not None:
        condition = criterion.asked_if
        first = criterion_label(document, condition.criterion)
        words.append(
            _("asked only where {criterion} {sign} {value}").format(
                criterion=first, sign=condition.sign, value=condition.value
            )
        )
    if criterion.na:
        words.append(_("may be not applicable"))
    if criterion.optional:
        words.append(_("may stay unanswered"))
    if criterion.tolerance is not None:
        words.append(_("tolerance {tolerance}").format(tolerance=format_compact(criterion.tolerance)))
    return words


def list_criteria(
    document: GuidelineDocument, content: dict[str, Any], notes: dict[ClauseKey, list[GuidelineNote]]
) -> list[dict[str, Any]]:
    """Each criterion with its dimensions' names in the reader's language, its highest level first, and open notes."""
    labels = {dimension["name"]: dimension["label"] for dimension in content["dimensions"]}
    return [
        written
        | {
            "about": []
            if criterion.applies_to == "all"
            else [
                *(labels[name] for name in criterion.applies_to.dimensions),
                *(label_part(document, criterion, name) for name in criterion.applies_to.subcomponents),
            ],
            "scale": [
                level_context(criterion.name, level, notes) | label_parts(document, criterion, level)
                for level in written["scale"][::-1]
            ],
            "others": list_other_answers(document, criterion),
            "scale_words": guideline_text(
                criterion.measurement if criterion.kind == "level" else criterion.kind
            ),
            "notes": notes.get((criterion.name, None), ()),
            "clause": clause_value(criterion.name, None),
        }
        for criterion, written in zip(document.criteria, content["criteria"], strict=True)
    ]


def label_parts(document: GuidelineDocument, criterion: Criterion, level: dict[str, Any]) -> dict[str, Any]:
    """What a level has by subcomponent, with the names of these in the reader's language."""
    return {
        "subcomponents": [
            part | {"label": label_part(document, criterion, part["name"])} for part in level["subcomponents"]
        ],
        "examples": [
            example | {"label": label_part(document, criterion, example["subcomponent"])}
            if example["subcomponent"]
            else example
            for example in level["examples"]
        ],
    }


def label_part(document: GuidelineDocument, criterion: Criterion, subcomponent: str) -> str:
    language = choose_language(document, get_language() or "en")
    return document.label_subcomponent(criterion, subcomponent)[language]


def level_context(
    criterion: str, level: dict[str, Any], notes: dict[ClauseKey, list[GuidelineNote]]
) -> dict[str, Any]:
    return level | {
        "requires": [guideline_text(code) for code in level["requires"]],
        "notes": notes.get((criterion, level["value"]), ()),
        "clause": clause_value(criterion, level["value"]),
        "anchor": f"{criterion}-{level['value']:g}",
    }
