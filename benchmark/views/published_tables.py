"""Published tables: what others measured, entered from a file after a look at what was read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import Crumb, breadcrumbs
from annotation.core.text_templates import render_text
from annotation.domain.formats.rows import Source
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.domain.permissions import ENTER_PUBLISHED_TABLE, READ_BOARDS
from annotation.forms.lists import ListColumns
from annotation.models import Guideline
from annotation.views.access import act_required, person_of
from annotation.views.lists import build_archive_view, build_title_view, narrow_by_request
from benchmark.domain.leaderboards.metrics import list_metrics, list_scopes
from benchmark.domain.published_tables import Published
from benchmark.forms.leaderboards import PublishedDatasetForm, PublishedForm
from benchmark.models import PublishedTable
from benchmark.selectors.published_tables import (
    build_board_row,
    get_table,
    list_published_tables,
    list_table_rows,
)
from benchmark.services.published_tables import (
    add_published,
    place_published,
    read_published,
    remove_published,
)
from benchmark.views.leaderboards.formatting import (
    list_overall_metrics,
    make_number,
    metric_label,
    scope_label,
)
from scoring.selectors.scorers import get_latest_guideline


@require_GET
@never_cache
@act_required(READ_BOARDS)
def published_tables(request: HttpRequest) -> HttpResponse:
    narrowed = narrow_by_request(request, list_published_tables(), ListColumns(guideline="guideline_name"))
    context = {
        **narrowed.context,
        "tables": list_table_rows(person_of(request), narrowed.rows),
        "any": list_published_tables().exists(),
    }
    return render(request, "benchmark/published_tables/list.html", context)


archive_table = build_archive_view(
    "benchmark.PublishedTable", ENTER_PUBLISHED_TABLE, "published-tables", "pk", removed_at=None
)
title_table = build_title_view(
    "benchmark.PublishedTable", ENTER_PUBLISHED_TABLE, "published-tables", "pk", removed_at=None
)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(ENTER_PUBLISHED_TABLE)
def published_new(request: HttpRequest) -> HttpResponse:
    """First a look at what was read, then, with ``confirm``, the table. Nothing is stored before."""
    form = PublishedForm(request.POST or None, request.FILES or None, person=person_of(request))
    context: dict[str, Any] = {"form": form, "crumbs": _crumbs(_("Enter a table"))}
    status = 422 if form.is_bound else 200
    if form.is_bound and form.is_valid():
        try:
            guideline, rows, text, name = _read_form(form)
            if "confirm" in request.POST:
                return _add_table(request, form, guideline, rows)
            context |= {
                "preview": _preview_context(rows, guideline.document),
                "text": text,
                "file_name": name,
            }
            context |= {"guideline": guideline}
            status = 200
        except AssayError as error:
            form.add_error(None, error_text(error))
            status = max(error.status, 400)
    return render(request, "benchmark/published_tables/new.html", context, status=status)


def _read_form(form: PublishedForm) -> tuple[Guideline, list[Published], str, str]:
    content, name = form.read_file()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        path.write_bytes(content)
        guideline, rows = read_published(Source(path, name), form.cleaned_data["guideline"])
    return guideline, rows, content.decode("utf-8-sig"), name


def _add_table(
    request: HttpRequest, form: PublishedForm, guideline: Guideline, rows: Sequence[Published]
) -> HttpResponse:
    made = add_published(
        guideline=guideline,
        rows=rows,
        actor=person_of(request),
        **{field: form.cleaned_data[field] for field in ("dataset", "language", "name", "source", "url")},
    )
    messages.success(request, _entered_message(made))
    return redirect("published-table", made.pk)


def _entered_message(table: PublishedTable) -> str:
    return render_text(
        "benchmark/wording/message.txt",
        code="table_entered",
        dataset=table.dataset,
        guideline=table.guideline_name,
    )


@require_GET
@never_cache
@act_required(READ_BOARDS)
def published_table(request: HttpRequest, table_id: int) -> HttpResponse:
    person = person_of(request)
    table = get_table(person, table_id)
    return _render_table(
        request, table, PublishedDatasetForm(person=person, initial={"dataset": table.dataset})
    )


@require_POST
@act_required(ENTER_PUBLISHED_TABLE)
def published_dataset(request: HttpRequest, table_id: int) -> HttpResponse:
    """Beside the boards of another dataset."""
    person = person_of(request)
    table = get_table(person, table_id)
    form = PublishedDatasetForm(request.POST, person=person)
    if not form.is_valid():
        return _render_table(request, table, form, status=422)
    try:
        place_published(table=table, dataset=form.cleaned_data["dataset"], actor=person)
    except AssayError as error:
        form.add_error("dataset", error_text(error))
        return _render_table(request, table, form, status=max(error.status, 400))
    table.refresh_from_db()
    messages.success(request, _entered_message(table))
    return redirect("published-table", table.pk)


def _render_table(
    request: HttpRequest, table: PublishedTable, form: PublishedDatasetForm, *, status: int = 200
) -> HttpResponse:
    guideline = get_latest_guideline(table.guideline_name)
    context = {
        "table": table,
        "guideline": guideline,
        "shown": _preview_context(table.rows, guideline.document),
        "crumbs": _crumbs(table.name),
        "form": form,
    }
    return render(request, "benchmark/published_tables/table.html", context, status=status)


@require_POST
@act_required(ENTER_PUBLISHED_TABLE)
def published_remove(request: HttpRequest, table_id: int) -> HttpResponse:
    person = person_of(request)
    table = get_table(person, table_id)
    remove_published(table=table, actor=person)
    message = render_text("benchmark/wording/message.txt", code="table_removed", name=table.name)
    messages.success(request, message)
    return redirect("published-tables")


def _preview_context(rows: Sequence[Published], document: GuidelineDocument) -> dict[str, Any]:
    """The table as a page shows it: a column for each metric of each scope that any row has a number of; without
    dimensions the overall is the only one.
    """
    board = [build_board_row(row, document) for row in rows]
    places: list[tuple[str | None, Metric]] = [
        (None, overall_metric) for overall_metric in list_overall_metrics(document)
    ]
    places += [
        (scope, metric)
        for scope in list_scopes(document)
        for metric in list_metrics(document, scope)
        if document.dimensions or metric.overall == "none"
    ]
    columns = []
    for scope, metric in places:
        statistics = [
            (row["overall"] if scope is None else row["dimensions"][scope])[metric.name] for row in board
        ]
        if any(statistic["value"] is not None for statistic in statistics):
            counted = scope is not None and metric.kind == "rate"  # what its interval rests on
            ns = [row["dimensions"][scope]["n"] if counted else None for row in board]
            columns.append((scope_label(document, scope), metric, statistics, ns))
    return {
        "heads": [{"scope": label, "metric": metric_label(metric)} for label, metric, _held, _ns in columns],
        "rows": [
            {
                "model": row["model"],
                "cells": [
                    {"number": make_number(document, metric, held[at]), "n": ns[at]}
                    for _label, metric, held, ns in columns
                ],
            }
            for at, row in enumerate(board)
        ],
    }


def _crumbs(label: str) -> list[Crumb]:
    return breadcrumbs(
        (_("Boards"), "runs", []), (_("Published tables"), "published-tables", []), title=label
    )
