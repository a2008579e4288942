"""The audit trail: a page with filters, and its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.translation import get_language, gettext, override
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.http import as_attachment, build_row_url
from annotation.domain.audit import CATEGORY_LABELS, KINDS, find_verb, split_target
from annotation.domain.permissions import READ_AUDIT
from annotation.domain.releases.gold_file import MARK, csv_cell, csv_writer
from annotation.domain.verbs import AnnotationVerb
from annotation.forms.audit import AuditFilterForm
from annotation.models import AuditEvent, Person
from annotation.selectors.audit import (
    is_blinded,
    iterate_events,
    list_audited_studies,
    list_page,
    select_details,
    select_events,
)
from annotation.selectors.audit.chain import find_head
from annotation.selectors.audit.targets import select_existing
from annotation.selectors.people import describe_agent
from annotation.services.audit import record
from annotation.views.access import act_required, person_of

PLACES = ("before", "after")


@require_GET
@never_cache
@act_required(READ_AUDIT)
def audit(request: HttpRequest) -> HttpResponse:
    reader = person_of(request)
    studies = list_audited_studies(reader)
    form = AuditFilterForm(request.GET, studies)
    page = list_page(reader, form.read())
    names_studies = len(studies) > 1
    existing = select_existing((event.target, event.study_id) for event in page.events)
    parameters = {name: value for name, value in request.GET.items() if value and name not in PLACES}
    context = {
        "form": form,
        "rows": [
            describe_row(
                event, is_there=(event.target, event.study_id) in existing, names_studies=names_studies
            )
            for event in page.events
        ],
        "is_narrowed": bool(parameters),
        "names_studies": names_studies,
        "is_blinded": is_blinded(reader),
        "head": find_head() if reader.is_superuser else None,
        "query": urlencode(parameters),
        "newer": page.events[0].pk if page.newer and page.events else None,
        "older": page.events[-1].pk if page.older and page.events else None,
    }
    return render(request, "annotation/audit/page.html", context)


@require_GET
@never_cache
@act_required(READ_AUDIT)
def audit_file(request: HttpRequest, kind: str) -> HttpResponseBase:
    """What the filters leave, oldest first. Taking it is an event, too."""
    if kind not in WRITERS:
        raise Http404
    reader = person_of(request)
    form = AuditFilterForm(request.GET, list_audited_studies(reader))
    events = select_events(reader, form.read())
    filters = {name: value for name, value in request.GET.items() if value and name in form.fields}
    record(
        actor=reader, verb=AnnotationVerb.EXPORT_AUDIT, target="audit", file=f"audit.{kind}", filters=filters
    )
    content_type, write = WRITERS[kind]
    answer = StreamingHttpResponse(write(iterate_records(events, get_language())), content_type=content_type)
    return as_attachment(answer, f"audit.{kind}")


def describe_row(event: AuditEvent, *, is_there: bool, names_studies: bool) -> dict[str, Any]:
    return {
        "event": event,
        "sentence": render_sentence(event, is_there=is_there, names_studies=names_studies),
        "category": describe_category(event),
        "device": describe_agent(event.agent),
        "details": [(name, show_value(value)) for name, value in select_details(event).items()],
    }


def render_sentence(event: AuditEvent, *, is_there: bool, names_studies: bool) -> str:
    """The sentence with a link to what it is about, where that has a page."""
    label = describe_target(event.target)
    name, key = split_target(event.target)
    study = event.study.name if names_studies and event.study is not None else ""
    target: str = format_html("<strong>{}</strong>", label)
    if is_there and (study or not names_studies):
        target = format_html('<a href="{}">{}</a>', build_row_url(study, KINDS[name].page, key), label)
    actor = format_html("<strong>{}</strong>", describe_actor(event.actor))
    verb = find_verb(event.verb)
    if verb is None:
        return format_html("{}: <code>{}</code> {}", actor, event.verb, target)
    return format_html(gettext(verb.meaning.sentence), actor=actor, target=target)


def describe_sentence(event: AuditEvent) -> str:
    verb = find_verb(event.verb)
    sentence = "{actor}: " + event.verb + " {target}" if verb is None else gettext(verb.meaning.sentence)
    return sentence.format(actor=describe_actor(event.actor), target=describe_target(event.target))


def describe_actor(actor: Person | None) -> str:
    return _("The system") if actor is None else str(actor)


def describe_target(target: str) -> str:
    name, key = split_target(target)
    kind = KINDS.get(name)
    return target if kind is None else gettext(kind.label).format(key=key)


def describe_category(event: AuditEvent) -> str:
    verb = find_verb(event.verb)
    return "" if verb is None else gettext(CATEGORY_LABELS[verb.meaning.category])


def show_value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(part, str | int) for part in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def iterate_records(events: Any, language: str | None) -> Iterator[dict[str, Any]]:
    """The language is the request's, which has ended by the time a part of the file is sent."""
    for event in iterate_events(events):
        with override(language):
            sentence, category = describe_sentence(event), describe_category(event)
        seal = getattr(event, "seal", None)
        yield {
            "id": event.pk,
            "time": event.at.isoformat(),
            "what": sentence,
            "by": None if event.actor is None else event.actor.username,
            "verb": event.verb,
            "category": category,
            "target": event.target,
            "study": None if event.study is None else event.study.name,
            "address": event.address,
            "browser": event.agent,
            "details": select_details(event),
            "position": None if seal is None else seal.position,
            "sha256": None if seal is None else bytes(seal.digest).hex(),
        }


COLUMNS = (
    "id",
    "time",
    "what",
    "by",
    "verb",
    "category",
    "target",
    "study",
    "address",
    "browser",
    "details",
    "position",
    "sha256",
)


def write_csv(records: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    line = csv_writer()
    yield MARK + line(COLUMNS)
    for row in records:
        yield line([csv_cell(row[column]) for column in COLUMNS])


def write_jsonl(records: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    for row in records:
        yield json.dumps(row, ensure_ascii=False) + "\n"


Writer = Callable[[Iterator[Mapping[str, Any]]], Iterator[str]]
WRITERS: dict[str, tuple[str, Writer]] = {
    "csv": ("text/csv; charset=utf-8", write_csv),
    "jsonl": ("application/x-ndjson", write_jsonl),
}
