"""The quality of people's labels: who may need help, and with what; then one person's part, and the items behind it.

For managers alone: a researcher reads on the page of the agreement how far labels can be trusted, and how one
annotator works is between them and whoever looks after them. Never of a batch that is sealed for the reader.
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
from annotation.core.http import parse_level, parse_ordinal, trail
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import MANAGER, Batch, Membership, Person
from annotation.selectors.access import record_openings, sealed_batches
from annotation.selectors.batches import batch_named, batches_for, readable_batches
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.selectors.people import person_named
from annotation.selectors.quality import (
    Filters,
    adjudicators_of,
    found_items,
    items_at,
    overview_of,
    prompts_of,
    sheet_of,
)
from annotation.views.access import person_of, role_required
from annotation.views.batches.batches import batch_context
from annotation.views.quality.annotator import item_line, part_context
from annotation.views.quality.tables import SHOWN, adjudicator_context, overview_context, tabs

PAGE = 50
# So many batches are looked at together on the page of all: the latest ones.
MOST_BATCHES = 20


@require_GET
@never_cache
@role_required(MANAGER)
def quality(request: HttpRequest) -> HttpResponse:
    """Everybody in the latest batches that the reader may open, taken together."""
    reader = person_of(request)
    readable = readable_batches(reader).exclude(state=Batch.State.DRAFT)
    batches = list(readable.select_related("guideline").order_by("-created_at", "-pk")[:MOST_BATCHES])
    record_openings(reader, [batch.pk for batch in batches])
    context = _shown(request, batches, None) | {
        "batches": batches,
        "left_out": max(0, readable.count() - len(batches)),
        "sealed_n": sealed_batches(reader).count(),
        "crumbs": trail((_("People"), "people", []), here=_("Quality")),
    }
    return render(request, "annotation/quality/all.html", context)


@require_GET
@never_cache
@role_required(MANAGER)
def batch_quality(request: HttpRequest, name: str) -> HttpResponse:
    found = _open_to(request, name)
    context = batch_context(found, person_of(request), tab="quality") | _shown(request, [found], found)
    return render(request, "annotation/quality/batch.html", context)


@require_GET
@never_cache
@role_required(MANAGER)
def batch_quality_person(request: HttpRequest, name: str, username: str) -> HttpResponse:
    """One person's part in a batch: as annotator, as adjudicator, or both."""
    found, person = _part(request, name, username)
    context = batch_context(found, person_of(request), tab="quality") | part_context(found, person)
    context["crumbs"] = _trail(found, here=str(person))
    return render(request, "annotation/quality/person.html", context)


@require_GET
@never_cache
@role_required(MANAGER)
def batch_quality_items(request: HttpRequest, name: str, username: str) -> HttpResponse:
    """The items behind a figure of the person, with what everybody said of each."""
    found, person = _part(request, name, username)
    wanted, words = _wanted(request, found.guideline.document)
    sheet = sheet_of([found])
    rows = found_items(sheet, person.pk, wanted)
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    items = items_at(sheet, person.pk, list(page.object_list))
    prompts = prompts_of([item.task for item in items])
    people = Person.objects.in_bulk({who for item in items for who in item.others})
    kept = {key: value for key, value in request.GET.items() if value and key != "page"}
    context = batch_context(found, person_of(request), tab="quality") | {
        "person": person,
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(kept),
        "wanted": words,
        "lines": [item_line(item, found.guideline.document, prompts, people) for item in items],
        "several": len(sheet.scales) > 1,
        "crumbs": _trail(found, (str(person), "batch-quality-person", [name, username]), here=_("Items")),
    }
    return render(request, "annotation/quality/items.html", context)


def _trail(batch: Batch, *more: tuple[str, str, list[str]], here: str) -> Any:
    return trail(
        (_("Batches"), "batches", []),
        (batch.name, "batch", [batch.name]),
        (_("Quality"), "batch-quality", [batch.name]),
        *more,
        here=here,
    )


def _open_to(request: HttpRequest, name: str) -> Batch:
    """The batch, if its results are open to the reader."""
    batch_named(name)
    readable: QuerySet[Batch] = batches_for(person_of(request), name)
    return readable.select_related("guideline").get()


def _part(request: HttpRequest, name: str, username: str) -> tuple[Batch, Person]:
    found, person = _open_to(request, name), person_named(username)
    if not Membership.objects.filter(batch=found, person=person).exists():
        raise NotFound(N_("{name} is not in the batch {batch}."), name=username, batch=name)
    return found, person


def _shown(request: HttpRequest, batches: Sequence[Batch], one: Batch | None) -> dict[str, Any]:
    """What the tab shows; ``one`` is the batch whose people's parts the rows lead to."""
    shown, sort = request.GET.get("show", ""), request.GET.get("sort", "")
    if shown not in SHOWN:
        raise AssayError(
            N_("{value} cannot be chosen here; choose one of: {known}."),
            value=shown,
            known=", ".join(name for name in SHOWN if name),
        )
    overview = overview_of(batches)
    context = overview_context(overview, batches, one, shown, sort)
    if shown == "adjudicators":
        context |= adjudicator_context(adjudicators_of(batches), batches, one)
    return context | {"tabs": tabs(shown), "shown": shown}


def _wanted(request: HttpRequest, document: GuidelineDocument) -> tuple[Filters, list[tuple[str, str]]]:
    """The filters of the address, and those that narrow anything in words."""
    given = {key: str(value).strip() for key, value in request.GET.items() if str(value).strip()}
    partner = person_named(given["with"]) if "with" in given else None
    wanted = Filters(
        criterion=given.get("criterion"),
        dimension="" if given.get("dimension") == "-" else given.get("dimension"),
        mine=_level(given, "mine"),
        theirs=_level(given, "theirs"),
        gold=_level(given, "gold"),
        partner=partner.pk if partner else None,
        day=parse_ordinal(given.get("day", "")),
        since=parse_ordinal(given.get("since", "")),
        apart="apart" in given,
        off_gold="off_gold" in given,
        fastest="fastest" in given,
    )
    return wanted, _filter_words(wanted, str(partner or ""), document)


def _filter_words(wanted: Filters, partner: str, document: GuidelineDocument) -> list[tuple[str, str]]:
    def level(value: float | None) -> str | None:
        return None if value is None else label_text(document, wanted.criterion or "", value)

    criterion, dimension = wanted.criterion, wanted.dimension
    said = [
        (_("Criterion"), criterion and criterion_label(document, criterion)),
        (_("Dimension"), None if dimension is None else dimension_label(document, dimension)),
        (_("Their label"), level(wanted.mine)),
        (_("The partner's label"), level(wanted.theirs)),
        (_("Final label"), level(wanted.gold)),
        (_("Also labelled by"), partner),
        (_("Day"), wanted.day and date.fromordinal(wanted.day).isoformat()),
        (_("From this day on"), wanted.since and date.fromordinal(wanted.since).isoformat()),
        ("", wanted.apart and _("other than the partner")),
        ("", wanted.off_gold and _("other than the final label")),
        ("", wanted.fastest and _("the fastest first")),
    ]
    return [(label, words) for label, words in said if words]


def _level(given: Mapping[str, str], name: str) -> float | None:
    level = parse_level(given[name]) if name in given else None
    if name in given and level is None:
        raise AssayError(N_("{value} is no level."), value=given[name])
    return level
