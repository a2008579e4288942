"""The tables of the quality page: everybody's figures, the ranking of each fault, the pairs, the adjudicators."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from annotation.core.formatting import format_duration, format_percent
from annotation.core.proportions import NO_RATE, Rate, wilson
from annotation.domain.guidelines import localize
from annotation.domain.quality import Copying
from annotation.models import Batch, DisputeReason, Membership, Person, Qualification
from annotation.selectors.gold_questions import list_batch_check_results
from annotation.selectors.quality import Adjudicator, AnnotatorRow, Overview, build_scale, list_qualifications
from annotation.views.agreement.query import encode_query
from annotation.views.quality.wording import (
    COPYING,
    DRIFT,
    FAULT_LABELS,
    FAULTS,
    FIGURE_LABELS,
    FINDINGS,
    RANDOM,
    SEVERITY,
    SPEED,
    QualityFigure,
    QualityFlag,
    build_figure,
    items_url,
    level_figure,
    list_flags,
    list_undefined_reasons,
    part_url,
    rate_figure,
)

ADJUDICATORS = "adjudicators"
TABS = ("", *FAULTS, ADJUDICATORS)
MAX_PAIRS = 50


@dataclass(frozen=True)
class AnnotatorLine:
    """One annotator's row."""

    person: Person
    url: str
    row: AnnotatorRow | None
    flags: Sequence[QualityFlag]
    gold: QualityFigure | None
    partners: QualityFigure | None
    checks: QualityFigure | None
    round: Qualification | None
    figures: Mapping[str, QualityFigure | None] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return self.row.tasks if self.row else 0

    def score(self, fault: str) -> float:
        """The bigger the worse; whoever has no figure stands last."""
        finding = FINDINGS[fault](self.row.profile) if self.row and self.row.profile else None
        return -math.inf if finding is None or finding.score is None else finding.score


def list_tabs(tab: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """``names`` are those of the batches that the address names."""
    labels = [("", _("Everybody")), *FAULT_LABELS.items(), (ADJUDICATORS, _("Adjudicators"))]
    return [
        {
            "label": label,
            "url": f"?{encode_query(names, {'show': name} if name else {})}",
            "current": name == tab,
        }
        for name, label in labels
    ]


def overview_context(
    overview: Overview,
    batches: Sequence[Batch],
    batch: Batch | None,
    tab: str,
    sort: str,
    *,
    names: Sequence[str],
) -> dict[str, Any]:
    people = list_people(overview, batches)
    flags = list_flags(overview, people)
    context: dict[str, Any] = {
        "overview": overview,
        "has_labels": bool(overview.rows),
        "flags": [
            (flag, find_flag_url(flag, batch, people)) for flag in flags if not tab or flag.fault == tab
        ],
        "reasons": list_undefined_reasons(overview),
        "leads_to_batch": batch is not None,
    }
    if tab == COPYING:
        return context | pairs_context(overview, batch, people)
    if tab == ADJUDICATORS:
        return context
    lines = list_lines(overview, batches, batch, people, flags)
    if tab:
        ranked = sorted(lines, key=lambda line: (-line.score(tab), line.person.username))
        heading = FAULT_LABELS[tab]
        return context | {
            "heading": heading,
            "ranked": [
                (line, line.figures[tab], [flag for flag in line.flags if flag.fault == tab])
                for line in ranked
            ],
        }
    columns = {"checks": any(line.checks for line in lines), "round": any(line.round for line in lines)}
    ordered, heads = sort_lines(
        lines, sort, names=names, without=[name for name, is_filled in columns.items() if not is_filled]
    )
    return context | {
        "rows": ordered,
        "heads": heads,
        "with_checks": columns["checks"],
        "with_rounds": columns["round"],
    }


def list_people(overview: Overview, batches: Sequence[Batch]) -> dict[int, Person]:
    """Who labelled, and who is to."""
    members = Membership.objects.filter(
        batch__in=[batch.pk for batch in batches], role=Membership.Role.ANNOTATOR, active=True
    )
    person_ids = {*overview.rows, *members.values_list("person", flat=True)}
    return dict(sorted(Person.objects.in_bulk(person_ids).items(), key=lambda item: item[1].username))


def find_flag_url(flag: QualityFlag, batch: Batch | None, people: Mapping[int, Person]) -> str:
    person = people[flag.person]
    if batch is None or flag.fault in {RANDOM, SEVERITY, DRIFT}:
        return part_url(batch, person)
    if flag.other is not None:
        return items_url(batch, person, **{"with": people[flag.other].username})
    return items_url(batch, person, fastest=1)


def list_lines(
    overview: Overview,
    batches: Sequence[Batch],
    parts_batch: Batch | None,
    people: Mapping[int, Person],
    flags: Sequence[QualityFlag],
) -> list[AnnotatorLine]:
    rounds, checks = list_qualifications([batch.pk for batch in batches]), list_check_figures(batches)
    return [
        build_line(
            overview,
            person,
            batch=parts_batch,
            flags=[flag for flag in flags if pk in (flag.person, flag.other)],
            rounds=rounds,
            checks=checks,
        )
        for pk, person in people.items()
    ]


def build_line(
    overview: Overview,
    person: Person,
    *,
    batch: Batch | None,
    flags: Sequence[QualityFlag],
    rounds: Mapping[int, Sequence[Qualification]],
    checks: Mapping[int, QualityFigure],
) -> AnnotatorLine:
    row = overview.rows.get(person.pk)
    return AnnotatorLine(
        person=person,
        url=part_url(batch, person),
        row=row,
        flags=flags,
        gold=rate_figure(row.gold) if row else None,
        partners=rate_figure(row.partners) if row else None,
        checks=checks.get(person.pk),
        round=rounds.get(person.pk, [None])[0],
        figures={fault: build_figure(fault, overview, row.profile if row else None) for fault in FINDINGS},
    )


def list_check_figures(batches: Sequence[Batch]) -> dict[int, QualityFigure]:
    """By person how many of their gold checks were right, in all the batches together."""
    right: Counter[int] = Counter()
    n: Counter[int] = Counter()
    for batch in batches:
        for result in list_batch_check_results(batch):
            right[result.person.pk] += result.right
            n[result.person.pk] += result.n
    figures = {
        person: rate_figure(Rate(right[person], n[person], *wilson(right[person], n[person]))) for person in n
    }
    return {person: figure for person, figure in figures.items() if figure is not None}


def sort_lines(
    lines: Sequence[AnnotatorLine], sort: str, *, names: Sequence[str], without: Sequence[str]
) -> tuple[list[AnnotatorLine], list[dict[str, Any]]]:
    """The lines in the order of a column, its worst first (with ``-`` its best), and the heads with their links."""
    by, back = sort.lstrip("-"), sort.startswith("-")
    order = COLUMNS[by][1] if by in COLUMNS else worst_key
    ordered = sorted(lines, key=lambda line: (order(line), line.person.username), reverse=back)
    heads = [
        {
            "name": name,
            "label": label,
            "url": "?" + encode_query(names, {"sort": f"-{name}" if name == sort else name}),
            "sorted": ("descending" if back else "ascending") if name == by else "",
        }
        for name, (label, _order) in COLUMNS.items()
        if name not in without
    ]
    return ordered, heads


def worst_key(line: AnnotatorLine) -> tuple[int, float, float]:
    """First those of whom anything stands out, by how unlikely it would be by chance; then by their agreement."""
    findings = [find(line.row.profile) for find in FINDINGS.values()] if line.row and line.row.profile else []
    chances = [finding.p for finding in findings if finding.flagged and finding.p is not None]
    return (
        (0 if line.flags else 1),
        min(chances, default=1.0),
        low_key(line.row.partners if line.row else NO_RATE),
    )


def low_key(rate: Any) -> float:
    return math.inf if rate.value is None else float(rate.value)


# The worst first.
_ROUNDS: Mapping[str, int] = {
    state: place
    for place, state in enumerate(
        (
            Qualification.State.FAILED,
            Qualification.State.RUNNING,
            Qualification.State.WAIVED,
            Qualification.State.PASSED,
        )
    )
}
COLUMNS: Mapping[str, tuple[str | Promise, Callable[[AnnotatorLine], Any]]] = {
    "person": (gettext_lazy("Person"), lambda line: line.person.username),
    "items": (gettext_lazy("Items"), lambda line: line.tasks),
    "gold": (
        gettext_lazy("As the final label"),
        lambda line: low_key(line.row.gold if line.row else NO_RATE),
    ),
    "partners": (
        gettext_lazy("Agreement with partners"),
        lambda line: low_key(line.row.partners if line.row else NO_RATE),
    ),
    RANDOM: (FIGURE_LABELS[RANDOM], lambda line: -line.score(RANDOM)),
    SEVERITY: (FIGURE_LABELS[SEVERITY], lambda line: -line.score(SEVERITY)),
    DRIFT: (FIGURE_LABELS[DRIFT], lambda line: -line.score(DRIFT)),
    SPEED: (FIGURE_LABELS[SPEED], lambda line: -line.score(SPEED)),
    "checks": (
        gettext_lazy("Gold checks"),
        lambda line: math.inf if line.checks is None else line.checks.place,
    ),
    "round": (
        gettext_lazy("Qualification"),
        lambda line: _ROUNDS.get(line.round.state if line.round else "", 9),
    ),
}


def pairs_context(overview: Overview, batch: Batch | None, people: Mapping[int, Person]) -> dict[str, Any]:
    listed = overview.copying[:MAX_PAIRS]
    return {
        "pairs": [pair_row(pair, batch, people) for pair in listed],
        "pairs_left_out": len(overview.copying) - len(listed),
    }


def pair_row(pair: Copying, batch: Batch | None, people: Mapping[int, Person]) -> dict[str, Any]:
    person, other = people[pair.first], people[pair.second]
    return {
        "first": person,
        "second": other,
        "first_url": part_url(batch, person),
        "second_url": part_url(batch, other),
        "url": items_url(batch, person, **{"with": other.username}) if batch else "",
        "n": pair.n,
        "equal": round(pair.observed * pair.n),
        "observed": format_percent(pair.observed),
        "expected": format_percent(pair.expected),
        "flagged": pair.flagged,
    }


def adjudicator_context(
    adjudicators: Sequence[Adjudicator], batches: Sequence[Batch], parts_batch: Batch | None
) -> dict[str, Any]:
    lenient = {document_end for batch in batches for document_end in list_lenient_ends(batch)}
    end = lenient.pop() if len(lenient) == 1 else 0
    return {
        "adjudicators": [adjudicator_line(adjudicator, parts_batch, end) for adjudicator in adjudicators],
        "reasons_by_person": reasons_table(adjudicators),
    }


def list_lenient_ends(batch: Batch) -> list[int]:
    scales = [build_scale(batch, criterion.name) for criterion in batch.guideline.document.labelled_criteria]
    return [scale.lenient for scale in scales if scale.ordered]


def adjudicator_line(adjudicator: Adjudicator, batch: Batch | None, lenient: int) -> dict[str, Any]:
    shift = None
    if adjudicator.shift is not None:
        shift = level_figure(adjudicator.shift, adjudicator.shift_low, adjudicator.shift_high, None, lenient)
    return {
        "adjudicator": adjudicator,
        "url": part_url(batch, adjudicator.person),
        "repeated": rate_figure(adjudicator.consistency),
        "changed": rate_figure(adjudicator.changed),
        "other_level": rate_figure(adjudicator.neither_rate),
        "as_a": rate_figure(adjudicator.lean.rate),
        "leans": find_leaning(adjudicator),
        "shift": shift,
        "time": format_duration(adjudicator.median_seconds),
    }


def find_leaning(adjudicator: Adjudicator) -> dict[str, Any] | None:
    """The place that was favoured, where a test flags it."""
    lean = adjudicator.lean
    if not lean.flagged or lean.rate.value is None:
        return None
    return {
        "letter": "A" if lean.rate.value > 0.5 else "B",
        "decisions": max(lean.first, lean.n - lean.first),
        "n": lean.n,
    }


def reasons_table(adjudicators: Sequence[Adjudicator]) -> dict[str, Any]:
    """The reasons that were named, the commonest first, with how often by each; empty where there is none."""
    totals: dict[str, int] = {}
    for adjudicator in adjudicators:
        for key, n in adjudicator.reasons.items():
            totals[key] = totals.get(key, 0) + n
    if not set(totals) - {""}:
        return {}
    language = get_language() or "en"
    words = {
        dispute_reason.key: localize(dispute_reason.words, language)
        for dispute_reason in DisputeReason.objects.filter(key__in=totals)
    }
    keys = sorted(totals, key=lambda key: (key == "", -totals[key]))
    return {
        "people": [adjudicator.person for adjudicator in adjudicators],
        "rows": [
            (
                words.get(key, _("no reason named")),
                [adjudicator.reasons.get(key, 0) for adjudicator in adjudicators],
                totals[key],
            )
            for key in keys
        ],
    }
