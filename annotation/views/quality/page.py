"""The pages of annotators' quality: everybody's figures, one person's part in a batch, and the items behind a figure.

They are for managers alone, and leave out each batch that is sealed for the reader. A researcher reads on the agreement
page how far labels can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.http import breadcrumbs, parse_level, parse_ordinal
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.permissions import REVIEW_QUALITY
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Batch, Membership, Person
from annotation.selectors.access import record_openings, sealed_batches
from annotation.selectors.batches import get_batch, list_readable_batches, open_readable_batches
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.selectors.people import get_person
from annotation.selectors.quality import (
    ItemFilter,
    build_comparison_table,
    find_rows,
    get_overview,
    list_adjudicators,
    list_items,
    list_responses,
)
from annotation.services.audit import record_view
from annotation.views.access import act_required, person_of
from annotation.views.agreement.query import parse_batches
from annotation.views.batches.batches import batch_context
from annotation.views.quality.annotator import item_line, part_context
from annotation.views.quality.tables import TABS, adjudicator_context, list_tabs, overview_context

PAGE = 50
# So many batches are looked at together on the page of all: the latest ones.
MAX_BATCHES = 20


@require_GET
@never_cache
@act_required(REVIEW_QUALITY)
def quality(request: HttpRequest) -> HttpResponse:
    """Everybody in the batches that the address names, else in the latest that the reader may open, taken together: a
    response that several of them have counts once.
    """
    reader, names = person_of(request), parse_batches(request)
    readable = list_readable_batches(reader).exclude(state=Batch.State.DRAFT)
    if names:
        batches = list(open_readable_batches(reader, names).select_related("guideline").order_by("name"))
    else:
        batches = list(readable.select_related("guideline").order_by("-created_at", "-pk")[:MAX_BATCHES])
        record_openings(reader, [batch.pk for batch in batches])
    context = tab_context(request, batches, None) | {
        "pooled_batches": batches,
        "batches": readable.order_by("name"),
        "chosen_batches": names,
        "max_batches": MAX_BATCHES,
        "left_out": 0 if names else max(0, readable.count() - len(batches)),
        "sealed_n": sealed_batches(reader).count(),
    }
    return render(request, "annotation/quality/all.html", context)


@require_GET
@never_cache
@act_required(REVIEW_QUALITY)
def batch_quality(request: HttpRequest, name: str) -> HttpResponse:
    open_batch = get_readable_batch(request, name)
    context = batch_context(open_batch, person_of(request), tab="quality") | tab_context(
        request, [open_batch], open_batch
    )
    return render(request, "annotation/quality/batch.html", context)


@require_GET
@never_cache
@act_required(REVIEW_QUALITY)
def batch_quality_person(request: HttpRequest, name: str, username: str) -> HttpResponse:
    """One person's part in a batch: as annotator, as adjudicator, or both."""
    open_batch, person = get_member(request, name, username)
    context = batch_context(open_batch, person_of(request), tab="quality") | part_context(open_batch, person)
    context["crumbs"] = quality_breadcrumbs(open_batch, title=str(person))
    return render(request, "annotation/quality/person.html", context)


@require_GET
@never_cache
@act_required(REVIEW_QUALITY)
def batch_quality_items(request: HttpRequest, name: str, username: str) -> HttpResponse:
    """The items behind a figure of the person, with what everybody said of each."""
    open_batch, person = get_member(request, name, username)
    filters, words = parse_filters(request, open_batch.guideline.document)
    sheet = build_comparison_table([open_batch])
    rows = find_rows(sheet, person.pk, filters)
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    items = list_items(sheet, person.pk, list(page.object_list))
    responses = list_responses([item.task for item in items])
    people = Person.objects.in_bulk({partner for item in items for partner in item.partner_labels})
    parameters = {key: value for key, value in request.GET.items() if value and key != "page"}
    context = batch_context(open_batch, person_of(request), tab="quality") | {
        "person": person,
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(parameters),
        "filters": words,
        "rows": [item_line(item, open_batch.guideline.document, responses, people) for item in items],
        "several": len(sheet.scales) > 1,
        "crumbs": quality_breadcrumbs(
            open_batch, (str(person), "batch-quality-person", [name, username]), title=_("Items")
        ),
    }
    return render(request, "annotation/quality/items.html", context)


def quality_breadcrumbs(batch: Batch, *more: tuple[str, str, list[str]], title: str) -> Any:
    return breadcrumbs(
        (_("Batches"), "batches", []),
        (batch.name, "batch", [batch.name]),
        (_("Quality"), "batch-quality", [batch.name]),
        *more,
        title=title,
    )


def get_readable_batch(request: HttpRequest, name: str) -> Batch:
    """The batch, if its results are open to the reader."""
    get_batch(name)
    readable: QuerySet[Batch] = open_readable_batches(person_of(request), [name])
    return readable.select_related("guideline").get()


def get_member(request: HttpRequest, name: str, username: str) -> tuple[Batch, Person]:
    open_batch, person = get_readable_batch(request, name), get_person(username)
    if not Membership.objects.filter(batch=open_batch, person=person).exists():
        raise NotFound(N_("{name} is not in the batch {batch}."), name=username, batch=name)
    if person != person_of(request):
        verb, target = AnnotationVerb.VIEW_WORK, f"person:{username}"
        record_view(actor=person_of(request), verb=verb, target=target, batch=name)
    return open_batch, person


def tab_context(request: HttpRequest, batches: Sequence[Batch], batch: Batch | None) -> dict[str, Any]:
    """What the tab shows; ``one`` is the batch whose people's parts the rows lead to."""
    tab, sort = request.GET.get("show", ""), request.GET.get("sort", "")
    if tab not in TABS:
        raise AssayError(
            N_("{value} cannot be chosen here; choose one of: {known}."),
            value=tab,
            known=", ".join(name for name in TABS if name),
        )
    overview, names = get_overview(batches), parse_batches(request)
    context = overview_context(overview, batches, batch, tab, sort, names=names)
    if tab == "adjudicators":
        context |= adjudicator_context(list_adjudicators(batches), batches, batch)
    return context | {"tabs": list_tabs(tab, names), "quality_tab": tab, "sort": sort}


def parse_filters(
    request: HttpRequest, document: GuidelineDocument
) -> tuple[ItemFilter, list[tuple[str, str]]]:
    """The filters of the address, and those that narrow anything in words."""
    parameters = {key: str(value).strip() for key, value in request.GET.items() if str(value).strip()}
    partner = get_person(parameters["with"]) if "with" in parameters else None
    filters = ItemFilter(
        criterion=parameters.get("criterion"),
        dimension="" if parameters.get("dimension") == "-" else parameters.get("dimension"),
        own_label=parse_filter_level(parameters, "mine"),
        partner_label=parse_filter_level(parameters, "theirs"),
        gold=parse_filter_level(parameters, "gold"),
        partner=partner.pk if partner else None,
        day=parse_ordinal(parameters.get("day", "")),
        since=parse_ordinal(parameters.get("since", "")),
        differs="apart" in parameters,
        off_gold="off_gold" in parameters,
        fastest="fastest" in parameters,
    )
    return filters, describe_filters(filters, str(partner or ""), document)


def describe_filters(filters: ItemFilter, partner: str, document: GuidelineDocument) -> list[tuple[str, str]]:
    def level(value: float | None) -> str | None:
        return None if value is None else label_text(document, filters.criterion or "", value)

    criterion, dimension = filters.criterion, filters.dimension
    filters_by_label = [
        (_("Criterion"), criterion and criterion_label(document, criterion)),
        (_("Dimension"), None if dimension is None else dimension_label(document, dimension)),
        (_("Their label"), level(filters.own_label)),
        (_("The partner's label"), level(filters.partner_label)),
        (_("Final label"), level(filters.gold)),
        (_("Also labelled by"), partner),
        (_("Day"), filters.day and date.fromordinal(filters.day).isoformat()),
        (_("From this day on"), filters.since and date.fromordinal(filters.since).isoformat()),
        ("", filters.differs and _("other than the partner")),
        ("", filters.off_gold and _("other than the final label")),
        ("", filters.fastest and _("the fastest first")),
    ]
    return [(label, words) for label, words in filters_by_label if words]


def parse_filter_level(parameters: Mapping[str, str], name: str) -> float | None:
    level = parse_level(parameters[name]) if name in parameters else None
    if name in parameters and level is None:
        raise AssayError(N_("{value} is not a level."), value=parameters[name])
    return level
