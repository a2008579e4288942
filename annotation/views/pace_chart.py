"""The picture of a person's pace: a bar for each day."""

from __future__ import annotations

from collections.abc import Sequence

from annotation.charts import SCHEMA, Spec, make_quantity
from annotation.selectors.my_numbers import Day

WIDTH, HEIGHT = 480, 150
# A label for each week, so that they do not run into each other.
LABELLED = 7


def make_pace_chart(days: Sequence[Day], *, title: str) -> Spec:
    """Items a day, the days in their order and named by month and day."""
    names = [f"{day.day:%m-%d}" for day in days]
    axis = {"labelAngle": 0, "values": names[::-1][::LABELLED], "ticks": False}
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
