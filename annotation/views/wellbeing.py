"""The managers' page of annotator wellbeing: reading budget, breaks, contacts, and how much each person read."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from annotation.core.http import breadcrumbs
from annotation.domain.guidelines import localize
from annotation.domain.permissions import LIMIT_EXPOSURE
from annotation.forms.wellbeing import WellbeingForm
from annotation.models import WellbeingSettings
from annotation.selectors.access import sealed_batches
from annotation.selectors.guidelines import GuidelineFamily, list_families
from annotation.selectors.wellbeing import ExposureRow, list_exposure_rows, list_readers
from annotation.services.wellbeing import set_wellbeing
from annotation.views.access import act_required, person_of

DAYS = 14
PAGE = 100


@require_http_methods(["GET", "POST"])
@act_required(LIMIT_EXPOSURE)
def wellbeing_settings(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    settings = WellbeingSettings.objects.filter(pk=WellbeingSettings.ONE).first() or WellbeingSettings()
    form = WellbeingForm(request.POST if request.method == "POST" else None, settings=settings)
    if form.is_valid():
        set_wellbeing(actor=person, **form.settings())
        messages.success(request, _("It applies to everybody from now on."))
        return redirect("care")
    days = list_days()
    page = Paginator(list_readers(person), PAGE).get_page(request.GET.get("page"))
    context = {
        "form": form,
        "guidelines": [guideline_severities(family) for family in list_families(drafts=False)],
        "days": days,
        "page": page,
        "rows": [
            exposure_line(reader_points) for reader_points in list_exposure_rows(list(page.object_list), days)
        ],
        "some_sealed": sealed_batches(person).exists(),
        "crumbs": breadcrumbs((_("Members"), "people", []), title=_("Annotator wellbeing")),
    }
    return render(request, "annotation/wellbeing/page.html", context, status=422 if form.is_bound else 200)


def list_days() -> list[date]:
    """The last days where the site is, today last."""
    today = timezone.localdate()
    return [today - timedelta(days=back) for back in reversed(range(DAYS))]


def guideline_severities(family: GuidelineFamily) -> dict[str, Any]:
    """The dimensions of its latest version, the most severe first."""
    document, language = family.versions[0].guideline.document, get_language() or "en"
    return {
        "guideline": family.versions[0].guideline,
        "title": localize(document.title, language),
        "dimensions": [
            (localize(dimension.label, language), dimension.severity)
            for dimension in sorted(document.dimensions, key=lambda dimension: -dimension.severity)
        ],
    }


def exposure_line(read: ExposureRow) -> dict[str, Any]:
    """A day is full where its points come to what is the budget now."""
    return {
        "person": read.person,
        "budget": read.budget,
        "days": [
            (points, read.budget is not None and points >= max(1, read.budget)) for points in read.points
        ],
    }
