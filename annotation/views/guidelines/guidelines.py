"""Guidelines: the list, reading a version, putting one in, publishing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, InputError
from annotation.core.formatting import format_compact
from annotation.core.http import breadcrumbs
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.guidelines.prose import split_blocks
from annotation.domain.permissions import READ_GUIDELINES, WRITE_GUIDELINES
from annotation.forms.guidelines import GuidelineForm, clause_value
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
from annotation.services.guidelines import load_guideline, publish_guideline
from annotation.views.access import act_required, may, person_of
from annotation.views.guidelines.comparison import compare_with_published
from annotation.views.guidelines.wording import format_severity, guideline_text, language_name
from annotation.views.notices import add_notice

LINES_AROUND = 4  # lines shown on either side of a faulty one


@dataclass(frozen=True)
class SourceLine:
    number: int
    text: str
    wrong: bool


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
    return render(request, "annotation/guidelines/list.html", {"families": listed})


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


@require_http_methods(["GET", "POST"])
@act_required(WRITE_GUIDELINES)
def guideline_new(request: HttpRequest) -> HttpResponse:
    form = GuidelineForm(request.POST or None, request.FILES or None)
    if not form.is_valid():
        return _show_form(request, form)
    text = form.cleaned_data["text"]
    try:
        stored = load_guideline(text=text, path=form.file_name, actor=person_of(request))
    except InputError as error:
        return _show_form(request, form, text=text, error=error)
    except AssayError as error:
        form.add_error(None, error_text(error))
        return _show_form(request, form, text=text)
    add_notice(request, "guideline_stored", guideline=stored)
    return redirect("guideline", stored.name, stored.version)


@require_POST
@act_required(WRITE_GUIDELINES)
def guideline_publish(request: HttpRequest, name: str, version: str) -> HttpResponse:
    draft = get_guideline_version(name, version, drafts=True)
    publish_guideline(guideline=draft, actor=person_of(request))
    add_notice(request, "guideline_published", guideline=draft)
    return redirect("guideline", name, version)


def _show_form(
    request: HttpRequest, form: GuidelineForm, *, text: str | None = None, error: InputError | None = None
) -> HttpResponse:
    context = {
        "form": form,
        "text": form["text"].value() if text is None else text,
        "error": error,
        "error_text": error_text(error) if error else "",
        "excerpt": list_excerpt(text or "", error.line) if error and error.line else (),
        "crumbs": breadcrumbs((_("Guidelines"), "guidelines", []), title=_("New version")),
    }
    return render(request, "annotation/guidelines/new.html", context, status=422 if form.is_bound else 200)


def list_excerpt(text: str, line: int) -> list[SourceLine]:
    lines = text.splitlines()
    first, last = max(1, line - LINES_AROUND), min(len(lines), line + LINES_AROUND)
    return [SourceLine(number, lines[number - 1], number == line) for number in range(first, last + 1)]


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
            else [labels[name] for name in criterion.applies_to.dimensions],
            "scale": [level_context(criterion.name, level, notes) for level in written["scale"][::-1]],
            "others": list_other_answers(document, criterion),
            "scale_words": guideline_text(
                criterion.measurement if criterion.kind == "level" else criterion.kind
            ),
            "notes": notes.get((criterion.name, None), ()),
            "clause": clause_value(criterion.name, None),
        }
        for criterion, written in zip(document.criteria, content["criteria"], strict=True)
    ]


def level_context(
    criterion: str, level: dict[str, Any], notes: dict[ClauseKey, list[GuidelineNote]]
) -> dict[str, Any]:
    return level | {
        "requires": [guideline_text(code) for code in level["requires"]],
        "notes": notes.get((criterion, level["value"]), ()),
        "clause": clause_value(criterion, level["value"]),
        "anchor": f"{criterion}-{level['value']:g}",
    }
