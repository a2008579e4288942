"""Guidelines: the list, reading a version, putting one in, publishing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language, get_language_info
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.errors import AssayError, InputError
from annotation.forms.guidelines import GuidelineForm
from annotation.guidelines import GuidelineDocument
from annotation.models import MANAGER, ROLES
from annotation.plaintext import blocks
from annotation.selectors.guidelines import (
    families,
    in_language,
    language_for,
    localized_title,
    version_named,
)
from annotation.services.guidelines import load_guideline, publish_guideline
from annotation.views.access import has_role, person_of, role_required
from annotation.views.crumbs import trail
from annotation.wording import error_text

AROUND = 4  # lines shown on either side of a faulty one


@dataclass(frozen=True)
class SourceLine:
    number: int
    text: str
    wrong: bool


@require_GET
@role_required(*ROLES)
def guidelines(request: HttpRequest) -> HttpResponse:
    """Every guideline by name. Drafts, and the batches that use a version, are for managers."""
    manages = has_role(person_of(request), MANAGER)
    language = get_language() or "en"
    listed = [(family, localized_title(family, language)) for family in families(drafts=manages)]
    return render(request, "annotation/guidelines/list.html", {"families": listed, "manages": manages})


@require_GET
@role_required(*ROLES)
def guideline(request: HttpRequest, name: str, version: str) -> HttpResponse:
    """A version to read, in the reader's language or in the one asked for with ``?language=``."""
    manages = has_role(person_of(request), MANAGER)
    found = version_named(name, version, drafts=manages)
    document = found.document
    language = language_for(document, request.GET.get("language") or get_language() or "en")
    content = in_language(document, language)
    context = {
        "guideline": found,
        "content": content,
        "introduction": blocks(content["introduction"]),
        "criteria": _criteria(document, content),
        "language": language,
        "languages": [(code, _language_name(code)) for code in document.languages],
        "manages": manages,
        "batches": found.batches.all() if manages else (),
        "crumbs": trail((_("Guidelines"), "guidelines", []), here=str(found)),
    }
    return render(request, "annotation/guidelines/guideline.html", context)


@require_http_methods(["GET", "POST"])
@role_required(MANAGER)
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
    messages.success(
        request, _("{guideline} is stored. Read it through; then publish it.").format(guideline=stored)
    )
    return redirect("guideline", stored.name, stored.version)


@require_POST
@role_required(MANAGER)
def guideline_publish(request: HttpRequest, name: str, version: str) -> HttpResponse:
    found = version_named(name, version, drafts=True)
    publish_guideline(guideline=found, actor=person_of(request))
    messages.success(request, _("{guideline} is published: batches can use it.").format(guideline=found))
    return redirect("guideline", name, version)


def _show_form(
    request: HttpRequest, form: GuidelineForm, *, text: str | None = None, error: InputError | None = None
) -> HttpResponse:
    context = {
        "form": form,
        "text": form["text"].value() if text is None else text,
        "error": error,
        "error_text": error_text(error) if error else "",
        "excerpt": _excerpt(text or "", error.line) if error and error.line else (),
        "crumbs": trail((_("Guidelines"), "guidelines", []), here=_("New version")),
    }
    return render(request, "annotation/guidelines/new.html", context, status=422 if form.is_bound else 200)


def _excerpt(text: str, line: int) -> list[SourceLine]:
    lines = text.splitlines()
    first, last = max(1, line - AROUND), min(len(lines), line + AROUND)
    return [SourceLine(number, lines[number - 1], number == line) for number in range(first, last + 1)]


def _criteria(document: GuidelineDocument, content: dict[str, Any]) -> list[dict[str, Any]]:
    """Each criterion with the names of its dimensions in the reader's language, and its highest level first."""
    labels = {one["name"]: one["label"] for one in content["dimensions"]}
    return [
        written
        | {
            "about": [] if one.applies_to == "all" else [labels[name] for name in one.applies_to.dimensions],
            "scale": written["scale"][::-1],
        }
        for one, written in zip(document.criteria, content["criteria"], strict=True)
    ]


def _language_name(code: str) -> str:
    if code == "zh":  # Django knows its scripts only
        return "中文"
    try:
        return str(get_language_info(code)["name_local"])
    except KeyError:
        return code
