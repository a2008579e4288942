"""The picture of a person's pace: a bar for each day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotation.selectors.my_numbers import Day

if TYPE_CHECKING:
    import altair

WIDTH, HEIGHT = 480, 150
# A label for each week, so that they do not run into each other.
LABELLED = 7


def bars(days: Sequence[Day], *, title: str) -> altair.Chart:
    """Items a day, the days in their order and named by month and day."""
    import altair as alt

    names = [f"{one.day:%m-%d}" for one in days]
    values = [{"day": name, "n": one.items} for name, one in zip(names, days, strict=True)]
    axis = alt.Axis(labelAngle=0, values=names[::-1][::LABELLED], ticks=False)
    return (
        alt.Chart(alt.Data(values=values))
        .mark_bar()
        .encode(
            x=alt.X("day:O", sort=names, title=None, axis=axis),
            y=alt.Y(
                "n:Q",
                title=title,
                scale=alt.Scale(domainMin=0, nice=True),
                axis=alt.Axis(tickMinStep=1, format="d", tickCount=5),
            ),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
