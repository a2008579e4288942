"""The report: a page for the appendix of a paper, of batches or of a release; and the same as LaTeX and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.errors import N_, AssayError
from annotation.models import MANAGER, RESEARCHER, Batch, Person
from annotation.selectors.agreement.access import readable_batches
from annotation.selectors.batches import batch_named
from annotation.selectors.gold import refuse_sealed_gold, release_for
from annotation.selectors.report import report_of_batches, report_of_release
from annotation.views.access import person_of, role_required
from annotation.views.attached import attached
from annotation.views.report_latex import latex
from annotation.views.report_words import heading, references, render_notes, render_report

FORMATS = ("html", "json", "latex")


@require_GET
@never_cache
@role_required(MANAGER, RESEARCHER)
def report(request: HttpRequest) -> HttpResponseBase:
    """``?batch=..`` (once or more) or ``?release=..``, and ``&format=json`` or ``latex``; without any, a choice."""
    person = person_of(request)
    batches, release = request.GET.getlist("batch"), request.GET.get("release", "")
    kind = request.GET.get("format", "html")
    if kind not in FORMATS:
        raise AssayError(
            N_("{value} cannot be chosen here; choose one of: {known}."), value=kind, known=", ".join(FORMATS)
        )
    if not batches and not release:
        return render(request, "annotation/report/choose.html", {"batches": _with_results(person)})
    found = _report(person, batches, release)
    if kind == "json":
        return attached(HttpResponse(as_json(found), content_type="application/json"), "report.json")
    if kind == "latex":
        text = latex(found, get_language() or "en")
        return attached(HttpResponse(text, content_type="application/x-tex; charset=utf-8"), "report.tex")
    context = {
        "heading": heading(found),
        "release": release,
        "sections": render_report(found),
        "notes": render_notes(),
        "references": references(),
        "links": {name: _address(batches, release, name) for name in FORMATS[1:]},
    }
    return render(request, "annotation/report/page.html", context)


def as_json(found: Mapping[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _report(person: Person, batches: Sequence[str], release: str) -> dict[str, Any]:
    if release:
        return report_of_release(release_for(person, release))
    chosen = [batch_named(name) for name in dict.fromkeys(batches)]
    refuse_sealed_gold(person, chosen)
    return report_of_batches(chosen)


def _with_results(person: Person) -> Sequence[Batch]:
    """Those whose report the person may open."""
    return list(readable_batches(person).exclude(state=Batch.State.DRAFT).order_by("name"))


def _address(batches: Sequence[str], release: str, kind: str) -> str:
    chosen = {"release": release} if release else {"batch": list(batches)}
    return reverse("report") + "?" + urlencode({**chosen, "format": kind}, doseq=True)
