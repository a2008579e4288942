"""Where on a run's page somebody is: what its address chooses, checked, and the addresses of the other choices.

Every address is a query alone, so that the same parts stand on the page of a run and on one for outsiders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from annotation.core.errors import N_, AssayError

BOARD, PAIRS, GROUPS, ESTIMATES, TIME, LINEAGE = "", "pairs", "groups", "estimates", "time", "lineage"
SENSITIVITY = "sensitivity"
VIEWS = (BOARD, PAIRS, GROUPS, ESTIMATES, SENSITIVITY, TIME, LINEAGE)
OVERALL = "overall"
MAX_KNOWN = 20
MAX_VALUE_CHARACTERS = 60


@dataclass(frozen=True)
class BoardChoice:
    """One of several things to look at."""

    name: str
    label: str
    url: str
    current: bool


@dataclass(frozen=True)
class BoardQuery:
    """What is asked for; blank is the usual."""

    view: str = BOARD
    metric: str = ""
    scope: str = ""
    by: str = ""
    model: str = ""
    sort: str = ""
    """The column that a board is read by; blank is by rank."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> BoardQuery:
        """From the query of a request; only the view is checked here, each view checks the rest."""
        place = cls(
            **{name: query.get(name, "") for name in ("view", "metric", "scope", "by", "model", "sort")}
        )
        check_choice(place.view, VIEWS)
        return place

    def link(self, **changes: str) -> str:
        parameters = asdict(replace(self, **changes))
        return "?" + urlencode({name: value for name, value in parameters.items() if value})

    def list_choices(self, field: str, labels: Mapping[str, str], current: str) -> list[BoardChoice]:
        """Something to choose for each name; ``what`` is the field that it changes."""
        return [
            BoardChoice(name, label, self.link(**{field: name}), name == current)
            for name, label in labels.items()
        ]


def check_choice(value: str, known: Iterable[str]) -> str:
    """The value; AssayError where it is none of those that are known."""
    names = list(known)
    if value not in names:
        raise AssayError(
            N_("{value} cannot be chosen here; choose one of: {known}."),
            value=value[:MAX_VALUE_CHARACTERS],
            known=", ".join([name for name in names if name][:MAX_KNOWN]) or "-",
        )
    return value


def choose(value: str, known: Iterable[str]) -> str:
    """As ``one_of``; the first where nothing is asked for. Blank where there is nothing to choose."""
    names = list(known)
    return check_choice(value, names) if value else next(iter(names), "")


Context = dict[str, Any]
