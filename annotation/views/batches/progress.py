"""The board of a batch: the progress of each person, the pace, and the agreement.

Whoever the batch is sealed for reads nothing that tells of a label.
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
from annotation.models import Alarm, Batch, BatchStats, Person, Task
from annotation.selectors.access import refuse_sealed_gold, sealed_batches
from annotation.selectors.batches.monitoring import (
    AgreementFigure,
    AgreementMeasurement,
    HistoryPoint,
    find_batch_stats,
    find_standing_alarm,
    list_agreement_rows,
    list_history_points,
)
from annotation.selectors.batches.outlook import Outlook, build_outlook
from annotation.selectors.batches.progress import (
    DimensionProgress,
    PersonProgress,
    Progress,
    ProgressCell,
    ProgressMatrix,
    build_progress_matrix,
    count_annotators,
    list_planned_labels,
    measure_annotations,
    measure_progress,
    read_coverage,
)
from annotation.selectors.batches.tasks import HELD_NOW, RAN_OUT
from annotation.selectors.gold_questions import CheckResult, list_poor_results
from annotation.selectors.guidelines import criterion_label, dimension_label
from annotation.services.batches.monitoring import MIN_UNITS

MAX_PEOPLE = 50  # on the page that is asked for again and again; the tab of the people has all of them
# Of the drawings, in their own units.
BAR, GAP, TALL = 10, 2, 40
WIDE = 100


@dataclass(frozen=True)
class LinkedCount:
    """A number of items, and where they are listed; no address where they cannot be."""

    n: int | None
    url: str = ""


@dataclass(frozen=True)
class MatrixPart:
    """A number in a cell of the matrix, as text: of these there are many, and the page is asked for again and again."""

    kind: str
    n: str
    words: str
    url: str


@dataclass(frozen=True)
class DayBar:
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


def board_context(batch: Batch, person: Person) -> dict[str, Any]:
    """What the live part of the page shows."""
    sealed = sealed_batches(person).filter(pk=batch.pk).exists()
    watch, overall_counts = find_batch_stats(batch), measure_annotations(batch, blind=sealed)
    progress = None if sealed else measure_progress(batch)
    # A day's count of the work tells of each submission whether it was a gold check.
    forecast = None
    if not (sealed and overall_counts.has_known):
        forecast = build_outlook(
            batch,
            watch,
            overall_counts,
            people=count_annotators(batch),
            disputes=None if progress is None else progress.disputes_left,
        )
    context: dict[str, Any] = {
        "batch": batch,
        "sealed": sealed,
        "overall": overall_counts,
        "progress": progress,
        "alarm": find_standing_alarm(batch),
        "outlook": forecast,
        **facts_context(batch),
        **({} if sealed or batch.is_even else collection_context(batch)),
        **(pace_context(forecast) if forecast else {}),
    }
    if progress is not None:
        context |= unsealed_context(batch, person, watch, progress, context["alarm"])
        context["poor"] = describe_poor_results(list_poor_results(batch)) if overall_counts.has_known else []
    return context


def collection_context(batch: Batch) -> dict[str, Any]:
    """Where items get unequal numbers of labels: how many are to get how many, and how many had how many."""
    return {"plan_rows": list_planned_labels(batch), "coverage": read_coverage(batch)}


def facts_context(batch: Batch) -> dict[str, Any]:
    """What the list of facts needs beside the batch."""
    return {
        "lease": format_duration(batch.lease_seconds),
        "second_reading_percent": round(batch.second_reading_share * 100, 2),
        "second_adjudicator_percent": round(batch.second_adjudicator_share * 100, 2),
        "check_percent": round(batch.check_share * 100, 2),
        "overlap_share_percent": round(batch.overlap_share * 100, 2),
    }


def progress_context(batch: Batch, person: Person) -> dict[str, Any]:
    """The counts alone: in all for everybody, by state for those whom the batch is not sealed for."""
    sealed = sealed_batches(person).filter(pk=batch.pk).exists()
    return {
        "batch": batch,
        "sealed": sealed,
        "overall": measure_annotations(batch, blind=sealed),
        "progress": None if sealed else measure_progress(batch),
    }


def format_chance(share: float | None) -> str:
    """A probability in words, never more certain than a thousand futures allow."""
    if share is None:
        return ""
    if share < 0.01:
        return _("less than 1%")
    return _("more than 99%") if share > 0.99 else format_percent(share, 0)


def describe_poor_results(results: Iterable[CheckResult]) -> list[str]:
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


def unsealed_context(
    batch: Batch,
    person: Person,
    watch: BatchStats | None,
    counts: Progress,
    alarm: Alarm | None,
) -> dict[str, Any]:
    cells = build_progress_matrix(batch, disputes=counts.states.get(Task.State.DISPUTED, 0))
    people = counts.people[:MAX_PEOPLE]
    document, items = batch.guideline.document, ItemAddresses(batch)
    return {
        "dimensions": [dimension_row(items, document, dimension, cells) for dimension in counts.dimensions],
        "people": [(person, cells.of_person(person.person.pk)) for person in people],
        "people_left_out": max(0, len(counts.people) - MAX_PEOPLE),
        "matrix": matrix_rows(items, counts, people, cells),
        "disputes_uncounted": not cells.disputes_counted,
        "expired_uncounted": not cells.expired_counted,
        "disputes_url": items.of_all(state=Task.State.DISPUTED)
        if counts.states.get(Task.State.DISPUTED)
        else "",
        "waiting_note": _("{n} waiting for an adjudicator").format(n=counts.waiting),
        "alarm_criterion": criterion_label(document, alarm.criterion) if alarm and alarm.criterion else "",
        **agreement_context(batch, person, watch),
    }


def dimension_row(
    items: ItemAddresses, document: GuidelineDocument, progress: DimensionProgress, cells: ProgressMatrix
) -> dict[str, Any]:
    of_all = cells.of_dimension(progress.name)
    return {
        "label": dimension_label(document, progress.name),
        "counts": progress,
        "url": items.url(progress.name),
        "disputed": LinkedCount(progress.disputed, items.url(progress.name, state=Task.State.DISPUTED)),
        "open": LinkedCount(of_all.open, items.url(progress.name, claim=HELD_NOW)),
        "expired": LinkedCount(of_all.expired, items.url(progress.name, claim=RAN_OUT)),
    }


def matrix_rows(
    items: ItemAddresses, counts: Progress, people: Sequence[PersonProgress], cells: ProgressMatrix
) -> list[tuple[Person, list[list[MatrixPart]]]]:
    """A row for each person, a cell for each dimension; none where there is one dimension alone."""
    if len(counts.dimensions) < 2:
        return []
    words = {"open": _("in progress"), "disputed": _("disputed"), "expired": _("expired")}
    names = [dimension.name for dimension in counts.dimensions]
    return [
        (
            person.person,
            [
                matrix_cell(items, person.person, name, cells.of(person.person.pk, name), words)
                for name in names
            ],
        )
        for person in people
    ]


def matrix_cell(
    items: ItemAddresses, person: Person, dimension: str, cell: ProgressCell, words: Mapping[str, str]
) -> list[MatrixPart]:
    """Empty where the person has nothing in the dimension; what is none is left out, but for what is done."""
    if cell.is_empty:
        return []
    url = items.url(dimension, person=person.username)
    done = MatrixPart("matrix__done", str(cell.done), "", url if cell.done else "")
    more = (
        ("matrix__more", cell.open, words["open"], f"{url}&claim={HELD_NOW}"),
        ("matrix__more", cell.disputed, words["disputed"], f"{url}&state={Task.State.DISPUTED}"),
        ("matrix__more matrix__more--late", cell.expired, words["expired"], f"{url}&claim={RAN_OUT}"),
    )
    return [done, *(MatrixPart(kind, str(n), label, address) for kind, n, label, address in more if n)]


class ItemAddresses:
    """Addresses of the batch's items, found once for all of them."""

    def __init__(self, batch: Batch) -> None:
        self._page = reverse("batch-tasks", args=[batch.name])

    def of_all(self, **filters: str) -> str:
        return f"{self._page}?{urlencode(filters)}"

    def url(self, dimension: str, **filters: str) -> str:
        return self.of_all(dimension=dimension or NO_DIMENSION, **filters)


def pace_context(forecast: Outlook) -> dict[str, Any]:
    seen = ngettext("mean of the last {n} whole day", "mean of the last {n} whole days", forecast.seen)
    return {
        "late": format_chance(forecast.late),
        "per_day": round_rate(forecast.per_day),
        "per_hour": round_rate(forecast.per_hour),
        "per_day_note": seen.format(n=forecast.seen) if forecast.seen else "",
        "bars": list_bars(forecast),
        "bars_width": len(forecast.days) * BAR,
    }


def round_rate(rate: float | None) -> float | None:
    """As exact as a rate deserves."""
    if rate is None:
        return None
    return round(rate, 1) if rate < 10 else round(rate)


def list_bars(forecast: Outlook) -> tuple[DayBar, ...]:
    """The days side by side, the highest filling the drawing; a day without work is a line of no height."""
    most = max(forecast.most, 1)
    bars = []
    for place, (day, n) in enumerate(forecast.days):
        height = round(TALL * n / most, 1)
        last = place == len(forecast.days) - 1
        bars.append(DayBar(day, n, place * BAR + GAP // 2, round(TALL - height, 1), height, last))
    return tuple(bars)


def agreement_context(batch: Batch, person: Person, watch: BatchStats | None) -> dict[str, Any]:
    """Nothing for whoever judges the same responses blind elsewhere, as on the page of the agreement."""
    try:
        refuse_sealed_gold(person, [batch])
    except Forbidden:
        return {"agreement_open": False}
    rows = list_agreement_rows(watch)
    document, threshold = batch.guideline.document, batch.agreement_threshold
    return {
        "agreement_open": True,
        "agreement": [agreement_line(document, row, threshold) for row in rows],
        "agreement_at": watch.at if watch else None,
        "curve": draw_curve(list_history_points(watch), threshold),
    }


def agreement_line(
    document: GuidelineDocument, row: AgreementMeasurement, threshold: float | None
) -> AgreementLine:
    return AgreementLine(
        criterion=criterion_label(document, row.criterion) if row.criterion else _("all criteria pooled"),
        n=row.n,
        disputed=row.disputed,
        alpha=format_decimal(row.alpha.value, undefined=""),
        alpha_interval=format_interval(row.alpha.low, row.alpha.high),
        percent=format_percent(row.percent.value, undefined=""),
        percent_interval=format_figure_interval(row.percent),
        low=whisker_place(row.alpha.low),
        value=whisker_place(row.alpha.value),
        high=whisker_place(row.alpha.high),
        is_below=threshold is not None
        and row.n >= MIN_UNITS
        and row.alpha.low is not None
        and row.alpha.low < threshold,
        reason=_(row.alpha.reason) if row.alpha.reason else "",
    )


def format_figure_interval(figure: AgreementFigure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{format_percent(figure.low)} – {format_percent(figure.high)}"


def whisker_place(value: float | None) -> float | None:
    """On the whisker's axis; what is below 0 stands at its end."""
    return None if value is None else round(100 * min(1.0, max(0.0, value)), 1)


def draw_curve(points: Sequence[HistoryPoint], threshold: float | None) -> dict[str, Any] | None:
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
