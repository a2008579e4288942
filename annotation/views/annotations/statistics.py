"""A person's own numbers: their agreement with gold, their confusions, and their pace with its chart.

The page compares them with nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.charts import SCHEMA, Spec, chart_url, make_quantity
from annotation.core.formatting import format_duration, format_interval_percent, format_part
from annotation.core.proportions import wilson
from annotation.domain.permissions import READ_OWN_LABELS
from annotation.selectors.annotations.statistics import (
    GoldConfusion,
    OwnCounts,
    OwnPace,
    PaceDay,
    list_confusions,
    list_own_counts,
    measure_own_pace,
)
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.views.access import act_required, person_of

WIDTH, HEIGHT = 480, 150
# A label for each week, so that they do not run into each other.
LABEL_EVERY = 7


def make_pace_chart(days: Sequence[PaceDay], *, title: str) -> Spec:
    """Items a day, the days in their order and named by month and day."""
    names = [f"{day.day:%m-%d}" for day in days]
    axis = {"labelAngle": 0, "values": names[::-1][::LABEL_EVERY], "ticks": False}
    x = {"field": "day", "type": "ordinal", "sort": names, "title": None, "axis": axis}
    scale = {"domainMin": 0, "nice": True}
    y = make_quantity("n", title, scale=scale, tickMinStep=1, format="d", tickCount=5)
    return {
        "$schema": SCHEMA,
        "data": {"values": [{"day": name, "n": day.items} for name, day in zip(names, days, strict=True)]},
        "width": WIDTH,
        "height": HEIGHT,
        "mark": {"type": "bar"},
        "encoding": {"x": x, "y": y},
    }


@dataclass(frozen=True)
class ShareWords:
    """A share in per cent with its 95% interval."""

    value: str
    interval: str


@dataclass(frozen=True)
class TallyRow:
    tally: OwnCounts
    dimension: str
    share: ShareWords | None


@dataclass(frozen=True)
class ConfusionGrid:
    """Rows are what I gave, columns what was settled. A cell is a count and whether both are the same."""

    guideline: str
    criterion: str
    levels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[int, bool], ...]], ...]


@require_GET
@never_cache
@act_required(READ_OWN_LABELS)
def own_statistics(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    tallies, pace = list_own_counts(person), measure_own_pace(person)
    compared = sum(tally.compared or 0 for tally in tallies)
    share = find_share(sum(tally.equal or 0 for tally in tallies), compared)
    context: dict[str, Any] = {
        "tab": "numbers",
        "rows": [build_row(tally) for tally in tallies],
        "share": share,
        "equal": share and share.value,
        "unit": "%" if share else "",
        "compared": compared or None,
        "closed": sum(tally.closed for tally in tallies),
        "overruled": sum(tally.overruled for tally in tallies),
        "waiting": any(tally.compared is None for tally in tallies),
        "grids": [build_grid(confusion) for confusion in list_confusions(person)],
        **pace_context(pace),
    }
    return render(request, "annotation/annotations/_history_numbers.html", context)


def build_row(tally: OwnCounts) -> TallyRow:
    return TallyRow(
        tally,
        dimension_label(tally.document, tally.dimension),
        find_share(tally.equal or 0, tally.compared or 0),
    )


def find_share(part: int, total: int) -> ShareWords | None:
    if not total:
        return None
    return ShareWords(format_part(part, total), format_interval_percent(*wilson(part, total)))


def build_grid(confusion: GoldConfusion) -> ConfusionGrid:
    values = sorted({value for pair in confusion.counts for value in pair})
    names = [label_text(confusion.document, confusion.criterion, value) for value in values]
    rows = (
        (name, tuple((confusion.counts.get((own, final), 0), own == final) for final in values))
        for name, own in zip(names, values, strict=True)
    )
    return ConfusionGrid(
        guideline=confusion.guideline,
        criterion=criterion_label(confusion.document, confusion.criterion),
        levels=tuple(names),
        rows=tuple(rows),
    )


def pace_context(pace: OwnPace) -> dict[str, Any]:
    total = sum(day.items for day in pace.days)
    most = max(pace.days, key=lambda day: day.items)
    return {
        "days": [day for day in reversed(pace.days) if day.items],
        "both": any(day.labels for day in pace.days) and any(day.decisions for day in pace.days),
        "items": total,
        "worked": sum(1 for day in pace.days if day.items),
        "most": most,
        "chart": chart_url(make_pace_chart(pace.days, title=_("Items"))) if total else "",
        "tiles": [
            (_("Items today"), pace.days[-1].items),
            (_("Time on today's items"), format_seconds(pace.today)),
            *list_medians(pace),
        ],
    }


def list_medians(pace: OwnPace) -> list[tuple[str, str | None]]:
    """Of what the person does; of labels where it is neither."""
    labels = (_("Median time for a label"), format_seconds(pace.seconds_label))
    decisions = (_("Median time for a decision"), format_seconds(pace.seconds_decision))
    decides = any(day.decisions for day in pace.days)
    labelled = not decides or any(day.labels for day in pace.days)
    return [*([labels] if labelled else []), *([decisions] if decides else [])]


def format_seconds(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration(seconds)
