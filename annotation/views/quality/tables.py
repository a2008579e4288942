"""The tables of the quality page: everybody's figures, the ranking of each fault, the pairs, the adjudicators."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from annotation.core.formatting import format_duration, format_percent
from annotation.core.proportions import NONE, Rate, wilson
from annotation.domain.guidelines import localized
from annotation.domain.quality import Copying
from annotation.models import Batch, DisputeReason, Membership, Person, Qualification
from annotation.selectors.gold_questions import check_results_of
from annotation.selectors.quality import Adjudicator, Overview, Row, rounds_of, scale_of
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
    Figure,
    Flag,
    figure_of,
    flags_of,
    items_url,
    level_figure,
    part_url,
    rate_figure,
    reasons_of,
)

ADJUDICATORS = "adjudicators"
SHOWN = ("", *FAULTS, ADJUDICATORS)
PAIRS = 50


@dataclass(frozen=True)
class Line:
    """One annotator's row."""

    person: Person
    url: str
    row: Row | None
    flags: Sequence[Flag]
    gold: Figure | None
    partners: Figure | None
    checks: Figure | None
    round: Qualification | None
    figures: Mapping[str, Figure | None] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return self.row.tasks if self.row else 0

    def score(self, fault: str) -> float:
        """The bigger the worse; whoever has no figure stands last."""
        finding = FINDINGS[fault](self.row.profile) if self.row and self.row.profile else None
        return -math.inf if finding is None or finding.score is None else finding.score


def tabs(shown: str) -> list[dict[str, Any]]:
    labels = [("", _("Everybody")), *FAULT_LABELS.items(), (ADJUDICATORS, _("Adjudicators"))]
    return [
        {"label": label, "url": f"?show={name}" if name else "?", "current": name == shown}
        for name, label in labels
    ]


def overview_context(
    overview: Overview, batches: Sequence[Batch], one: Batch | None, shown: str, sort: str
) -> dict[str, Any]:
    people = _people(overview, batches)
    flags = flags_of(overview, people)
    context: dict[str, Any] = {
        "overview": overview,
        "anything": bool(overview.rows),
        "flags": [(flag, _flag_url(flag, one, people)) for flag in flags if not shown or flag.fault == shown],
        "reasons": reasons_of(overview),
        "one": one,
    }
    if shown == COPYING:
        return context | _pairs(overview, one, people)
    if shown == ADJUDICATORS:
        return context
    lines = _lines(overview, batches, one, people, flags)
    if shown:
        ranked = sorted(lines, key=lambda line: (-line.score(shown), line.person.username))
        heading = FAULT_LABELS[shown]
        return context | {
            "heading": heading,
            "ranked": [(line, line.figures[shown], _of(line, shown)) for line in ranked],
        }
    there = {"checks": any(line.checks for line in lines), "round": any(line.round for line in lines)}
    ordered, heads = _sorted(lines, sort, without=[name for name, some in there.items() if not some])
    return context | {
        "lines": ordered,
        "heads": heads,
        "with_checks": there["checks"],
        "with_rounds": there["round"],
    }


def _of(line: Line, fault: str) -> list[Flag]:
    return [flag for flag in line.flags if flag.fault == fault]


def _people(overview: Overview, batches: Sequence[Batch]) -> dict[int, Person]:
    """Who labelled, and who is to."""
    members = Membership.objects.filter(
        batch__in=[batch.pk for batch in batches], role=Membership.Role.ANNOTATOR, active=True
    )
    wanted = {*overview.rows, *members.values_list("person", flat=True)}
    return dict(sorted(Person.objects.in_bulk(wanted).items(), key=lambda item: item[1].username))


def _flag_url(flag: Flag, batch: Batch | None, people: Mapping[int, Person]) -> str:
    person = people[flag.person]
    if batch is None or flag.fault in {RANDOM, SEVERITY, DRIFT}:
        return part_url(batch, person)
    if flag.other is not None:
        return items_url(batch, person, **{"with": people[flag.other].username})
    return items_url(batch, person, fastest=1)


def _lines(
    overview: Overview,
    batches: Sequence[Batch],
    one: Batch | None,
    people: Mapping[int, Person],
    flags: Sequence[Flag],
) -> list[Line]:
    rounds, checks = rounds_of([batch.pk for batch in batches]), _checks(batches)
    return [
        _line(
            overview,
            person,
            batch=one,
            flags=[flag for flag in flags if pk in (flag.person, flag.other)],
            rounds=rounds,
            checks=checks,
        )
        for pk, person in people.items()
    ]


def _line(
    overview: Overview,
    person: Person,
    *,
    batch: Batch | None,
    flags: Sequence[Flag],
    rounds: Mapping[int, Sequence[Qualification]],
    checks: Mapping[int, Figure],
) -> Line:
    row = overview.rows.get(person.pk)
    return Line(
        person=person,
        url=part_url(batch, person),
        row=row,
        flags=flags,
        gold=rate_figure(row.gold) if row else None,
        partners=rate_figure(row.partners) if row else None,
        checks=checks.get(person.pk),
        round=rounds.get(person.pk, [None])[0],
        figures={fault: figure_of(fault, overview, row.profile if row else None) for fault in FINDINGS},
    )


def _checks(batches: Sequence[Batch]) -> dict[int, Figure]:
    """By person how many of their gold checks were right, in all the batches together."""
    right: Counter[int] = Counter()
    n: Counter[int] = Counter()
    for batch in batches:
        for one in check_results_of(batch):
            right[one.person.pk] += one.right
            n[one.person.pk] += one.n
    found = {
        person: rate_figure(Rate(right[person], n[person], *wilson(right[person], n[person]))) for person in n
    }
    return {person: figure for person, figure in found.items() if figure is not None}


def _sorted(
    lines: Sequence[Line], sort: str, *, without: Sequence[str]
) -> tuple[list[Line], list[dict[str, Any]]]:
    """The lines in the order of a column, its worst first (with ``-`` its best), and the heads with their links."""
    by, back = sort.lstrip("-"), sort.startswith("-")
    order = COLUMNS[by][1] if by in COLUMNS else _worst
    ordered = sorted(lines, key=lambda line: (order(line), line.person.username), reverse=back)
    heads = [
        {
            "name": name,
            "label": label,
            "url": "?" + urlencode({"sort": f"-{name}" if name == sort else name}),
            "sorted": ("descending" if back else "ascending") if name == by else "",
        }
        for name, (label, _order) in COLUMNS.items()
        if name not in without
    ]
    return ordered, heads


def _worst(line: Line) -> tuple[int, float, float]:
    """First those of whom anything stands out, by how unlikely it would be by chance; then by their agreement."""
    found = [of(line.row.profile) for of in FINDINGS.values()] if line.row and line.row.profile else []
    chances = [one.p for one in found if one.flagged and one.p is not None]
    return (0 if line.flags else 1), min(chances, default=1.0), _low(line.row.partners if line.row else NONE)


def _low(rate: Any) -> float:
    return math.inf if rate.value is None else float(rate.value)


# The worst first.
_ROUNDS: Mapping[str, int] = {
    one: place
    for place, one in enumerate(
        (
            Qualification.State.FAILED,
            Qualification.State.RUNNING,
            Qualification.State.WAIVED,
            Qualification.State.PASSED,
        )
    )
}
COLUMNS: Mapping[str, tuple[str | Promise, Callable[[Line], Any]]] = {
    "person": (gettext_lazy("Person"), lambda line: line.person.username),
    "items": (gettext_lazy("Items"), lambda line: line.tasks),
    "gold": (gettext_lazy("As the final label"), lambda line: _low(line.row.gold if line.row else NONE)),
    "partners": (gettext_lazy("As the partners"), lambda line: _low(line.row.partners if line.row else NONE)),
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


def _pairs(overview: Overview, batch: Batch | None, people: Mapping[int, Person]) -> dict[str, Any]:
    shown = overview.copying[:PAIRS]
    return {
        "pairs": [_pair(one, batch, people) for one in shown],
        "pairs_left_out": len(overview.copying) - len(shown),
    }


def _pair(pair: Copying, batch: Batch | None, people: Mapping[int, Person]) -> dict[str, Any]:
    one, other = people[pair.one], people[pair.other]
    return {
        "one": one,
        "other": other,
        "one_url": part_url(batch, one),
        "other_url": part_url(batch, other),
        "url": items_url(batch, one, **{"with": other.username}) if batch else "",
        "n": pair.n,
        "alike": round(pair.observed * pair.n),
        "observed": format_percent(pair.observed),
        "expected": format_percent(pair.expected),
        "flagged": pair.flagged,
    }


def adjudicator_context(
    found: Sequence[Adjudicator], batches: Sequence[Batch], one: Batch | None
) -> dict[str, Any]:
    lenient = {document_end for batch in batches for document_end in _ends(batch)}
    end = lenient.pop() if len(lenient) == 1 else 0
    return {
        "adjudicators": [adjudicator_line(adjudicator, one, end) for adjudicator in found],
        "reasons_by_person": _reasons(found),
    }


def _ends(batch: Batch) -> list[int]:
    scales = [scale_of(batch, criterion.name) for criterion in batch.guideline.document.criteria]
    return [scale.lenient for scale in scales if scale.ordered]


def adjudicator_line(one: Adjudicator, batch: Batch | None, lenient: int) -> dict[str, Any]:
    shift = None
    if one.shift is not None:
        shift = level_figure(one.shift, one.shift_low, one.shift_high, None, lenient)
    return {
        "one": one,
        "url": part_url(batch, one.person),
        "again": rate_figure(one.again),
        "changed": rate_figure(one.changed),
        "apart": rate_figure(one.apart),
        "as_a": rate_figure(one.lean.rate),
        "leans": _leaning(one),
        "shift": shift,
        "time": format_duration(one.median_seconds),
    }


def _leaning(adjudicator: Adjudicator) -> dict[str, Any] | None:
    """The place that was favoured, where a test flags it."""
    lean = adjudicator.lean
    if not lean.flagged or lean.rate.value is None:
        return None
    return {
        "letter": "A" if lean.rate.value > 0.5 else "B",
        "decisions": max(lean.first, lean.n - lean.first),
        "n": lean.n,
    }


def _reasons(found: Sequence[Adjudicator]) -> dict[str, Any]:
    """The reasons that were named, the commonest first, with how often by each; empty where there is none."""
    totals: dict[str, int] = {}
    for one in found:
        for key, n in one.reasons.items():
            totals[key] = totals.get(key, 0) + n
    if not set(totals) - {""}:
        return {}
    language = get_language() or "en"
    words = {
        dispute_reason.key: localized(dispute_reason.words, language)
        for dispute_reason in DisputeReason.objects.filter(key__in=totals)
    }
    keys = sorted(totals, key=lambda key: (key == "", -totals[key]))
    return {
        "people": [one.person for one in found],
        "lines": [
            (words.get(key, _("no reason named")), [one.reasons.get(key, 0) for one in found], totals[key])
            for key in keys
        ],
    }
