"""What every list has: a search, an order, pages, and an archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlencode

from django.apps import apps
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from annotation.core.errors import N_, AssayError, NotFound
from annotation.domain.permissions import (
    CUT_RELEASE,
    IMPORT_DATA,
    MANAGE_BATCHES,
    RUN_BENCHMARK,
    TRAIN_SCORER,
    Act,
)
from annotation.forms.lists import ListForm, RowTitleForm
from annotation.models import Archivable
from annotation.services.lists import set_archived, set_row_title
from annotation.views.access import View, act_required, person_of
from annotation.views.notices import add_notice

A = TypeVar("A", bound=Archivable)
PAGE = 50


@dataclass(frozen=True)
class NarrowedList(Generic[A]):
    """One page of a list. ``context`` is for its template, with ``components/list_tools.html``."""

    rows: QuerySet[A]
    """Those of the page."""
    context: Mapping[str, Any]


def narrow_by_request(request: HttpRequest, rows: QuerySet[A], **fixed: str) -> NarrowedList[A]:
    """``fixed`` are other parameters of the address, which the search and the pages leave as they are."""
    form = ListForm(request.GET)
    choice = form.read()
    page = Paginator(choice.narrow(rows), PAGE).get_page(request.GET.get("page"))
    parameters = fixed | {
        name: value
        for name, value in (
            ("words", choice.words),
            ("order", request.GET.get("order", "") and choice.order),
            ("archived", "1" if choice.archived else ""),
        )
        if value
    }
    context = {
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(parameters),
        "list_form": ListForm({"words": choice.words, "order": choice.order}),
        "list_fixed": fixed.items(),
        "list_choice": choice,
        "is_narrowed": bool(choice.words),
        "all_url": f"?{urlencode(fixed)}",
        "archive_url": f"?{urlencode({**fixed, 'archived': '1'})}",
    }
    return NarrowedList(cast("QuerySet[A]", page.object_list), context)


def build_archive_view(model: str, act: Act, back: str) -> View:
    """The view that archives a row of the model (``archived=1``) or restores it, by its name; then ``back``."""

    @require_POST
    @act_required(act)
    def archive(request: HttpRequest, name: str) -> HttpResponse:
        row = _get_row(model, name)
        archived = request.POST.get("archived") == "1"
        if set_archived(row=row, archived=archived, actor=person_of(request)):
            add_notice(request, "archived" if archived else "restored", name=name)
        return redirect(back)

    return archive


def _get_row(model: str, name: str) -> Archivable:
    row: Archivable | None = apps.get_model(model)._default_manager.filter(name=name).first()
    if row is None:
        raise NotFound(N_("There is nothing named {name} here."), name=name)
    return row


def build_title_view(model: str, act: Act, back: str) -> View:
    """The view that gives a row of the model a title, by its name; then ``back``."""

    @require_POST
    @act_required(act)
    def set_title(request: HttpRequest, name: str) -> HttpResponse:
        row, form = _get_row(model, name), RowTitleForm(request.POST)
        if not form.is_valid():
            raise AssayError(N_("A title has at most 200 characters."))
        if set_row_title(row=row, title=form.cleaned_data["title"], actor=person_of(request)):
            add_notice(request, "titled", name=name)
        return redirect(back)

    return set_title


archive_dataset = build_archive_view("annotation.Dataset", IMPORT_DATA, "datasets")
archive_batch = build_archive_view("annotation.Batch", MANAGE_BATCHES, "batches")
archive_release = build_archive_view("annotation.GoldRelease", CUT_RELEASE, "releases")
archive_scorer = build_archive_view("scoring.Scorer", TRAIN_SCORER, "scorers")
archive_run = build_archive_view("benchmark.BenchmarkRun", RUN_BENCHMARK, "runs")

title_dataset = build_title_view("annotation.Dataset", IMPORT_DATA, "datasets")
title_batch = build_title_view("annotation.Batch", MANAGE_BATCHES, "batches")
title_release = build_title_view("annotation.GoldRelease", CUT_RELEASE, "releases")
title_scorer = build_title_view("scoring.Scorer", TRAIN_SCORER, "scorers")
title_run = build_title_view("benchmark.BenchmarkRun", RUN_BENCHMARK, "runs")
