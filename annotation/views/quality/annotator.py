"""The page of one person's part in a batch, and the list of the items behind one of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np
from django.urls import reverse
from django.utils.translation import gettext as _

from annotation.core.charts import chart_url
from annotation.core.formatting import format_compact, format_day, format_duration, format_percent
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Batch, Membership, Person, Prompt
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text, level_text
from annotation.selectors.quality import (
    AROUND,
    GOLD,
    Check,
    Item,
    Overview,
    Part,
    Shift,
    Table,
    adjudicators_of,
    checks_of,
    overview_of,
    part_of,
    rounds_of,
    sheet_of,
)
from annotation.views.quality.charts import histogram, over_days
from annotation.views.quality.tables import adjudicator_line
from annotation.views.quality.wording import (
    COPYING,
    DRIFT,
    FIGURE_LABELS,
    FINDINGS,
    Figure,
    figure_of,
    flags_of,
    items_url,
    level_figure,
    rate_figure,
)

# Shades of a table's cells; CSS has as many.
SHADES = 5
FEWEST_DAYS = 3
FEWEST_TIMES = 10


def part_context(batch: Batch, person: Person) -> dict[str, Any]:
    overview, sheet = overview_of([batch]), sheet_of([batch])
    part = part_of(sheet, person.pk)
    pairs = [one for one in overview.copying if person.pk in (one.one, one.other)]
    people = Person.objects.in_bulk({*(one.person for one in part.with_whom), *overview.rows, person.pk})
    document = batch.guideline.document
    roles = set(Membership.objects.filter(batch=batch, person=person).values_list("role", flat=True))
    faults = _faults(overview, batch, person)
    flags = [one for one in flags_of(overview, people) if person.pk in (one.person, one.other)]
    return {
        "person": person,
        "part": part,
        "annotates": Membership.Role.ANNOTATOR in roles or part.tasks > 0,
        "flags": [(flag, _flag_url(flag, batch, person, people, overview)) for flag in flags],
        "gold": rate_figure(part.gold),
        "partners": rate_figure(part.partners),
        "faults": faults,
        "reasons": [one for one in dict.fromkeys(fault["reason"] for fault in faults) if one],
        "dimensions": _dimensions(part, batch, person, document),
        "tables": _by_criterion(part, batch, person),
        "with_whom": _with_whom(part, batch, person, people, {_other(pair, person): pair for pair in pairs}),
        **_over_days(part, overview, batch, person),
        **_times(part, batch, person),
        "checks": [_check(one, document) for one in checks_of(person, batch)],
        "rounds": rounds_of([batch.pk], person).get(person.pk, []),
        "adjudicator": _as_adjudicator(batch, person),
        "items": items_url(batch, person),
    }


def _other(pair: Any, person: Person) -> int:
    return int(pair.other if pair.one == person.pk else pair.one)


def _flag_url(
    flag: Any, batch: Batch, person: Person, people: Mapping[int, Person], overview: Overview
) -> str:
    """The items in which it shows."""
    if flag.fault == COPYING:
        other = flag.other if flag.person == person.pk else flag.person
        return items_url(batch, person, **{"with": people[other].username})
    row = overview.rows[person.pk]
    if flag.fault == DRIFT and row.profile is not None:
        return items_url(batch, person, apart=1, since=overview.when(row.profile.drift) or 0)
    return items_url(batch, person, **({"fastest": 1} if flag.fault == "speed" else {"apart": 1}))


def _faults(overview: Overview, batch: Batch, person: Person) -> list[dict[str, Any]]:
    """The four figures that the tests are of, each with its place in the ranking."""
    row = overview.rows.get(person.pk)
    if row is None or row.profile is None:
        return []
    found, page = [], reverse("batch-quality", args=[batch.name])
    for fault, of in FINDINGS.items():
        finding, figure = of(row.profile), figure_of(fault, overview, row.profile)
        found.append(
            {
                "label": FIGURE_LABELS[fault],
                "value": figure.value if figure else None,
                "note": (figure.words or figure.interval) if figure else "",
                "reason": _(finding.reason) if finding.reason else "",
                "url": f"{page}?show={fault}",
            }
        )
    return found


def _dimensions(
    part: Part, batch: Batch, person: Person, document: GuidelineDocument
) -> list[dict[str, Any]]:
    return [
        {
            "label": dimension_label(document, dimension.name),
            "tasks": dimension.tasks,
            "gold": rate_figure(dimension.gold),
            "partners": rate_figure(dimension.partners),
            "gold_url": items_url(batch, person, dimension=dimension.name or "-", off_gold=1),
            "partners_url": items_url(batch, person, dimension=dimension.name or "-", apart=1),
        }
        for dimension in part.dimensions
    ]


def _table(one: Table, batch: Batch, person: Person) -> dict[str, Any]:
    """Rows are what the others (or gold) said, columns what the person did; shaded by the share of the row."""
    criterion = one.scale.criterion
    other = "gold" if one.against == GOLD else "theirs"
    rows = []
    for value, counts in zip(criterion.values, one.counts, strict=True):
        total = sum(counts)
        cells = [
            {
                "n": n,
                "share": format_percent(n / total, 0) if total else "",
                "shade": _shade(n, total),
                "is_same": value == mine,
                "url": items_url(
                    batch,
                    person,
                    criterion=criterion.name,
                    mine=format_compact(mine),
                    **{other: format_compact(value)},
                )
                if n
                else "",
            }
            for mine, n in zip(criterion.values, counts, strict=True)
        ]
        rows.append({"level": level_text(criterion, value), "cells": cells, "n": total})
    return {
        "criterion": criterion_label(batch.guideline.document, criterion.name),
        "beside_gold": one.against == GOLD,
        "heads": [level_text(criterion, value) for value in criterion.values],
        "rows": rows,
        "n": one.n,
        "apart": one.apart,
        "id": f"{one.against}-{criterion.name}",
    }


def _shade(n: int, total: int) -> int:
    return 0 if not n else min(SHADES, 1 + int(SHADES * n / total)) if total else 0


def _by_criterion(part: Part, batch: Batch, person: Person) -> list[dict[str, Any]]:
    """A criterion with its two tables, and how many levels the person is above the partners on it."""
    shifts = {shift.scale.criterion.name: shift for shift in part.shifts}
    names = dict.fromkeys(table.scale.criterion.name for table in part.tables)
    return [
        {
            "label": criterion_label(batch.guideline.document, name),
            "shift": _shift(shifts[name]) if name in shifts else None,
            "tables": [
                _table(table, batch, person) for table in part.tables if table.scale.criterion.name == name
            ],
        }
        for name in names
    ]


def _shift(one: Shift) -> Figure:
    return level_figure(one.value, one.low, one.high, one.n, one.scale.lenient)


def _with_whom(
    part: Part, batch: Batch, person: Person, people: Mapping[int, Person], pairs: Mapping[int, Any]
) -> list[dict[str, Any]]:
    return [
        {
            "person": people[one.person],
            "tasks": one.tasks,
            "rate": rate_figure(one.rate),
            "expected": _expected(pairs.get(one.person)),
            "flagged": one.person in pairs and pairs[one.person].flagged,
            "url": items_url(batch, person, **{"with": people[one.person].username}),
            "apart_url": items_url(batch, person, **{"with": people[one.person].username, "apart": 1}),
        }
        for one in part.with_whom
    ]


def _expected(pair: Any) -> str:
    return "" if pair is None else format_percent(pair.expected)


def _over_days(part: Part, overview: Overview, batch: Batch, person: Person) -> dict[str, Any]:
    """The picture and the table beside it; the dashed line stands where the test says that something changed."""
    lines = [
        {
            "day": date.fromordinal(day.day),
            "rate": rate_figure(day.alone),
            "around": rate_figure(day.around),
            "url": items_url(batch, person, day=day.day),
        }
        for day in part.days
    ]
    row = overview.rows.get(person.pk)
    drift = row.profile.drift if row and row.profile else None
    since = overview.when(drift) if drift and drift.flagged else None
    chart = ""
    if len(part.days) >= FEWEST_DAYS:
        chart = chart_url(over_days(part.days, title=_("As the partners"), since=since))
    return {"days": lines, "days_chart": chart, "around": AROUND, "since": format_day(since) if since else ""}


def _times(part: Part, batch: Batch, person: Person) -> dict[str, Any]:
    times = part.times
    seconds, chart = times.seconds, ""
    if len(seconds) >= FEWEST_TIMES:
        drawn = histogram(seconds, title=_("Items"), across=_("seconds"), others=times.others)
        chart = chart_url(drawn)
    quarters = np.quantile(seconds, [0.25, 0.75]) if len(seconds) else None
    return {
        "timed": len(seconds),
        "median_time": format_duration(times.median),
        "others_time": format_duration(times.others),
        "times_chart": chart,
        "quarter": format_duration(float(quarters[0])) if quarters is not None else "",
        "three_quarters": format_duration(float(quarters[1])) if quarters is not None else "",
        "fastest_url": items_url(batch, person, fastest=1),
    }


def _check(one: Check, document: GuidelineDocument) -> dict[str, Any]:
    return {
        "one": one,
        "labels": [
            (criterion_label(document, name), label_text(document, name, value), _said(one, document, name))
            for name, value in one.right.items()
        ],
    }


def _said(one: Check, document: GuidelineDocument, name: str) -> str:
    return label_text(document, name, one.labels[name]) if name in one.labels else "-"


def _as_adjudicator(batch: Batch, person: Person) -> dict[str, Any] | None:
    found = [one for one in adjudicators_of([batch]) if one.person == person]
    return adjudicator_line(found[0], batch, 0) if found else None


def item_line(
    one: Item, document: GuidelineDocument, prompts: Mapping[int, Prompt], people: Mapping[int, Person]
) -> dict[str, Any]:
    criterion = one.scale.criterion
    return {
        "task": one.task,
        "prompt": prompts[one.task],
        "criterion": criterion_label(document, criterion.name),
        "dimension": dimension_label(document, one.dimension),
        "mine": level_text(criterion, one.mine),
        "others": [
            (people[who], level_text(criterion, label), label == one.mine)
            for who, label in one.others.items()
        ],
        "gold": None if one.gold is None else level_text(criterion, one.gold),
        "is_gold": one.gold == one.mine,
        "decided": one.decided,
        "day": date.fromordinal(one.day),
        "seconds": format_duration(one.seconds),
    }
