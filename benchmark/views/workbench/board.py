"""The board of a campaign, and its proposals: what is there, how far attacks succeed, and what people decided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language, gettext_lazy, pgettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from annotation.core.charts import (
    BLUE,
    GOLD,
    GREEN,
    INK,
    MUTED,
    PADDING,
    SCHEMA,
    Look,
    Spec,
    chart_url,
    draw_interval,
    draw_points,
    make_looks,
    make_quantity,
    make_rows,
)
from annotation.core.error_messages import error_from_json
from annotation.core.formatting import format_interval_percent, format_percent
from annotation.core.http import Crumb, breadcrumbs
from annotation.core.proportions import Rate
from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.domain.permissions import READ_CAMPAIGNS
from annotation.models import Person, Prompt
from annotation.selectors.guidelines import criterion_label, dimension_label, level_text
from annotation.views.access import act_required, person_of
from benchmark.domain.workbench.campaigns import is_success, list_asked
from benchmark.models import Attempt, Campaign, CampaignMember, Proposal, ProposalRevision, Review
from benchmark.models.workbench import FIRST
from benchmark.selectors.workbench.board import (
    WAITING,
    CampaignView,
    count_states,
    get_readable_proposal,
    list_latest_failures,
    list_readable_proposals,
    list_revisions,
    list_shown_reviews,
    open_campaign,
    read_failure_detail,
    read_needs,
)
from benchmark.selectors.workbench.campaigns import find_member, get_campaign, list_methods
from benchmark.selectors.workbench.duplicates import NearText, find_near_texts
from benchmark.selectors.workbench.proposals import SubmittedProposal, read_submitted
from benchmark.selectors.workbench.report import (
    AUTHORS,
    SCORER,
    SETTLED,
    CampaignReport,
    HeatCell,
    build_report,
    list_campaign_batches,
)
from benchmark.selectors.workbench.reviews import classify_review, classify_revision
from benchmark.views.workbench.wording import (
    ClassWord,
    describe_classification,
    place_label,
    read_text,
)

PER_PAGE = 50
SHADES = 5
PANEL_WIDTH, PANEL_STEP, MAX_NAME_PIXELS = 250, 13, 180
TARGET, METHOD, DIMENSION, MALICE = "target", "method", "dimension", "malice"
FIELD_LABELS = {
    "dimension": gettext_lazy("Dimension"),
    "subcomponent": gettext_lazy("Subcomponent"),
    "method": gettext_lazy("Attack method"),
    "malice": gettext_lazy("Malice"),
}
SOURCE_LABELS = {
    AUTHORS: pgettext_lazy("levels of", "The authors"),
    SCORER: pgettext_lazy("levels of", "The scorer"),
    SETTLED: pgettext_lazy("levels of", "Gold labels"),
}
LOOKS = (
    (GOLD, "circle"),
    (BLUE, "triangle-up"),
    (GREEN, "square"),
    ("#8a4f7d", "diamond"),
    ("#7a6a58", "cross"),
)


@require_safe
@never_cache
@act_required(READ_CAMPAIGNS)
def campaign(request: HttpRequest, name: str) -> HttpResponse:
    """The board; ``source`` says whose levels count."""
    person = person_of(request)
    own_campaign = get_campaign(person, name)
    view = open_campaign(own_campaign, person)
    report = build_report(own_campaign, person)
    words = BoardWords(own_campaign)
    context = {
        "campaign": own_campaign,
        "view": view,
        "report": report,
        "needs": read_needs(own_campaign),
        "heat": build_heat(report, words),
        "agreement": [(FIELD_LABELS[field], agreement) for field, agreement in report.agreement.items()],
        "costs": [] if view.judges else report.costs,
        "failures": [
            (attempt.target.model.name, attempt.asked_at, read_failure_detail(attempt))
            for attempt in (list_latest_failures(own_campaign) if view.names_targets else ())
        ],
        "batches": list_campaign_batches(own_campaign),
        "legend": list_legend(),
        "reads_own": find_member(own_campaign, person, CampaignMember.Role.REVIEWER) is not None,
        "crumbs": _crumbs(title=str(own_campaign)),
    }
    if not view.judges:
        context |= success_context(report, words, view, request.GET.get("source", ""))
    return render(request, "benchmark/workbench/board.html", context)


class BoardWords:
    """The labels of a campaign's dimensions, methods and kinds of malice in the reader's language."""

    def __init__(self, own_campaign: Campaign) -> None:
        self.document: GuidelineDocument = own_campaign.guideline.document
        self.methods = list_methods(own_campaign)
        self.method_labels = {method.name: read_text(method.label) or method.name for method in self.methods}

    def label(self, field: str, value: str) -> str:
        if field == METHOD:
            return self.method_labels.get(value, value) or "-"
        if field == DIMENSION:
            return dimension_label(self.document, value)
        if field == MALICE:
            return str(dict(Prompt.Malice.choices).get(value, "-"))
        return value

    def subcomponent(self, dimension: str, name: str) -> str:
        known = self.document.dimension(dimension)
        parts = [part for part in known.subcomponents if part.name == name] if known else []
        return localize(parts[0].label, get_language() or "en") if parts else name


@dataclass(frozen=True)
class HeatEntry:
    """``shade`` from 0, nothing accepted, to 5, all that is wanted."""

    cell: HeatCell
    shade: int

    @property
    def waiting(self) -> int:
        return max(0, self.cell.taken - self.cell.accepted)


@dataclass(frozen=True)
class HeatRow:
    """``opens_group``: it is the first of its dimension's subcomponents."""

    dimension: str
    opens_group: bool
    label: str
    entries: tuple[HeatEntry | None, ...]
    total: HeatEntry


@dataclass(frozen=True)
class HeatMap:
    methods: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    totals: tuple[HeatEntry, ...]
    total: HeatEntry
    has_subcomponents: bool


def build_heat(report: CampaignReport, words: BoardWords) -> HeatMap:
    places = _order_places(report.rows, words.document)
    dimensions = [dimension for dimension, _subcomponent in places]
    rows = tuple(
        HeatRow(
            dimension=dimension_label(words.document, dimension),
            opens_group=bool(subcomponent) and dimension not in dimensions[:n],
            label=words.subcomponent(dimension, subcomponent) or dimension_label(words.document, dimension),
            entries=tuple(
                _shade(report.cells[dimension, subcomponent].get(method)) for method in report.methods
            ),
            total=_add(report.cells[dimension, subcomponent].values()),
        )
        for n, (dimension, subcomponent) in enumerate(places)
    )
    return HeatMap(
        methods=tuple(words.label(METHOD, method) for method in report.methods),
        rows=rows,
        totals=tuple(
            _add(cells[method] for cells in report.cells.values() if method in cells)
            for method in report.methods
        ),
        total=_add(cell for cells in report.cells.values() for cell in cells.values()),
        has_subcomponents=any(subcomponent for _dimension, subcomponent in places),
    )


def _order_places(
    places: Iterable[tuple[str, str]], document: GuidelineDocument
) -> Sequence[tuple[str, str]]:
    """In the guideline's order; what it does not know comes last."""
    known = [
        (dimension.name, part.name if part else "")
        for dimension in document.dimensions
        for part in (dimension.subcomponents or (None,))
    ]
    order = {place: number for number, place in enumerate(known)}
    return sorted(places, key=lambda place: (order.get(place, len(order)), place))


def _shade(cell: HeatCell | None) -> HeatEntry | None:
    return HeatEntry(cell, math.ceil(SHADES * cell.share)) if cell else None


def _add(cells: Iterable[HeatCell]) -> HeatEntry:
    parts = list(cells)
    total = HeatCell(
        wanted=sum(cell.wanted for cell in parts),
        taken=sum(cell.taken for cell in parts),
        accepted=sum(cell.accepted for cell in parts),
    )
    return HeatEntry(total, math.ceil(SHADES * total.share))


def list_legend() -> list[tuple[int, str]]:
    """(shade, from which to which percent)"""
    return [(0, "0%"), *((n, f"{(n - 1) * 20 + 1}–{n * 20}%") for n in range(1, SHADES + 1))]


@dataclass(frozen=True)
class SuccessRow:
    """A rate of success with the labels of what it is of; the ends for its drawing are in percent."""

    labels: tuple[str, ...]
    rate: Rate

    @property
    def percents(self) -> tuple[float | None, ...]:
        ends = (self.rate.low, self.rate.value, self.rate.high)
        return tuple(None if end is None else 100 * end for end in ends)


def success_context(
    report: CampaignReport, words: BoardWords, view: CampaignView, source: str
) -> Mapping[str, Any]:
    sources = [name for name in SOURCE_LABELS if name != SCORER or not view.hides_predictions]
    source = source if source in sources else AUTHORS
    fields = (TARGET, METHOD, DIMENSION)
    table = report.tabulate(source, fields)
    keys = sorted(table, key=lambda key: _order_key(key, fields, report, words))
    rows = [SuccessRow(_label_key(key, fields, words), table[key]) for key in keys]
    parts = {field: _list_margin(report, words, source, field) for field in (*fields, MALICE)}
    methods, dimensions = ([part.labels[0] for part in parts[field]] for field in (METHOD, DIMENSION))
    return {
        "source": source,
        "sources": [(name, SOURCE_LABELS[name], report.totals[name].n) for name in sources],
        "overall": SuccessRow((), report.totals[source]),
        "success_rows": rows,
        "success_parts": list(parts.items()),
        "prompts": len({outcome.prompt for outcome in report.outcomes[source]}),
        "chart": chart_url(draw_success(rows, report.targets, methods, dimensions)) if rows else "",
        "chart_alt": "; ".join(
            f"{', '.join(row.labels)}: {format_percent(row.rate.value)}"
            f" ({format_interval_percent(row.rate.low, row.rate.high)})"
            for row in rows
        ),
    }


def _list_margin(report: CampaignReport, words: BoardWords, source: str, field: str) -> list[SuccessRow]:
    table = report.tabulate(source, (field,))
    keys = sorted(table, key=lambda key: _order_key(key, (field,), report, words))
    return [SuccessRow(_label_key(key, (field,), words), table[key]) for key in keys]


def _label_key(key: Sequence[str], fields: Sequence[str], words: BoardWords) -> tuple[str, ...]:
    return tuple(words.label(field, value) for field, value in zip(fields, key, strict=True))


def _order_key(
    key: Sequence[str], fields: Sequence[str], report: CampaignReport, words: BoardWords
) -> tuple[tuple[int, str], ...]:
    """As the campaign, the study and the guideline order their targets, methods and dimensions."""
    orders: Mapping[str, Sequence[str]] = {
        TARGET: report.targets,
        METHOD: tuple(words.method_labels),
        DIMENSION: words.document.dimension_names,
        MALICE: Prompt.Malice.values,
    }
    return tuple(
        (orders[field].index(value) if value in orders[field] else len(orders[field]), value)
        for field, value in zip(fields, key, strict=True)
    )


def draw_success(
    rows: Sequence[SuccessRow], targets: Sequence[str], methods: Sequence[str], dimensions: Sequence[str]
) -> Spec:
    """A panel for each dimension; in it each method has a dot and a whisker for each target."""
    values = [
        {"target": target, "method": method, "dimension": dimension, "low": low, "value": value, "high": high}
        for row in rows
        for (target, method, dimension), (low, value, high) in [(row.labels, row.percents)]
    ]
    looks = [Look(target, colour, shape) for target, (colour, shape) in zip(targets, LOOKS, strict=False)]
    legend = {
        "orient": "bottom",
        "direction": "vertical",
        "labelLimit": 2 * MAX_NAME_PIXELS,
        "symbolSize": 90,
    }
    colour, shape = make_looks("target", looks, legend if len(looks) > 1 else None)
    x = make_quantity("value", _("Attack success in percent"), (0, 100), tickCount=5, titlePadding=8)
    y = make_rows("method", methods, labelLimit=MAX_NAME_PIXELS)
    offset = {"field": "target", "type": "nominal", "sort": list(targets)}
    layer = [
        draw_interval(x, y, yOffset=offset, color=colour),
        draw_points(x, y, mark={"size": 55}, yOffset=offset, color=colour, shape=shape),
    ]
    header = {"labelFontSize": 13, "labelFontWeight": "bold", "labelColor": INK, "labelAnchor": "start"}
    return {
        "$schema": SCHEMA,
        "padding": PADDING,
        "data": {"values": values},
        "facet": {
            "field": "dimension",
            "type": "nominal",
            "sort": dimensions,
            "title": None,
            "header": header,
        },
        "columns": min(3, len(dimensions)),
        "spacing": 24,
        "spec": {
            "width": PANEL_WIDTH,
            "height": PANEL_STEP * (len(looks) + 1) * len(methods),
            "layer": layer,
            "view": {"stroke": MUTED, "strokeOpacity": 0.25},
        },
    }


@dataclass(frozen=True)
class ProposalLine:
    """A proposal in the list. The author is blank where the reader must not know."""

    proposal: Proposal
    text: str
    place: str
    method: str
    malice: str
    decisions: tuple[str, ...]
    author: str


@require_safe
@never_cache
@act_required(READ_CAMPAIGNS)
def proposals(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    own_campaign = get_campaign(person, name)
    view = open_campaign(own_campaign, person)
    state = request.GET.get("state", "")
    state = state if state in Proposal.State.values else ""
    counts = count_states(list_readable_proposals(own_campaign, person, view))
    listed = list_readable_proposals(own_campaign, person, view, state)
    page = Paginator(listed, PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "campaign": own_campaign,
        "view": view,
        "state": state,
        "states": [
            ("", pgettext_lazy("proposals", "All"), sum(counts.values())),
            *((value, label, counts[value]) for value, label in Proposal.State.choices if value in counts),
        ],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode({"state": state}) if state else "",
        "lines": list(_list_lines(own_campaign, read_submitted(list(page)), person, view)),
        "crumbs": _crumbs((str(own_campaign), "campaign", [name]), title=_("Proposals")),
    }
    return render(request, "benchmark/workbench/proposals.html", context)


def _list_lines(
    own_campaign: Campaign, submitted: Sequence[SubmittedProposal], person: Person, view: CampaignView
) -> Iterable[ProposalLine]:
    words = BoardWords(own_campaign)
    for entry in submitted:
        proposal, revision = entry.proposal, entry.revision
        if revision is None:
            continue
        is_own_waiting = proposal.author_id == person.pk and proposal.state in WAITING
        yield ProposalLine(
            proposal=proposal,
            text=revision.text,
            place=place_label(words.document, revision.dimension, revision.subcomponent),
            method=words.label(METHOD, revision.method.name),
            malice=words.label(MALICE, revision.malice),
            decisions=()
            if is_own_waiting
            else tuple(review.get_decision_display() for review in entry.reviews),
            author="" if view.hides_authors else str(proposal.author),
        )


@require_safe
@never_cache
@act_required(READ_CAMPAIGNS)
def proposal(request: HttpRequest, name: str, proposal_id: UUID) -> HttpResponse:
    """One proposal with everything that was asked and decided about it."""
    person = person_of(request)
    own_campaign = get_campaign(person, name)
    view = open_campaign(own_campaign, person)
    shown_proposal = get_readable_proposal(own_campaign, person, view, proposal_id)
    revisions = list_revisions(shown_proposal, view)
    words = BoardWords(own_campaign)
    submitted = next(revision for revision in revisions if revision.submitted_at is not None)
    context = {
        "campaign": own_campaign,
        "view": view,
        "proposal": shown_proposal,
        "author": "" if view.hides_authors else str(shown_proposal.author),
        "parts": [
            _describe_revision(revision, attempts, shown_proposal, person, view=view, words=words)
            for revision, attempts in group_attempts(revisions)
        ],
        "near": _list_near(own_campaign, shown_proposal, submitted.text),
        "crumbs": _crumbs(
            (str(own_campaign), "campaign", [name]),
            (_("Proposals"), "campaign-proposals", [name]),
            title=_("Proposal"),
        ),
    }
    return render(request, "benchmark/workbench/proposal.html", context)


@dataclass(frozen=True)
class ReviewColumn:
    """What a reviewer said of a revision. The name is blank where the reader must not know."""

    review: Review
    name: str
    is_third: bool
    fields: tuple[ClassWord, ...]


@dataclass(frozen=True)
class AnswerPart:
    """The answer of a target, or why there is none. ``levels``: criterion, the author's, the scorer's, its share."""

    attempt: Attempt
    name: str
    text: str
    refusal: str
    detail: str
    levels: tuple[tuple[str, str, str, float | None], ...]
    is_success: bool | None


def group_attempts(
    revisions: Sequence[ProposalRevision],
) -> list[tuple[ProposalRevision, list[Attempt]]]:
    """Each revision with the attempts on its text. One that was only tried, and whose text was submitted, stands with
    the one that was submitted.
    """
    submitted = {revision.text for revision in revisions if revision.submitted_at is not None}
    groups = []
    for revision in revisions:
        if revision.submitted_at is None:
            if revision.text in submitted:
                continue
            attempts = list(revision.attempts.all())
        else:
            attempts = [a for other in revisions if other.text == revision.text for a in other.attempts.all()]
        groups.append((revision, sorted(attempts, key=lambda attempt: attempt.target.place)))
    return groups


def _describe_revision(
    revision: ProposalRevision,
    attempts: Sequence[Attempt],
    shown_proposal: Proposal,
    person: Person,
    *,
    view: CampaignView,
    words: BoardWords,
) -> Mapping[str, Any]:
    own_class = classify_revision(revision)
    reviews = list_shown_reviews(revision, shown_proposal, person, view)
    names_reviewers = not view.hides_authors and shown_proposal.author_id != person.pk
    columns = [
        ReviewColumn(
            review=review,
            name=str(review.reviewer) if names_reviewers or review.reviewer_id == person.pk else "",
            is_third=review.slot != FIRST,
            fields=tuple(
                describe_classification(classify_review(review), words.document, words.methods, own_class)
            ),
        )
        for review in reviews
    ]
    own_fields = describe_classification(own_class, words.document, words.methods)
    return {
        "revision": revision,
        "fields": [(field, [column.fields[n] for column in columns]) for n, field in enumerate(own_fields)],
        "reviews": columns,
        "answers": []
        if view.judges
        else [_describe_answer(attempt, shown_proposal, person, view, words) for attempt in attempts],
    }


def _describe_answer(
    attempt: Attempt, shown_proposal: Proposal, person: Person, view: CampaignView, words: BoardWords
) -> AnswerPart:
    answer = getattr(attempt, "answer", None)
    levels: Mapping[str, float] = attempt.levels or {}
    # An author gives their own levels first.
    hides_predictions = view.hides_predictions or (shown_proposal.author_id == person.pk and not levels)
    predictions: Mapping[str, Any] = {} if answer is None or hides_predictions else answer.predictions or {}
    target, success = attempt.target, shown_proposal.campaign.success
    return AnswerPart(
        attempt=attempt,
        name=target.model.name if view.names_targets else target.letter,
        text=answer.text if answer is not None else "",
        refusal=error_from_json(attempt.error) if attempt.error else "",
        detail=read_failure_detail(attempt) if view.names_targets else "",
        levels=tuple(
            (
                criterion_label(words.document, name),
                level_text(words.document.criterion(name), levels[name]) if name in levels else "-",
                level_text(words.document.criterion(name), predictions[name]["value"])
                if predictions.get(name)
                else "-",
                max(predictions[name]["probabilities"].values()) if predictions.get(name) else None,
            )
            for name in list_asked(success, words.document, attempt.revision.dimension)
            if name in levels or name in predictions
        ),
        is_success=is_success(levels, success) if levels else None,
    )


def _list_near(
    own_campaign: Campaign, shown_proposal: Proposal, text: str
) -> list[tuple[NearText, list[tuple[str, bool]]]]:
    """Near texts, each with its pieces and whether both share them; a prompt is not near itself."""
    own_text = shown_proposal.prompt.text if shown_proposal.prompt else None
    return [
        (near, split_by_marks(near.text, near.marks))
        for near in find_near_texts(own_campaign, text, shown_proposal)
        if near.text != own_text
    ]


def split_by_marks(text: str, marks: Iterable[tuple[int, int]]) -> list[tuple[str, bool]]:
    pieces, at = [], 0
    for start, end in marks:
        pieces += [(text[at:start], False), (text[start:end], True)]
        at = end
    pieces.append((text[at:], False))
    return [piece for piece in pieces if piece[0]]


def _crumbs(*parents: tuple[str, str, list[str]], title: str) -> list[Crumb]:
    return breadcrumbs((_("Campaigns"), "campaigns", []), *parents, title=title)
