"""What every list has: a search, an order, pages, and an archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlencode

from django.apps import apps
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
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
from annotation.forms.lists import ListColumns, ListForm, RowTitleForm
from annotation.models import Archivable
from annotation.services.lists import set_archived, set_row_title
from annotation.views.access import View, act_required, person_of
from annotation.views.notices import add_notice

R = TypeVar("R", bound=Model)
PAGE = 50
COLUMNS = ListColumns()


@dataclass(frozen=True)
class NarrowedList(Generic[R]):
    """One page of a list. ``context`` is for its template, with ``components/list_tools.html``."""

    rows: QuerySet[R]
    """Those of the page."""
    context: Mapping[str, Any]


def narrow_by_request(
    request: HttpRequest, rows: QuerySet[R], columns: ListColumns = COLUMNS, **fixed: str
) -> NarrowedList[R]:
    """``fixed`` are other parameters of the address, which the search and the pages leave as they are."""
    guidelines = columns.list_guidelines(rows)
    choice = ListForm(request.GET, guidelines).read()
    page = Paginator(choice.narrow(rows, columns), PAGE).get_page(request.GET.get("page"))
    parameters = fixed | {
        name: value
        for name, value in (
            ("words", choice.words),
            ("guideline", choice.guideline),
            ("order", request.GET.get("order", "") and choice.order),
            ("archived", "1" if choice.archived else ""),
        )
        if value
    }
    context = {
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(parameters),
        "list_form": ListForm(
            {"words": choice.words, "guideline": choice.guideline, "order": choice.order}, guidelines
        ),
        "list_fixed": fixed.items(),
        "list_choice": choice,
        "is_narrowed": choice.is_narrow,
        "all_url": f"?{urlencode(fixed)}",
        "archive_url": f"?{urlencode({**fixed, 'archived': '1'})}"
        if issubclass(rows.model, Archivable)
        else "",
    }
    return NarrowedList(cast("QuerySet[R]", page.object_list), context)


def build_archive_view(model: str, act: Act, back: str, key: str = "name", **fixed: Any) -> View:
    """The view that archives a row of the model (``archived=1``) or restores it, then ``back``. The one argument of its
    address is the row's ``key``; ``fixed`` are lookups that hold of every row of the list.
    """

    @require_POST
    @act_required(act)
    def archive(request: HttpRequest, **place: Any) -> HttpResponse:
        row = _get_row(model, place, key, fixed)
        archived = request.POST.get("archived") == "1"
        if set_archived(row=row, archived=archived, actor=person_of(request)):
            add_notice(request, "archived" if archived else "restored", name=row.name)
        return redirect(back)

    return archive


def _get_row(model: str, place: Mapping[str, Any], key: str, fixed: Mapping[str, Any]) -> Any:
    (argument,) = place.values()
    row = apps.get_model(model)._default_manager.filter(**{key: argument}, **fixed).first()
    if row is None:
        raise NotFound(N_("There is nothing named {name} here."), name=argument)
    return row


def build_title_view(model: str, act: Act, back: str, key: str = "name", **fixed: Any) -> View:
    """The view that gives a row of the model a title, as ``build_archive_view``."""

    @require_POST
    @act_required(act)
    def set_title(request: HttpRequest, **place: Any) -> HttpResponse:
        row, form = _get_row(model, place, key, fixed), RowTitleForm(request.POST)
        if not form.is_valid():
            raise AssayError(N_("A title has at most 200 characters."))
        if set_row_title(row=row, title=form.cleaned_data["title"], actor=person_of(request)):
            add_notice(request, "titled", name=row.name)
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
