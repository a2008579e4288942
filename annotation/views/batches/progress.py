"""The board of a batch as its page shows it: who is how far, how fast it goes, and how well people agree.

What tells of a label is left out for whoever the batch is sealed for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import floor
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.core.errors import Forbidden
from annotation.core.formatting import format_decimal, format_duration, format_interval, format_percent
from annotation.domain.guidelines import GuidelineDocument
from annotation.forms.batches.tasks import NO_DIMENSION
from annotation.models import Alarm, Batch, Person, Task, BatchStats
from annotation.selectors.access import refuse_sealed_gold, sealed_batches
from annotation.selectors.batches.monitoring import (
    Figure,
    Measured,
    Outlook,
    Point,
    history_of,
    outlook,
    rows_of,
    standing_alarm,
    watch_of,
)
from annotation.selectors.batches.progress import (
    Cell,
    DimensionProgress,
    Matrix,
    Overall,
    PersonProgress,
    Progress,
    matrix,
    overall,
    progress,
)
from annotation.selectors.batches.tasks import HELD_NOW, RAN_OUT
from annotation.selectors.gold_questions import CheckResult, poor_results
from annotation.selectors.guidelines import criterion_label, dimension_label
from annotation.services.batches.monitoring import LEAST_UNITS

PEOPLE = 50  # on the page that is asked for again and again; the tab of the people has all of them
# Of the drawings, in their own units.
BAR, GAP, TALL = 10, 2, 40
WIDE = 100


@dataclass(frozen=True)
class Linked:
    """A number of items, and where they are listed; no address where they cannot be."""

    n: int | None
    url: str = ""


@dataclass(frozen=True)
class Part:
    """A number in a cell of the matrix, as text: of these there are many, and the page is asked for again and again."""

    kind: str
    n: str
    words: str
    url: str


@dataclass(frozen=True)
class Bar:
    """A day of the drawing, and of the table beside it."""

    day: date
    n: int
    x: int
    y: float
    height: float
    is_today: bool


@dataclass(frozen=True)
class AgreementLine:
    """A row of the agreement: figures in words, and the whisker's ends on 0 to 100."""

    criterion: str
    n: int
    disputed: int
    alpha: str
    alpha_interval: str
    percent: str
    percent_interval: str
    low: float | None
    value: float | None
    high: float | None
    is_below: bool
    reason: str


def board(batch: Batch, person: Person) -> dict[str, Any]:
    """What the live part of the page shows."""
    sealed = sealed_batches(person).filter(pk=batch.pk).exists()
    watch, whole = watch_of(batch), overall(batch, blind=sealed)
    # A day's count of the work tells of each submission whether it was a gold check.
    look = None if sealed and whole.has_known else outlook(batch, watch, whole)
    context: dict[str, Any] = {
        "batch": batch,
        "sealed": sealed,
        "overall": whole,
        "progress": None,
        "alarm": standing_alarm(batch),
        "outlook": look,
        **facts(batch),
        **(_pace(look) if look else {}),
    }
    return context if sealed else context | _opened(batch, person, watch, context["alarm"], whole)


def facts(batch: Batch) -> dict[str, Any]:
    """What the list of facts needs beside the batch."""
    return {
        "lease": format_duration(batch.lease_seconds),
        "second_reading_percent": round(batch.second_reading_share * 100, 2),
        "check_percent": round(batch.check_share * 100, 2),
    }


def progress_context(batch: Batch, person: Person) -> dict[str, Any]:
    """The counts alone: in all for everybody, by state for those whom the batch is not sealed for."""
    sealed = sealed_batches(person).filter(pk=batch.pk).exists()
    return {
        "batch": batch,
        "sealed": sealed,
        "overall": overall(batch, blind=sealed),
        "progress": None if sealed else progress(batch),
    }


def chance(share: float | None) -> str:
    """A probability in words, never more certain than a thousand futures allow."""
    if share is None:
        return ""
    if share < 0.01:
        return _("less than 1%")
    return _("more than 99%") if share > 0.99 else format_percent(share, 0)


def poor_words(results: Iterable[CheckResult]) -> list[str]:
    """For the batch's page: who surely has too few of the checks right."""
    return [
        _("{name}: {right} of {n} right, 95% interval {low} to {high}").format(
            name=result.person,
            right=result.right,
            n=result.n,
            low=format_percent(result.low, 0),
            high=format_percent(result.high, 0),
        )
        for result in results
    ]


def _opened(
    batch: Batch, person: Person, watch: BatchStats | None, alarm: Alarm | None, whole: Overall
) -> dict[str, Any]:
    counts = progress(batch)
    cells = matrix(batch, disputes=counts.states.get(Task.State.DISPUTED, 0))
    people = counts.people[:PEOPLE]
    document, items = batch.guideline.document, _Items(batch)
    return {
        "progress": counts,
        "poor": poor_words(poor_results(batch)) if whole.has_known else [],
        "dimensions": [_dimension(items, document, dimension, cells) for dimension in counts.dimensions],
        "people": [(person, cells.of_person(person.person.pk)) for person in people],
        "people_left_out": max(0, len(counts.people) - PEOPLE),
        "matrix": _matrix(items, counts, people, cells),
        "disputes_uncounted": not cells.disputes_counted,
        "expired_uncounted": not cells.expired_counted,
        "disputes_url": items.of_all(state=Task.State.DISPUTED)
        if counts.states.get(Task.State.DISPUTED)
        else "",
        "waiting_note": _("{n} waiting for an adjudicator").format(n=counts.waiting),
        "alarm_criterion": criterion_label(document, alarm.criterion) if alarm and alarm.criterion else "",
        **_agreement(batch, person, watch),
    }


def _dimension(
    items: _Items, document: GuidelineDocument, one: DimensionProgress, cells: Matrix
) -> dict[str, Any]:
    of_all = cells.of_dimension(one.name)
    return {
        "label": dimension_label(document, one.name),
        "counts": one,
        "url": items.url(one.name),
        "disputed": Linked(one.disputed, items.url(one.name, state=Task.State.DISPUTED)),
        "open": Linked(of_all.open, items.url(one.name, claim=HELD_NOW)),
        "expired": Linked(of_all.expired, items.url(one.name, claim=RAN_OUT)),
    }


def _matrix(
    items: _Items, counts: Progress, people: Sequence[PersonProgress], cells: Matrix
) -> list[tuple[Person, list[list[Part]]]]:
    """A row for each person, a cell for each dimension; none where there is one dimension alone."""
    if len(counts.dimensions) < 2:
        return []
    words = {"open": _("at hand"), "disputed": _("disputed"), "expired": _("expired")}
    names = [dimension.name for dimension in counts.dimensions]
    return [
        (
            person.person,
            [_cell(items, person.person, name, cells.of(person.person.pk, name), words) for name in names],
        )
        for person in people
    ]


def _cell(items: _Items, person: Person, dimension: str, cell: Cell, words: Mapping[str, str]) -> list[Part]:
    """Empty where the person has nothing in the dimension; what is none is left out, but for what is done."""
    if cell.is_empty:
        return []
    url = items.url(dimension, person=person.username)
    done = Part("matrix__done", str(cell.done), "", url if cell.done else "")
    more = (
        ("matrix__more", cell.open, words["open"], f"{url}&claim={HELD_NOW}"),
        ("matrix__more", cell.disputed, words["disputed"], f"{url}&state={Task.State.DISPUTED}"),
        ("matrix__more matrix__more--late", cell.expired, words["expired"], f"{url}&claim={RAN_OUT}"),
    )
    return [done, *(Part(kind, str(n), said, to) for kind, n, said, to in more if n)]


class _Items:
    """Addresses of the batch's items, found once for all of them."""

    def __init__(self, batch: Batch) -> None:
        self._page = reverse("batch-tasks", args=[batch.name])

    def of_all(self, **wanted: str) -> str:
        return f"{self._page}?{urlencode(wanted)}"

    def url(self, dimension: str, **wanted: str) -> str:
        return self.of_all(dimension=dimension or NO_DIMENSION, **wanted)


def _pace(look: Outlook) -> dict[str, Any]:
    seen = ngettext("mean of the last {n} whole day", "mean of the last {n} whole days", look.seen)
    return {
        "late": chance(look.late),
        "per_day": _rounded(look.per_day),
        "per_hour": _rounded(look.per_hour),
        "per_day_note": seen.format(n=look.seen) if look.seen else "",
        "bars": _bars(look),
        "bars_width": len(look.days) * BAR,
    }


def _rounded(rate: float | None) -> float | None:
    """As exact as a rate deserves."""
    if rate is None:
        return None
    return round(rate, 1) if rate < 10 else round(rate)


def _bars(look: Outlook) -> tuple[Bar, ...]:
    """The days side by side, the highest filling the drawing; a day without work is a line of no height."""
    most = max(look.most, 1)
    found = []
    for place, (day, n) in enumerate(look.days):
        height = round(TALL * n / most, 1)
        last = place == len(look.days) - 1
        found.append(Bar(day, n, place * BAR + GAP // 2, round(TALL - height, 1), height, last))
    return tuple(found)


def _agreement(batch: Batch, person: Person, watch: BatchStats | None) -> dict[str, Any]:
    """Nothing for whoever judges the same responses blind elsewhere, as on the page of the agreement."""
    try:
        refuse_sealed_gold(person, [batch])
    except Forbidden:
        return {"agreement_open": False}
    rows = rows_of(watch)
    document, threshold = batch.guideline.document, batch.agreement_threshold
    return {
        "agreement_open": True,
        "agreement": [_line(document, row, threshold) for row in rows],
        "agreement_at": watch.at if watch else None,
        "curve": _curve(history_of(watch), threshold),
    }


def _line(document: GuidelineDocument, row: Measured, threshold: float | None) -> AgreementLine:
    return AgreementLine(
        criterion=criterion_label(document, row.criterion) if row.criterion else _("all criteria pooled"),
        n=row.n,
        disputed=row.disputed,
        alpha=format_decimal(row.alpha.value, undefined=""),
        alpha_interval=format_interval(row.alpha.low, row.alpha.high),
        percent=format_percent(row.percent.value, undefined=""),
        percent_interval=_percent_interval(row.percent),
        low=_place(row.alpha.low),
        value=_place(row.alpha.value),
        high=_place(row.alpha.high),
        is_below=threshold is not None
        and row.n >= LEAST_UNITS
        and row.alpha.low is not None
        and row.alpha.low < threshold,
        reason=_(row.alpha.reason) if row.alpha.reason else "",
    )


def _percent_interval(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{format_percent(figure.low)} – {format_percent(figure.high)}"


def _place(value: float | None) -> float | None:
    """On the whisker's axis; what is below 0 stands at its end."""
    return None if value is None else round(100 * min(1.0, max(0.0, value)), 1)


def _curve(points: Sequence[Point], threshold: float | None) -> dict[str, Any] | None:
    """Alpha as the units grew: a line, the band of its intervals, and the threshold. Two points make a line."""
    if len(points) < 2:
        return None
    lowest = floor(10 * min([0.0, *(point.low for point in points)])) / 10
    first, last = points[0].n, points[-1].n

    def at(n: float, value: float) -> str:
        x = WIDE * (n - first) / max(last - first, 1)
        return f"{x:.1f},{TALL * (1 - (value - lowest) / (1 - lowest)):.1f}"

    upper = [at(point.n, point.high) for point in points]
    lower = [at(point.n, point.low) for point in reversed(points)]
    return {
        "line": " ".join(at(point.n, point.value) for point in points),
        "band": " ".join([*upper, *lower]),
        "threshold": None if threshold is None else at(first, max(threshold, lowest)).split(",")[1],
        "lowest": f"{lowest:.1f}",
        "from": first,
        "to": last,
    }
