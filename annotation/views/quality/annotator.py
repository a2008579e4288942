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
from annotation.models import Batch, Membership, Person, Response
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text, level_text
from annotation.selectors.quality import (
    DAYS_AROUND,
    GOLD,
    AnnotatorQuality,
    CheckAnswer,
    LevelTable,
    Overview,
    QualityItem,
    Shift,
    build_comparison_table,
    get_overview,
    list_adjudicators,
    list_checks,
    list_qualifications,
    measure_annotator,
)
from annotation.views.quality.charts import draw_days, draw_histogram
from annotation.views.quality.tables import adjudicator_line
from annotation.views.quality.wording import (
    COPYING,
    DRIFT,
    FIGURE_LABELS,
    FINDINGS,
    QualityFigure,
    build_figure,
    items_url,
    level_figure,
    list_flags,
    rate_figure,
)

# Shades of a table's cells; CSS has as many.
SHADES = 5
MIN_DAYS = 3
MIN_TIMES = 10


def part_context(batch: Batch, person: Person) -> dict[str, Any]:
    overview, sheet = get_overview([batch]), build_comparison_table([batch])
    part = measure_annotator(sheet, person.pk)
    pairs = [pair for pair in overview.copying if person.pk in (pair.first, pair.second)]
    people = Person.objects.in_bulk(
        {*(partner.person for partner in part.by_partner), *overview.rows, person.pk}
    )
    document = batch.guideline.document
    roles = set(Membership.objects.filter(batch=batch, person=person).values_list("role", flat=True))
    faults = list_faults(overview, batch, person)
    flags = [flag for flag in list_flags(overview, people) if person.pk in (flag.person, flag.other)]
    return {
        "person": person,
        "part": part,
        "annotates": Membership.Role.ANNOTATOR in roles or part.tasks > 0,
        "flags": [(flag, find_flag_url(flag, batch, person, people, overview)) for flag in flags],
        "gold": rate_figure(part.gold),
        "partners": rate_figure(part.partners),
        "faults": faults,
        "reasons": [reason for reason in dict.fromkeys(fault["reason"] for fault in faults) if reason],
        "dimensions": list_dimensions(part, batch, person, document),
        "tables": list_criteria(part, batch, person),
        "partner_rows": list_partners(
            part, batch, person, people, {other_person(pair, person): pair for pair in pairs}
        ),
        **days_context(part, overview, batch, person),
        **times_context(part, batch, person),
        "checks": [check_row(check, document) for check in list_checks(person, batch)],
        "rounds": list_qualifications([batch.pk], person).get(person.pk, []),
        "adjudicator": find_adjudicator_line(batch, person),
        "items": items_url(batch, person),
    }


def other_person(pair: Any, person: Person) -> int:
    return int(pair.second if pair.first == person.pk else pair.first)


def find_flag_url(
    flag: Any, batch: Batch, person: Person, people: Mapping[int, Person], overview: Overview
) -> str:
    """The items in which it shows."""
    if flag.fault == COPYING:
        other = flag.other if flag.person == person.pk else flag.person
        return items_url(batch, person, **{"with": people[other].username})
    row = overview.rows[person.pk]
    if flag.fault == DRIFT and row.profile is not None:
        return items_url(batch, person, apart=1, since=overview.find_day(row.profile.drift) or 0)
    return items_url(batch, person, **({"fastest": 1} if flag.fault == "speed" else {"apart": 1}))


def list_faults(overview: Overview, batch: Batch, person: Person) -> list[dict[str, Any]]:
    """The four figures that the tests are of, each with its place in the ranking."""
    row = overview.rows.get(person.pk)
    if row is None or row.profile is None:
        return []
    faults, page = [], reverse("batch-quality", args=[batch.name])
    for fault, find in FINDINGS.items():
        finding, figure = find(row.profile), build_figure(fault, overview, row.profile)
        faults.append(
            {
                "label": FIGURE_LABELS[fault],
                "value": figure.value if figure else None,
                "note": (figure.words or figure.interval) if figure else "",
                "reason": _(finding.reason) if finding.reason else "",
                "url": f"{page}?show={fault}",
            }
        )
    return faults


def list_dimensions(
    part: AnnotatorQuality, batch: Batch, person: Person, document: GuidelineDocument
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


def build_table(table: LevelTable, batch: Batch, person: Person) -> dict[str, Any]:
    """Rows are what the others (or gold) said, columns what the person did; shaded by the share of the row."""
    criterion = table.scale.criterion
    other = "gold" if table.against == GOLD else "theirs"
    rows = []
    for value, counts in zip(table.scale.values, table.counts, strict=True):
        total = sum(counts)
        cells = [
            {
                "n": n,
                "share": format_percent(n / total, 0) if total else "",
                "shade": find_shade(n, total),
                "is_same": value == own_value,
                "url": items_url(
                    batch,
                    person,
                    criterion=criterion.name,
                    mine=format_compact(own_value),
                    **{other: format_compact(value)},
                )
                if n
                else "",
            }
            for own_value, n in zip(table.scale.values, counts, strict=True)
        ]
        rows.append({"level": level_text(criterion, value), "cells": cells, "n": total})
    return {
        "criterion": criterion_label(batch.guideline.document, criterion.name),
        "beside_gold": table.against == GOLD,
        "heads": [level_text(criterion, value) for value in table.scale.values],
        "rows": rows,
        "n": table.n,
        "differing": table.n_differing,
        "id": f"{table.against}-{criterion.name}",
    }


def find_shade(n: int, total: int) -> int:
    return 0 if not n else min(SHADES, 1 + int(SHADES * n / total)) if total else 0


def list_criteria(part: AnnotatorQuality, batch: Batch, person: Person) -> list[dict[str, Any]]:
    """A criterion with its two tables, and how many levels the person is above the partners on it."""
    shifts = {shift.scale.criterion.name: shift for shift in part.shifts}
    names = dict.fromkeys(table.scale.criterion.name for table in part.tables)
    return [
        {
            "label": criterion_label(batch.guideline.document, name),
            "shift": shift_figure(shifts[name]) if name in shifts else None,
            "tables": [
                build_table(table, batch, person)
                for table in part.tables
                if table.scale.criterion.name == name
            ],
        }
        for name in names
    ]


def shift_figure(shift: Shift) -> QualityFigure:
    return level_figure(shift.value, shift.low, shift.high, shift.n, shift.scale.lenient)


def list_partners(
    part: AnnotatorQuality,
    batch: Batch,
    person: Person,
    people: Mapping[int, Person],
    pairs: Mapping[int, Any],
) -> list[dict[str, Any]]:
    return [
        {
            "person": people[partner.person],
            "tasks": partner.tasks,
            "rate": rate_figure(partner.rate),
            "expected": format_percent(pairs[partner.person].expected) if partner.person in pairs else "",
            "flagged": partner.person in pairs and pairs[partner.person].flagged,
            "url": items_url(batch, person, **{"with": people[partner.person].username}),
            "apart_url": items_url(batch, person, **{"with": people[partner.person].username, "apart": 1}),
        }
        for partner in part.by_partner
    ]


def days_context(part: AnnotatorQuality, overview: Overview, batch: Batch, person: Person) -> dict[str, Any]:
    """The picture and the table beside it; the dashed line stands where the test says that something changed."""
    lines = [
        {
            "day": date.fromordinal(day.day),
            "rate": rate_figure(day.rate),
            "around": rate_figure(day.window_rate),
            "url": items_url(batch, person, day=day.day),
        }
        for day in part.days
    ]
    row = overview.rows.get(person.pk)
    drift = row.profile.drift if row and row.profile else None
    since = overview.find_day(drift) if drift and drift.flagged else None
    chart = ""
    if len(part.days) >= MIN_DAYS:
        chart = chart_url(draw_days(part.days, title=_("Agreement with partners"), since=since))
    return {
        "days": lines,
        "days_chart": chart,
        "around": DAYS_AROUND,
        "since": format_day(since) if since else "",
    }


def times_context(part: AnnotatorQuality, batch: Batch, person: Person) -> dict[str, Any]:
    times = part.times
    seconds, chart = times.seconds, ""
    if len(seconds) >= MIN_TIMES:
        drawn = draw_histogram(
            seconds, title=_("Items"), across=_("seconds"), partner_median=times.partner_median
        )
        chart = chart_url(drawn)
    quarters = np.quantile(seconds, [0.25, 0.75]) if len(seconds) else None
    return {
        "timed": len(seconds),
        "median_time": format_duration(times.median),
        "others_time": format_duration(times.partner_median),
        "times_chart": chart,
        "quarter": format_duration(float(quarters[0])) if quarters is not None else "",
        "three_quarters": format_duration(float(quarters[1])) if quarters is not None else "",
        "fastest_url": items_url(batch, person, fastest=1),
    }


def check_row(check: CheckAnswer, document: GuidelineDocument) -> dict[str, Any]:
    return {
        "check": check,
        "labels": [
            (
                criterion_label(document, name),
                label_text(document, name, value),
                check_label(check, document, name),
            )
            for name, value in check.right.items()
        ],
    }


def check_label(check: CheckAnswer, document: GuidelineDocument, name: str) -> str:
    return label_text(document, name, check.labels[name]) if name in check.labels else "-"


def find_adjudicator_line(batch: Batch, person: Person) -> dict[str, Any] | None:
    adjudicators = [adjudicator for adjudicator in list_adjudicators([batch]) if adjudicator.person == person]
    return adjudicator_line(adjudicators[0], batch, 0) if adjudicators else None


def item_line(
    item: QualityItem,
    document: GuidelineDocument,
    responses: Mapping[int, Response],
    people: Mapping[int, Person],
) -> dict[str, Any]:
    criterion = item.scale.criterion
    return {
        "task": item.task,
        "response": responses[item.task],
        "criterion": criterion_label(document, criterion.name),
        "dimension": dimension_label(document, item.dimension),
        "own_label": level_text(criterion, item.own_label),
        "partner_labels": [
            (people[partner], level_text(criterion, label), label == item.own_label)
            for partner, label in item.partner_labels.items()
        ],
        "gold": None if item.gold is None else level_text(criterion, item.gold),
        "is_gold": item.gold == item.own_label,
        "decided": item.decided,
        "day": date.fromordinal(item.day),
        "seconds": format_duration(item.seconds),
    }
