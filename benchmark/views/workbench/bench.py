"""The author's bench: write a prompt, put it to the targets, give their answers a level, and submit it.

The page saves what is typed on the way, and asks for the part with the answers again while one may still come. Without
scripts each form's answer is the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, Conflict, Forbidden, NotFound
from annotation.core.formatting import format_compact
from annotation.core.http import Crumb, breadcrumbs, parse_int
from annotation.domain.guidelines import localize
from annotation.domain.permissions import WRITE_PROMPTS
from annotation.models import Person, Prompt
from annotation.selectors.wellbeing import SEVERE, build_item_wellbeing
from annotation.views.access import act_required, person_of
from annotation.views.guidelines.questions import render_guide
from annotation.views.texts import RenderedText, render_text
from benchmark.domain.workbench.campaigns import list_asked
from benchmark.forms.bench import BenchForm
from benchmark.models import Campaign, CampaignMember, Proposal
from benchmark.selectors.workbench.bench import (
    AttemptRow,
    get_own_attempt,
    get_own_proposal,
    list_attempt_rows,
    list_own_proposals,
    may_read_predictions,
)
from benchmark.selectors.workbench.campaigns import (
    OpenCell,
    get_campaign,
    get_member,
    hides_targets,
    list_cells,
    list_methods,
    list_targets,
    read_budget,
)
from benchmark.selectors.workbench.duplicates import find_near_texts
from benchmark.services.workbench.attempts import ask_targets, list_attempts_on, recover_attempts, set_levels
from benchmark.services.workbench.campaigns import join_campaign
from benchmark.services.workbench.duplicates import index_recent_prompts
from benchmark.services.workbench.proposals import (
    ProposalText,
    discard_proposal,
    read_draft,
    save_draft,
    start_proposal,
    submit_proposal,
)
from benchmark.views.workbench.wording import build_method_cards, place_label, read_text

AUTHOR = CampaignMember.Role.AUTHOR
Cells = dict[str, OpenCell]


@require_GET
@never_cache
@act_required(WRITE_PROMPTS)
def bench(request: HttpRequest, name: str) -> HttpResponse:
    """The proposal that was written last; who has not joined reads first what the campaign is about."""
    person = person_of(request)
    campaign = get_campaign(person, name)
    member = get_member(campaign, person, AUTHOR)
    if member.joined_at is None:
        return render(request, "benchmark/workbench/bench/join.html", _join_context(campaign))
    latest = (
        Proposal.objects.filter(campaign=campaign, author=person, state__in=Proposal.EDITABLE)
        .order_by("-updated_at")
        .first()
    )
    if latest is not None:
        return redirect("bench-proposal", campaign.name, latest.pk)
    return render(request, "benchmark/workbench/bench/empty.html", _shared_context(campaign, person, member))


def _join_context(campaign: Campaign) -> dict[str, Any]:
    document = campaign.guideline.document
    return {
        "campaign": campaign,
        "disclosure": read_text(campaign.disclosure),
        "severe": [
            read_text(dimension.label) for dimension in document.dimensions if dimension.severity >= SEVERE
        ],
        "crumbs": _crumbs(title=str(campaign)),
        "targets": len(list_targets(campaign)),
    }


@require_POST
@act_required(WRITE_PROMPTS)
def join(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    campaign = get_campaign(person, name)
    get_member(campaign, person, AUTHOR)
    join_campaign(campaign=campaign, person=person)
    return _begin(request, campaign)


@require_POST
@act_required(WRITE_PROMPTS)
def new(request: HttpRequest, name: str) -> HttpResponse:
    return _begin(request, get_campaign(person_of(request), name))


def _begin(request: HttpRequest, campaign: Campaign) -> HttpResponse:
    try:
        started = start_proposal(campaign=campaign, person=person_of(request))
    except Conflict as error:
        messages.error(request, error_text(error))
        return redirect("bench", campaign.name)
    return redirect("bench-proposal", campaign.name, started.pk)


@require_GET
@never_cache
@act_required(WRITE_PROMPTS)
def proposal(request: HttpRequest, name: str, proposal_id: UUID) -> HttpResponse:
    person = person_of(request)
    own = get_own_proposal(person, proposal_id)
    if own.campaign.name != name:
        return redirect("bench-proposal", own.campaign.name, own.pk)
    member = get_member(own.campaign, person, AUTHOR)
    if member.joined_at is None:
        return redirect("bench", name)
    return render(request, "benchmark/workbench/bench/bench.html", _bench_context(own, person, member))


def _bench_context(
    own: Proposal, person: Person, member: CampaignMember, *, error: str = "", form: BenchForm | None = None
) -> dict[str, Any]:
    campaign = own.campaign
    cells = _read_cells(campaign, person)
    text = form.read_text(cells) if form is not None else read_draft(own.draft)
    cell = _find_cell(cells, text)
    is_editable = own.state in Proposal.EDITABLE and campaign.state == Campaign.State.OPEN
    context = _shared_context(campaign, person, member)
    row = next((row for row in context["proposals"] if row.proposal.pk == own.pk), None)
    return {
        **context,
        **_attempts_context(own, person, text),
        "proposal": own,
        "row": row,
        "text": text,
        "error": error,
        "chosen": cell,
        "cells": _group_cells(campaign, cells),
        "malices": Prompt.Malice.choices,
        "is_editable": is_editable,
        "key": (form.submission_key if form is not None else None) or uuid4(),
        "duplicate_reason": form.cleaned_data["duplicate_reason"] if form is not None else "",
        "near": find_near_texts(campaign, text.text, own) if is_editable else [],
        "guide": _render_guide(campaign, text),
        "saved": own.updated_at.isoformat(),
    }


def _shared_context(campaign: Campaign, person: Person, member: CampaignMember) -> dict[str, Any]:
    return {
        "campaign": campaign,
        "budget": read_budget(campaign, member),
        "targets": _name_targets(campaign, person),
        "methods": build_method_cards(list_methods(campaign)),
        "proposals": list_own_proposals(campaign, person),
        "care": build_item_wellbeing(person, 0),
        "crumbs": _crumbs(title=str(campaign)),
    }


def _name_targets(campaign: Campaign, person: Person) -> list[tuple[int, str, str]]:
    """(place, letter, the model's name or "")"""
    hidden = hides_targets(campaign, person)
    return [
        (target.place, target.letter, "" if hidden else target.model.name)
        for target in list_targets(campaign)
    ]


def _read_cells(campaign: Campaign, person: Person) -> Cells:
    return {cell.key: cell for cell in list_cells(campaign, person)}


def _find_cell(cells: Cells, text: ProposalText) -> str:
    classification = text.classification
    return next(
        (
            key
            for key, cell in cells.items()
            if (cell.quota.dimension, cell.quota.subcomponent, cell.quota.method.name)
            == (classification.dimension, classification.subcomponent, classification.method)
        ),
        "",
    )


def _group_cells(campaign: Campaign, cells: Cells) -> dict[str, list[tuple[OpenCell, str]]]:
    """By the place's label, each cell with the label of its method."""
    groups: dict[str, list[tuple[OpenCell, str]]] = {}
    for cell in cells.values():
        label = place_label(campaign.guideline.document, cell.quota.dimension, cell.quota.subcomponent)
        method = read_text(cell.quota.method.label) or cell.quota.method.name
        groups.setdefault(label, []).append((cell, method))
    return groups


def _render_guide(campaign: Campaign, text: ProposalText) -> list[Any]:
    """The clauses of the guideline by which answers to this prompt get their level."""
    document, classification = campaign.guideline.document, text.classification
    language = get_language() or "en"
    if document.dimension_names and not classification.dimension:
        return []
    return [
        render_guide(document.criterion(name).at_subcomponent(classification.subcomponent), language)
        for name in list_asked(campaign.success, document, classification.dimension)
    ]


def _attempts_context(own: Proposal, person: Person, text: ProposalText) -> dict[str, Any]:
    campaign = own.campaign
    attempts = list_attempts_on(own, text)
    rows = list_attempt_rows(campaign, attempts, with_predictions=may_read_predictions(campaign, person))
    names = {place: f"{letter} {name}".strip() for place, letter, name in _name_targets(campaign, person)}
    severity = campaign.guideline.document.severity_of(text.classification.dimension)
    return {
        "proposal": own,
        "attempts": [_build_answer(row, names[row.attempt.target.place]) for row in rows],
        "is_asking": any(row.is_open for row in rows),
        "blur": build_item_wellbeing(person, severity).blur,
    }


def _build_answer(row: AttemptRow, name: str) -> dict[str, Any]:
    language = get_language() or "en"
    rendered: RenderedText | None = render_text(row.text, "auto") if row.text else None
    return {
        "row": row,
        "attempt": row.attempt,
        "name": name,
        "text": rendered,
        "questions": [
            {
                "name": question.criterion.name,
                "label": localize(question.criterion.question, language),
                "own": None if question.own is None else format_compact(question.own),
                "predicted": None if question.predicted is None else format_compact(question.predicted),
                "probability": question.probability,
                "levels": [
                    (format_compact(value), localize(level.name, language) if level else "")
                    for value in question.criterion.values
                    for level in [question.criterion.level(value)]
                ],
            }
            for question in row.questions
        ],
    }


@require_POST
@act_required(WRITE_PROMPTS)
def draft(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """What is typed, saved on the way."""
    person = person_of(request)
    own, form = _read_form(request, proposal_id)
    try:
        saved = save_draft(
            proposal_id=own.pk, person=person, text=form.read_text(_read_cells(own.campaign, person))
        )
    except Forbidden:
        raise
    except AssayError as error:
        return HttpResponse(error_text(error), status=error.status)
    answer = HttpResponse(status=204)
    answer["Assay-Saved"] = saved.isoformat()
    return answer


def _read_form(request: HttpRequest, proposal_id: UUID) -> tuple[Proposal, BenchForm]:
    return get_own_proposal(person_of(request), proposal_id), _build_form(request.POST)


def _build_form(fields: Mapping[str, Any]) -> BenchForm:
    """A key that is none counts as missing."""
    form = BenchForm(fields)
    form.is_valid()
    form.cleaned_data = dict.fromkeys(form.fields, "") | {"key": None} | form.cleaned_data
    return form


@require_POST
@act_required(WRITE_PROMPTS)
def ask(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Put the text to the targets that are ticked; the answers come into the page as they arrive."""
    person = person_of(request)
    own, form = _read_form(request, proposal_id)
    places = [place for place in map(parse_int, request.POST.getlist("target")) if place is not None]
    text = form.read_text(_read_cells(own.campaign, person))
    error = ""
    try:
        ask_targets(proposal_id=own.pk, person=person, text=text, places=places)
    except (Forbidden, NotFound):
        raise
    except AssayError as refusal:
        error = error_text(refusal)
    answer = _render_part(request, own, person, form, error)
    own.refresh_from_db(fields=["updated_at"])
    answer["Assay-Saved"] = own.updated_at.isoformat()
    return answer


def _render_part(
    request: HttpRequest, own: Proposal, person: Person, form: BenchForm, error: str
) -> HttpResponse:
    """The part with the answers for the script; the page for a browser without."""
    status = 422 if error else 200
    member = get_member(own.campaign, person, AUTHOR)
    if not getattr(request, "htmx", False):
        if not error:
            return redirect("bench-proposal", own.campaign.name, own.pk)
        context = _bench_context(own, person, member, error=error, form=form)
        return render(request, "benchmark/workbench/bench/bench.html", context, status=status)
    text = form.read_text(_read_cells(own.campaign, person))
    context = {
        "campaign": own.campaign,
        "budget": read_budget(own.campaign, member),
        "ask_error": error,
        **_attempts_context(own, person, text),
    }
    return render(request, "benchmark/workbench/bench/_answers.html", context, status=status)


@require_POST
@never_cache
@act_required(WRITE_PROMPTS)
def attempts(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """The answers to the text as it stands in the page, which may have no draft yet."""
    person = person_of(request)
    own, form = _read_form(request, proposal_id)
    recover_attempts(own)
    return _render_part(request, own, person, form, "")


@require_POST
@never_cache
@act_required(WRITE_PROMPTS)
def near(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """How near the text in the page is to what exists, without a word of whose that is."""
    own, form = _read_form(request, proposal_id)
    text = form.cleaned_data["text"].replace("\r\n", "\n")
    index_recent_prompts(own.campaign.dataset, actor=own.author)
    context = {"near": find_near_texts(own.campaign, text, own), "checked": bool(text.strip())}
    return render(request, "benchmark/workbench/bench/_near.html", context)


@require_POST
@act_required(WRITE_PROMPTS)
def levels(request: HttpRequest, attempt_id: UUID) -> HttpResponse:
    """The author's own levels of an answer; then the scorer's are shown beside them."""
    person = person_of(request)
    attempt = get_own_attempt(person, attempt_id)
    own = attempt.revision.proposal
    levels_by_name = {
        name.removeprefix("level."): value
        for name, value in request.POST.items()
        if name.startswith("level.") and isinstance(value, str)
    }
    error = ""
    try:
        set_levels(attempt_id=attempt_id, person=person, levels=_parse_levels(levels_by_name))
    except (Forbidden, NotFound):
        raise
    except AssayError as refusal:
        error = error_text(refusal)
    fields = request.POST if "text" in request.POST else _to_fields(own, person)
    return _render_part(request, own, person, _build_form(fields), error)


def _to_fields(own: Proposal, person: Person) -> dict[str, str]:
    """The saved draft as the form would send it."""
    text, cells = read_draft(own.draft), _read_cells(own.campaign, person)
    return {
        "cell": _find_cell(cells, text),
        "text": text.text,
        "language": text.language,
        "malice": text.classification.malice,
        "rationale": text.rationale,
    }


def _parse_levels(texts: Mapping[str, str]) -> dict[str, object]:
    parsed: dict[str, object] = {}
    for name, value in texts.items():
        try:
            number = float(value)
        except ValueError:
            parsed[name] = value
        else:
            parsed[name] = int(number) if number.is_integer() else number
    return parsed


@require_POST
@act_required(WRITE_PROMPTS)
def submit(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Submit, and go on with a new proposal in the same cell; what is refused stays as it is, with the reason."""
    person = person_of(request)
    own, form = _read_form(request, proposal_id)
    campaign = own.campaign
    cells = _read_cells(campaign, person)
    text = form.read_text(cells)
    try:
        submit_proposal(
            proposal_id=own.pk,
            person=person,
            text=text,
            key=form.submission_key,
            duplicate_reason=form.cleaned_data["duplicate_reason"],
        )
    except (Forbidden, NotFound):
        raise
    except AssayError as refusal:
        own = get_own_proposal(person, proposal_id)
        _keep(own, person, text)
        member = get_member(campaign, person, AUTHOR)
        context = _bench_context(own, person, member, error=error_text(refusal), form=form)
        return render(request, "benchmark/workbench/bench/bench.html", context, status=refusal.status)
    messages.success(request, _("Submitted. A reviewer reads it next."))
    return _go_on(campaign, person, text)


def _keep(own: Proposal, person: Person, text: ProposalText) -> None:
    """What was refused is kept as the draft, where it can be."""
    try:
        save_draft(proposal_id=own.pk, person=person, text=text)
    except AssayError:
        return  # it was submitted meanwhile, or is too long to be kept: the page has it


def _go_on(campaign: Campaign, person: Person, text: ProposalText) -> HttpResponse:
    try:
        started = start_proposal(campaign=campaign, person=person)
    except Conflict:
        return redirect("bench", campaign.name)
    if not started.draft:
        blank = ProposalText("", text.classification.model_copy(update={"malice": ""}), text.language)
        save_draft(proposal_id=started.pk, person=person, text=blank)
    return redirect("bench-proposal", campaign.name, started.pk)


@require_POST
@act_required(WRITE_PROMPTS)
def discard(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    person = person_of(request)
    own = get_own_proposal(person, proposal_id)
    try:
        discard_proposal(proposal_id=own.pk, person=person)
    except Conflict as error:
        messages.error(request, error_text(error))
        return redirect("bench-proposal", own.campaign.name, own.pk)
    return redirect("bench", own.campaign.name)


def _crumbs(title: str) -> list[Crumb]:
    return breadcrumbs((_("Campaigns"), "campaigns", []), title=title)
