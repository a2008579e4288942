"""Two releases beside each other: what was added, removed and changed, and how well people agreed in each."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.formatting import format_compact
from annotation.core.http import attached
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import MANAGER, RESEARCHER, GoldRelease, Guideline, Person
from annotation.models.sql import LabelChange, LabelSide
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.selectors.releases.comparison import (
    ADDED,
    FILTERS,
    KINDS,
    REMOVED,
    SOURCE,
    VALUE,
    VERSION,
    Difference,
    agreement_beside,
    all_changes,
    changes,
    csv_lines,
    difference,
)
from annotation.selectors.releases.releases import heir_of, release_for, releases_for
from annotation.views.access import person_of, role_required

PAGE = 50


@require_GET
@never_cache
@role_required(RESEARCHER, MANAGER)
def release_compare(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    release = release_for(person, name)
    others = _others(person, release)
    chosen = request.GET.get("with") or _likely(release, others)
    context: dict[str, Any] = {"release": release, "others": others, "chosen": chosen}
    if chosen:
        context |= _compared(request, *_in_time(release, release_for(person, chosen)))
        context["query"] = urlencode({"with": chosen, **context["given"]})
    return render(request, "annotation/releases/compare.html", context)


@require_GET
@role_required(RESEARCHER, MANAGER)
def release_changes_file(request: HttpRequest, name: str) -> HttpResponseBase:
    """Every change as CSV, streamed; the filters of the page hold here as well."""
    person = person_of(request)
    release = release_for(person, name)
    chosen = request.GET.get("with") or _likely(release, _others(person, release)) or name
    before, after = _in_time(release, release_for(person, chosen))
    lines = (line.encode() for line in csv_lines(all_changes(before, after, _given(request))))
    answer = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    return attached(answer, f"{before.name}-{after.name}.csv")


def _others(person: Person, release: GoldRelease) -> list[GoldRelease]:
    return [one.release for one in releases_for(person) if not one.sealed and one.release != release]


def _likely(release: GoldRelease, others: list[GoldRelease]) -> str:
    """What it superseded, else what superseded it, else the newest other one of the same guideline."""
    kin = [release.supersedes, heir_of(release)]
    names = {one["name"] for one in release.manifest["guidelines"]}
    kin += [one for one in others if not names.isdisjoint(g["name"] for g in one.manifest["guidelines"])]
    return next((one.name for one in [*kin, *others] if one is not None and one in others), "")


def _in_time(one: GoldRelease, other: GoldRelease) -> tuple[GoldRelease, GoldRelease]:
    """The older first, whichever was asked for."""
    before, after = sorted((one, other), key=lambda release: (release.created_at, release.pk))
    return before, after


def _given(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET[name] for name in FILTERS if request.GET.get(name)}


def _compared(request: HttpRequest, before: GoldRelease, after: GoldRelease) -> dict[str, Any]:
    found = difference(before, after)
    given = _given(request)
    page = _page(request, found, given)
    documents = _documents(before, after)
    start = (page.number - 1) * PAGE
    listed = changes(before, after, given, start=start, count=PAGE)
    return {
        "before": before,
        "after": after,
        "difference": found,
        "kinds": [(kind, WORDS[kind](), found.count(kind)) for kind in KINDS],
        "tables": _tables(documents, found),
        "moves": [_move(documents, *move) for move in found.moves()],
        "agreement": [_beside(documents, row) for row in agreement_beside(before, after)],
        "lines": [_line(documents, one) for one in listed],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "filters": _filters(documents, found, given),
        "given": given,
    }


# Each in the reader's language, when it is asked for.
WORDS = {
    VALUE: lambda: _("Changed in value"),
    SOURCE: lambda: _("Changed in source"),
    VERSION: lambda: _("Changed in guideline version alone"),
    ADDED: lambda: _("Added"),
    REMOVED: lambda: _("Removed"),
}


def _page(request: HttpRequest, found: Difference, given: dict[str, str]) -> Page[Any]:
    """Pages of as many changes as were counted; what is on one is asked of the database alone."""
    return Paginator(range(found.count(**given)), PAGE).get_page(request.GET.get("page"))


def _documents(*releases: GoldRelease) -> dict[str, GuidelineDocument]:
    """The documents of the releases' guidelines by name@version."""
    named = {(g["name"], g["version"]) for release in releases for g in release.manifest["guidelines"]}
    known = Guideline.objects.filter(name__in={name for name, _version in named})
    return {str(one): one.document for one in known.order_by("pk") if (one.name, one.version) in named}


def _document(documents: dict[str, GuidelineDocument], criterion: str) -> GuidelineDocument | None:
    asked = (
        document for document in documents.values() if any(c.name == criterion for c in document.criteria)
    )
    return next(asked, None)


def _criterion(documents: dict[str, GuidelineDocument], name: str) -> str:
    document = _document(documents, name)
    return criterion_label(document, name) if document else name


def _dimension(documents: dict[str, GuidelineDocument], name: str) -> str:
    """In the reader's language; empty where the prompts have none."""
    known = next((document for document in documents.values() if document.knows_dimension(name)), None)
    return dimension_label(known, name) if known else name


def _level(documents: dict[str, GuidelineDocument], criterion: str, value: float) -> str:
    document = _document(documents, criterion)
    return label_text(document, criterion, value) if document else format_compact(value)


def _tables(documents: dict[str, GuidelineDocument], found: Difference) -> list[dict[str, Any]]:
    """The kinds of change that occur, by dimension and by criterion."""
    named = (("dimension", _("By dimension"), _dimension), ("criterion", _("By criterion"), _criterion))
    kinds = [kind for kind in KINDS if found.count(kind)]
    return [
        {
            "id": name,
            "title": title,
            "head": [WORDS[kind]() for kind in kinds],
            "rows": [
                (called(documents, part), [counts[kind] for kind in kinds])
                for part, counts in found.by(name).items()
            ],
        }
        for name, title, called in named
    ]


def _move(
    documents: dict[str, GuidelineDocument], criterion: str, before: float, after: float, n: int
) -> dict[str, Any]:
    return {
        "criterion": _criterion(documents, criterion),
        "before": _level(documents, criterion, before),
        "after": _level(documents, criterion, after),
        "count": n,
    }


def _beside(documents: dict[str, GuidelineDocument], row: dict[str, Any]) -> dict[str, Any]:
    criterion = row["criterion"]
    measurement = "nominal"
    if criterion is not None and (document := _document(documents, criterion)) is not None:
        measurement = document.criterion(criterion).measurement
    names = ("percent_agreement", f"alpha_{measurement}")
    return {
        "criterion": _("all together") if criterion is None else _criterion(documents, criterion),
        "group": ", ".join(_dimension(documents, name or "") or "-" for name in row["group"].values())
        or _("all"),
        "n": [(row[side] or {}).get("n") for side in ("before", "after")],
        "statistics": [(row[side] or {}).get(name) for name in names for side in ("before", "after")],
    }


def _line(documents: dict[str, GuidelineDocument], one: LabelChange) -> dict[str, Any]:
    return {
        "change": one,
        "word": WORDS[one.kind](),
        "criterion": _criterion(documents, one.criterion),
        "before": _side(documents, one.criterion, one.before),
        "after": _side(documents, one.criterion, one.after),
    }


def _side(
    documents: dict[str, GuidelineDocument], criterion: str, side: LabelSide | None
) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "value": _level(documents, criterion, side.value),
        "source": side.source,
        "version": side.guideline_version,
        "task": side.task,
    }


def _filters(
    documents: dict[str, GuidelineDocument], found: Difference, given: dict[str, str]
) -> list[dict[str, Any]]:
    kinds: list[tuple[str, str]] = [(kind, WORDS[kind]()) for kind in KINDS if found.count(kind)]
    options = {
        "kind": (_("Change"), kinds),
        "criterion": (
            _("Criterion"),
            [(name, _criterion(documents, name)) for name in found.by("criterion")],
        ),
        "dimension": (
            _("Dimension"),
            [(name, _dimension(documents, name)) for name in found.by("dimension") if name],
        ),
    }
    return [
        {"name": name, "label": label, "options": known, "chosen": given.get(name, "")}
        for name, (label, known) in options.items()
    ]
