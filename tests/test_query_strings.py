"""Every address, with what nobody would put into its query: no page breaks on it.

The addresses come from the resolver. The names are those that the code asks the query for while it answers, recorded
there; where it reads the query whole, those in the links of the page. A new one is tried without being listed here.
ASSAY_EXAMPLES=9 tries each value under each name alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from annotation.core.http import MAX_DAY, MIN_DAY, parse_level, parse_ordinal, parse_signed
from annotation.models import Batch, Person
from tests.support import examples
from tests.test_everyone_everywhere import MAY, QUERIES, client_of, make_world, paths

HOSTILE = (
    "-1",
    "nan",
    "9" * 19,  # one more than a database keeps
    "9" * 5000,  # more than int() reads
    "²",  # isdigit() is true of it, int() refuses it
    "9999-12-31",
    "0001-01-01",
    "first*small,a,,b",
    "%'\"<script>\U0010ffff",
)
USUAL = 3
"""So many values are tried under a name alone."""
OWN = {"annotator", "adjudicator"}


class Recorded(QueryDict):
    """A query that knows what it was asked for."""

    def __init__(self, text: str) -> None:
        self.names: set[str] = set()
        self.is_read_whole = False
        super().__init__(text)

    def _note(self, key: Any) -> None:
        self.names.add(str(key))

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def items(self) -> Any:
        self.is_read_whole = True
        return super().items()

    def getlist(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().getlist(key, default)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "django.request")


@dataclass(frozen=True)
class Answer:
    status: int
    content: str
    names: frozenset[str]
    """What the query was asked for."""
    is_read_whole: bool


def ask(client: Client, url: str, monkeypatch: pytest.MonkeyPatch) -> Answer:
    queries: list[Recorded] = []

    def recorded(request: WSGIRequest) -> QueryDict:
        if "_recorded" not in request.__dict__:
            request.__dict__["_recorded"] = Recorded(request.META.get("QUERY_STRING", ""))
            queries.append(request.__dict__["_recorded"])
        query: QueryDict = request.__dict__["_recorded"]
        return query

    with monkeypatch.context() as patch:
        patch.setattr(WSGIRequest, "GET", property(recorded))
        answer = client.get(url)
    return Answer(
        answer.status_code,
        "" if answer.streaming else answer.content.decode("utf-8", "replace"),
        frozenset(name for query in queries for name in query.names),
        any(query.is_read_whole for query in queries),
    )


def asked_for(client: Client, path: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names that the address asks its query for, if it opens for this person."""
    answer = ask(client, path, monkeypatch)
    if answer.status != 200:
        return set()
    links = re.findall(r"[?;&]([a-z_]+)=", answer.content) if answer.is_read_whole else []
    return {*answer.names, *links}


def statuses_of(
    client: Client, path: str, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, int]]:
    """Each value under all names at once; and some under each name alone, always the same: where the page refused all
    at once, or did not ask for this name. What is refused first hides the others. Every query with its status.
    """
    count, read = examples(USUAL), dict[str, frozenset[str]]()
    for value in HOSTILE if names else ():
        query = "&".join(f"{name}={quote(value)}" for name in sorted(names))
        answer = ask(client, f"{path}?{query}", monkeypatch)
        read[value] = answer.names if answer.status == 200 else frozenset()
        yield f"{path}?{query[:200]}", answer.status
    draw = random.Random(" ".join(sorted(names))).sample  # an address may hold a random id
    for name in sorted(names):
        for place, value in enumerate(draw(HOSTILE, min(count, len(HOSTILE)))):
            if place == 0 or count > USUAL or name not in read[value]:
                query = f"{name}={quote(value)}"
                yield f"{path}?{query[:200]}", client.get(f"{path}?{query}").status_code


@pytest.mark.flaky(reruns=0)  # it takes a minute
def test_no_query_string_breaks_a_page(db: None, monkeypatch: pytest.MonkeyPatch):
    world = make_world()
    clients = {role: client_of(world.people[role]) for role in OWN}
    clients["root"] = client_of(Person.objects.create_superuser("root"))
    statuses: dict[str, int] = {}
    for client in clients.values():
        client.raise_request_exception = False
    for name, path in paths(world):
        if name == "logout":  # it would end what follows
            continue
        for role in MAY[name] if MAY[name] <= OWN else ("root",):
            names = asked_for(clients[role], path + QUERIES.get(name, ""), monkeypatch)
            statuses |= statuses_of(clients[role], path, names, monkeypatch)
    assert {query: status for query, status in statuses.items() if status >= 500} == {}
    assert len(statuses) > 500


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_a_day_at_the_end_of_the_calendar_is_refused_in_words_in_every_time_zone(
    batch: Batch, lin: Person, name: str, zone: str
):
    """A day more, or midnight east of Greenwich, has no date there."""
    with timezone.override(zone):
        for day in ("0001-01-01", "1969-12-31", "3000-01-01", "9999-12-31"):
            page = client_of(lin).get(f"/history/?{name}={day}")
            assert page.status_code == 200
            assert re.search("than or equal to (1970-01-01|2999-12-31)", page.content.decode())
        for day in ("1970-01-01", "2999-12-31"):
            assert "than or equal to" not in client_of(lin).get(f"/history/?{name}={day}").content.decode()


@pytest.mark.parametrize(
    ("parse", "text", "number"),
    [
        (parse_signed, "-7", -7),
        (parse_signed, "--7", None),
        (parse_signed, "-", None),
        (parse_signed, "9" * 5000, None),
        (parse_level, "1e2", 100.0),
        (parse_level, "nan", None),
        (parse_level, "1e999", None),
        (parse_level, "", None),
        (parse_ordinal, str(MIN_DAY.toordinal()), MIN_DAY.toordinal()),
        (parse_ordinal, str(MAX_DAY.toordinal() + 1), None),
        (parse_ordinal, "0", None),
    ],
)
def test_what_is_no_number_or_out_of_bounds_is_none(parse: Any, text: str, number: float | None):
    assert parse(text) == number
