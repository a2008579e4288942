"""Writing a guideline: a copy to begin with, the check with its preview, the draft, and publishing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, InputError
from annotation.core.http import breadcrumbs
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.guidelines.parser import parse_guideline
from annotation.domain.permissions import WRITE_GUIDELINES
from annotation.forms.guidelines import GuidelineForm
from annotation.models import Guideline
from annotation.selectors.guidelines import (
    SHIPPED_SIGN,
    choose_language,
    copy_guideline,
    get_guideline_version,
    list_shipped,
    read_shipped,
    to_language,
)
from annotation.services.guidelines import load_guideline, publish_guideline
from annotation.views.access import act_required, person_of
from annotation.views.guidelines.questions import Question, build_question, render_guide
from annotation.views.notices import add_notice

LINES_AROUND = 4  # lines shown on either side of a faulty one


@dataclass(frozen=True)
class SourceLine:
    number: int
    text: str
    wrong: bool


@require_http_methods(["GET", "POST"])
@act_required(WRITE_GUIDELINES)
def guideline_new(request: HttpRequest) -> HttpResponse:
    """``?base=NAME@VERSION`` or ``?base=shipped:NAME`` begins with a copy of that one."""
    form = GuidelineForm(request.POST or None, request.FILES or None)
    if request.method == "GET" and request.GET.get("base"):
        return _show_form(request, form, text=copy_guideline(request.GET["base"]))
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
def guideline_preview(request: HttpRequest) -> HttpResponse:
    """What annotators would be asked by the text as it stands, or its first mistake; nothing is stored."""
    form = GuidelineForm(request.POST)
    context: dict[str, Any] = {}
    if form.is_valid():
        text = form.cleaned_data["text"]
        try:
            document = parse_guideline(text, path=form.file_name)
        except InputError as error:
            context = describe_error(text, error)
        else:
            context = preview_context(document)
    return render(request, "annotation/guidelines/_preview.html", context)


@require_POST
@act_required(WRITE_GUIDELINES)
def guideline_shipped(request: HttpRequest, name: str) -> HttpResponse:
    """Store and publish a guideline that comes with the product, as it is, and go to ``next`` or read it."""
    stored = load_guideline(
        text=read_shipped(name), path=f"{name}.yaml", publish=True, actor=person_of(request)
    )
    add_notice(request, "guideline_published", guideline=stored)
    back = request.POST.get("next", "")
    is_safe = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()})
    return redirect(back) if is_safe else redirect("guideline", stored.name, stored.version)


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
        "bases": list_bases(),
        "base": request.GET.get("base", ""),
        "crumbs": breadcrumbs((_("Guidelines"), "guidelines", []), title=_("New version")),
    }
    context |= describe_error(text or "", error) if error else {}
    return render(request, "annotation/guidelines/new.html", context, status=422 if form.is_bound else 200)


def describe_error(text: str, error: InputError) -> dict[str, Any]:
    return {
        "error": error,
        "error_text": error_text(error),
        "excerpt": list_excerpt(text, error.line) if error.line else (),
    }


def list_bases() -> list[tuple[str, str]]:
    """What a guideline may be copied from: the stored versions, the latest first, and those that come with Assay."""
    stored = [str(guideline) for guideline in Guideline.objects.order_by("-pk")]
    shipped = [
        (f"{SHIPPED_SIGN}{name}", _("{guideline}, as it comes with Assay").format(guideline=guideline))
        for name, document in list_shipped().items()
        if (guideline := f"{name}@{document.version}") not in stored
    ]
    return [*((name, name) for name in stored), *shipped]


def list_unused_shipped() -> list[tuple[str, str, str]]:
    """Name, version and title of the guidelines that come with Assay and of which no version is stored."""
    stored = set(Guideline.objects.values_list("name", flat=True))
    language = get_language() or "en"
    return [
        (name, document.version, to_language(document.title, choose_language(document, language)))
        for name, document in list_shipped().items()
        if name not in stored
    ]


def preview_context(document: GuidelineDocument) -> dict[str, Any]:
    """The questions of each dimension, or of a guideline without dimensions, as the work page asks them."""
    language = choose_language(document, get_language() or "en")
    parts = [
        (to_language(dimension.label, language), preview_questions(document, dimension.name, language))
        for dimension in document.dimensions
    ]
    return {
        "document": document,
        "title": to_language(document.title, language),
        "language": language,
        "parts": parts or [("", preview_questions(document, None, language))],
    }


def preview_questions(document: GuidelineDocument, dimension: str | None, language: str) -> list[Question]:
    return [
        build_question(criterion, language, render_guide(criterion, language))
        for criterion in document.criteria_for(dimension)
    ]


def list_excerpt(text: str, line: int) -> list[SourceLine]:
    lines = text.splitlines()
    first, last = max(1, line - LINES_AROUND), min(len(lines), line + LINES_AROUND)
    return [SourceLine(number, lines[number - 1], number == line) for number in range(first, last + 1)]
