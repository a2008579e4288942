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

from annotation.core.http import as_attachment
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.guidelines.values import strip_turn
from annotation.domain.permissions import READ_RELEASES
from annotation.domain.releases.canonical import number
from annotation.models import GoldRelease, Guideline, Person
from annotation.models.sql.releases import LabelChange, LabelSide
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.selectors.releases.comparison import (
    ADDED,
    FILTERS,
    KINDS,
    REMOVED,
    SOURCE,
    VALUE,
    VERSION,
    ReleaseDifference,
    compare_agreement,
    compare_releases,
    iterate_changes,
    iterate_csv_lines,
    list_changes,
)
from annotation.selectors.releases.releases import find_successor, get_release_for, list_releases
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of

PAGE = 50


@require_GET
@never_cache
@act_required(READ_RELEASES)
def release_compare(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    release = get_release_for(person, name)
    other_releases = list_other_releases(person, release)
    compared_name = request.GET.get("with") or find_likely_release(release, other_releases)
    context: dict[str, Any] = {
        "release": release,
        "other_releases": other_releases,
        "compared_name": compared_name,
    }
    if compared_name:
        context |= comparison_context(
            request, *order_by_time(release, get_release_for(person, compared_name))
        )
        context["query"] = urlencode({"with": compared_name, **context["parameters"]})
    return render(request, "annotation/releases/compare.html", context)


@require_GET
@act_required(READ_RELEASES)
def release_changes_file(request: HttpRequest, name: str) -> HttpResponseBase:
    """Every change as CSV, streamed; the filters of the page hold here as well."""
    person = person_of(request)
    release = get_release_for(person, name)
    compared_name = (
        request.GET.get("with") or find_likely_release(release, list_other_releases(person, release)) or name
    )
    before, after = order_by_time(release, get_release_for(person, compared_name))
    lines = (
        line.encode() for line in iterate_csv_lines(iterate_changes(before, after, parse_filters(request)))
    )
    file = f"{before.name}-{after.name}.csv"
    record_file(actor=person, target=f"release:{name}", file=file)
    return as_attachment(StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8"), file)


def list_other_releases(person: Person, release: GoldRelease) -> list[GoldRelease]:
    return [
        listed.release for listed in list_releases(person) if not listed.sealed and listed.release != release
    ]


def find_likely_release(release: GoldRelease, other_releases: list[GoldRelease]) -> str:
    """What it superseded, else what superseded it, else the newest other one of the same guideline."""
    kin = [release.supersedes, find_successor(release)]
    names = {guideline["name"] for guideline in release.manifest["guidelines"]}
    kin += [
        other
        for other in other_releases
        if not names.isdisjoint(g["name"] for g in other.manifest["guidelines"])
    ]
    return next(
        (
            candidate.name
            for candidate in [*kin, *other_releases]
            if candidate is not None and candidate in other_releases
        ),
        "",
    )


def order_by_time(first: GoldRelease, second: GoldRelease) -> tuple[GoldRelease, GoldRelease]:
    """The older first, whichever was asked for."""
    before, after = sorted((first, second), key=lambda release: (release.created_at, release.pk))
    return before, after


def parse_filters(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET[name] for name in FILTERS if request.GET.get(name)}


def comparison_context(request: HttpRequest, before: GoldRelease, after: GoldRelease) -> dict[str, Any]:
    found_difference = compare_releases(before, after)
    filters = parse_filters(request)
    page = paginate_changes(request, found_difference, filters)
    documents = list_documents(before, after)
    start = (page.number - 1) * PAGE
    listed = list_changes(before, after, filters, start=start, count=PAGE)
    return {
        "before": before,
        "after": after,
        "difference": found_difference,
        "kinds": [(kind, WORDS[kind](), found_difference.count(kind)) for kind in KINDS],
        "tables": list_tables(documents, found_difference),
        "moves": [move_row(documents, *move) for move in found_difference.moves()],
        "agreement": [agreement_row(documents, row) for row in compare_agreement(before, after)],
        "rows": [change_row(documents, change) for change in listed],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "filters": list_filters(documents, found_difference, filters),
        "parameters": filters,
    }


# Each in the reader's language, when it is asked for.
WORDS = {
    VALUE: lambda: _("Changed in value"),
    SOURCE: lambda: _("Changed in source"),
    VERSION: lambda: _("Changed in guideline version alone"),
    ADDED: lambda: _("Added"),
    REMOVED: lambda: _("Removed"),
}


def paginate_changes(request: HttpRequest, counted: ReleaseDifference, filters: dict[str, str]) -> Page[Any]:
    """Pages of as many changes as were counted; what is on one is asked of the database alone."""
    return Paginator(range(counted.count(**filters)), PAGE).get_page(request.GET.get("page"))


def list_documents(*releases: GoldRelease) -> dict[str, GuidelineDocument]:
    """The documents of the releases' guidelines by name@version."""
    named = {(g["name"], g["version"]) for release in releases for g in release.manifest["guidelines"]}
    known = Guideline.objects.filter(name__in={name for name, _version in named})
    return {
        str(guideline): guideline.document
        for guideline in known.order_by("pk")
        if (guideline.name, guideline.version) in named
    }


def find_document(documents: dict[str, GuidelineDocument], criterion: str) -> GuidelineDocument | None:
    documents_that_ask = (
        document
        for document in documents.values()
        if any(c.name == strip_turn(criterion) for c in document.criteria)
    )
    return next(documents_that_ask, None)


def criterion_name(documents: dict[str, GuidelineDocument], name: str) -> str:
    document = find_document(documents, name)
    return criterion_label(document, name) if document else name


def dimension_name(documents: dict[str, GuidelineDocument], name: str) -> str:
    """In the reader's language; empty where the prompts have none."""
    known = next((document for document in documents.values() if document.knows_dimension(name)), None)
    return dimension_label(known, name) if known else name


def level_name(documents: dict[str, GuidelineDocument], criterion: str, value: float | None) -> str:
    document = find_document(documents, criterion)
    return label_text(document, criterion, value) if document else str(number(value))


def list_tables(documents: dict[str, GuidelineDocument], counted: ReleaseDifference) -> list[dict[str, Any]]:
    """The kinds of change that occur, by dimension and by criterion."""
    named = (
        ("dimension", _("By dimension"), dimension_name),
        ("criterion", _("By criterion"), criterion_name),
    )
    kinds = [kind for kind in KINDS if counted.count(kind)]
    return [
        {
            "id": name,
            "title": title,
            "head": [WORDS[kind]() for kind in kinds],
            "rows": [
                (called(documents, part), [counts[kind] for kind in kinds])
                for part, counts in counted.by(name).items()
            ],
        }
        for name, title, called in named
    ]


def move_row(
    documents: dict[str, GuidelineDocument],
    criterion: str,
    before: float | None,
    after: float | None,
    n: int,
) -> dict[str, Any]:
    return {
        "criterion": criterion_name(documents, criterion),
        "before": level_name(documents, criterion, before),
        "after": level_name(documents, criterion, after),
        "count": n,
    }


def agreement_row(documents: dict[str, GuidelineDocument], row: dict[str, Any]) -> dict[str, Any]:
    criterion = row["criterion"]
    measurement = "nominal"
    if criterion is not None and (document := find_document(documents, criterion)) is not None:
        measurement = document.criterion(criterion).agreement_scale
    names = ("percent_agreement", f"alpha_{measurement}")
    return {
        "criterion": _("all together") if criterion is None else criterion_name(documents, criterion),
        "group": ", ".join(dimension_name(documents, name or "") or "-" for name in row["group"].values())
        or _("all"),
        "n": [(row[side] or {}).get("n") for side in ("before", "after")],
        "statistics": [(row[side] or {}).get(name) for name in names for side in ("before", "after")],
    }


def change_row(documents: dict[str, GuidelineDocument], change: LabelChange) -> dict[str, Any]:
    return {
        "change": change,
        "word": WORDS[change.kind](),
        "criterion": criterion_name(documents, change.criterion),
        "before": side_words(documents, change.criterion, change.before),
        "after": side_words(documents, change.criterion, change.after),
    }


def side_words(
    documents: dict[str, GuidelineDocument], criterion: str, side: LabelSide | None
) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "value": level_name(documents, criterion, side.value),
        "source": side.source,
        "version": side.guideline_version,
        "task": side.task,
    }


def list_filters(
    documents: dict[str, GuidelineDocument], counted: ReleaseDifference, filters: dict[str, str]
) -> list[dict[str, Any]]:
    kinds: list[tuple[str, str]] = [(kind, WORDS[kind]()) for kind in KINDS if counted.count(kind)]
    options = {
        "kind": (_("Change"), kinds),
        "criterion": (
            _("Criterion"),
            [(name, criterion_name(documents, name)) for name in counted.by("criterion")],
        ),
        "dimension": (
            _("Dimension"),
            [(name, dimension_name(documents, name)) for name in counted.by("dimension") if name],
        ),
    }
    return [
        {"name": name, "label": label, "options": known, "value": filters.get(name, "")}
        for name, (label, known) in options.items()
    ]
