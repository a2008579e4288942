"""The hours that people have worked in a study, and those that are left: a page and a table to keep."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.formatting import format_duration
from annotation.core.http import as_attachment, breadcrumbs
from annotation.domain.permissions import MANAGE_PEOPLE, READ_PIPELINE
from annotation.selectors.batches.hours import HoursReport, iterate_csv_lines, measure_hours
from annotation.selectors.batches.outlook import find_labelling_end
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of


@require_GET
@never_cache
@act_required(MANAGE_PEOPLE)
def hours(request: HttpRequest) -> HttpResponse:
    report = measure_hours(person_of(request))
    crumbs = breadcrumbs((_("Members"), "people", []), title=_("Hours"))
    return render(request, "annotation/people/hours.html", describe_report(report) | {"crumbs": crumbs})


@require_GET
@never_cache
@act_required(MANAGE_PEOPLE)
def hours_file(request: HttpRequest) -> HttpResponseBase:
    lines = "".join(iterate_csv_lines(measure_hours(person_of(request))))
    answer = HttpResponse("\ufeff" + lines, content_type="text/csv; charset=utf-8")
    record_file(actor=person_of(request), target="page:hours", file="hours.csv")
    return as_attachment(answer, "hours.csv")


@require_GET
@never_cache
@act_required(READ_PIPELINE)
def labelling_end(request: HttpRequest) -> HttpResponse:
    """A part of the study's overview, which asks for it once it is there."""
    end = find_labelling_end(person_of(request))
    return render(request, "annotation/batches/_labelling_end.html", {"end": end})


def describe_report(report: HoursReport) -> dict[str, Any]:
    return {
        "report": report,
        "worked": format_duration(report.seconds),
        "left": format_duration(report.seconds_left),
        "to_come": round(report.to_come),
        "rows": [
            (
                row,
                format_duration(row.seconds if row.timed else None),
                format_duration(row.pace),
                format_duration(row.seconds_left),
            )
            for row in report.rows
        ],
    }
