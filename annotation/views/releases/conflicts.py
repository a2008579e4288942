"""What keeps batches from being released together: every response that they settled in two ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.http import as_attachment, breadcrumbs, parse_int
from annotation.domain.permissions import CUT_RELEASE
from annotation.models import Batch
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.selectors.releases.candidates import (
    Contradiction,
    iterate_csv_lines,
    list_contradicted_keys,
    list_contradictions,
)
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of

PAGE = 50
CHUNK = 500


@require_GET
@never_cache
@act_required(CUT_RELEASE)
def release_conflicts(request: HttpRequest) -> HttpResponse:
    batches = list_requested_batches(request)
    if not batches:
        return redirect("release-new")
    page = Paginator(list_contradicted_keys(batches), PAGE).get_page(request.GET.get("page"))
    context = {
        "batches": batches,
        "rows": conflict_lines(batches, page.object_list),
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode([("batches", batch.pk) for batch in batches]),
        "crumbs": breadcrumbs(
            (_("Gold releases"), "releases", []),
            (_("Cut a release"), "release-new", []),
            title=_("Settled in two ways"),
        ),
    }
    return render(request, "annotation/releases/conflicts.html", context)


@require_GET
@act_required(CUT_RELEASE)
def release_conflicts_file(request: HttpRequest) -> HttpResponseBase:
    """All of them as CSV, a line for each label."""
    lines = (
        line.encode() for line in iterate_csv_lines(iterate_contradictions(list_requested_batches(request)))
    )
    file = "settled-in-two-ways.csv"
    record_file(actor=person_of(request), target="page:release-conflicts", file=file)
    return as_attachment(StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8"), file)


def iterate_contradictions(batches: Sequence[Batch]) -> Iterator[Contradiction]:
    keys = list_contradicted_keys(batches).iterator(chunk_size=CHUNK)
    for part in split_keys(keys):
        yield from list_contradictions(batches, part)


def split_keys(keys: Iterator[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    for key in keys:
        part.append(key)
        if len(part) == CHUNK:
            yield part
            part = []
    if part:
        yield part


def list_requested_batches(request: HttpRequest) -> list[Batch]:
    """The batches that the address names by number; refused where one of them is sealed for the person."""
    numbers_given = request.GET.getlist("batches")
    numbers = [number for text in numbers_given if (number := parse_int(text)) is not None]
    batches = list(Batch.objects.filter(pk__in=numbers).select_related("guideline").order_by("name"))
    refuse_sealed_gold(person_of(request), batches)
    return batches


def conflict_lines(batches: Sequence[Batch], keys: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line of the table for each: what was labelled, and the labels with their batches and tasks."""
    return [conflict_line(contradiction) for contradiction in list_contradictions(batches, keys)]


def conflict_line(contradiction: Contradiction) -> dict[str, Any]:
    document = contradiction.labels[0].task.batch.guideline.document
    return {
        "key": contradiction.key,
        "prompt": contradiction.labels[0].task.response.prompt,
        "criterion": criterion_label(document, contradiction.key.criterion),
        "labels": [
            {
                "task": label.task_id,
                "batch": label.task.batch.name,
                "source": label.source,
                "value": label_text(label.task.batch.guideline.document, label.criterion, label.value),
            }
            for label in contradiction.labels
        ],
    }
