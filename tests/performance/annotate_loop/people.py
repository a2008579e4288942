"""People at work: over the API as a program, or through the pages as a browser sends them."""

from __future__ import annotations

import html
import json
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlencode
from uuid import uuid4
from zlib import crc32

from tests.performance.annotate_loop.client import Answer, Client, ConnectionLost
from tests.performance.annotate_loop.ledger import Ledger, Promise, Timing
from tests.performance.annotate_loop.world import Account

# How often two people who read the same text say the same: what is disputed keeps the adjudicators busy.
AGREEMENT = 0.9
GIVE_UP_AFTER = 60.0
WAIT = 0.05
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Item:
    """What was handed out. ``fields`` is what goes back, but for the key; ``key`` the page's own, or a new one."""

    assignment: str
    path: str
    fields: Mapping[str, object]
    key: str


@dataclass(frozen=True)
class Taken:
    """The answer to a submission. ``following``: the next item, where the answer brought it along."""

    status: int
    receipt: str = ""
    following: Item | None = None
    follows: bool = False


class Stuck(Exception):
    """The server gave no usable answer for a minute."""


@dataclass
class Worker(ABC):
    """One person and their connection. Every call is repeated until it is answered, under the same key."""

    person: Account
    batch: str
    port: int
    ledger: Ledger = field(init=False)
    client: Client = field(init=False)
    submitting: ClassVar[str] = "submit"

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.person.name)
        self.client = self.new_client()
        self.chance = random.Random(self.person.name)
        self._following: Item | None = None

    @abstractmethod
    def new_client(self) -> Client: ...

    @abstractmethod
    def ask(self) -> Answer: ...

    @abstractmethod
    def read(self, answer: Answer) -> Item | None: ...

    @abstractmethod
    def post(self, client: Client, item: Item, key: str) -> Answer: ...

    @abstractmethod
    def read_result(self, answer: Answer) -> Taken: ...

    def next(self) -> Item | None:
        """The next item; None when there is nothing. What a submission brought along is not asked for again."""
        following, self._following = self._following, None
        return following or self.ask_again()

    def ask_again(self) -> Item | None:
        answer = self._answered("next", self.ask, expected={200, 204})
        item = self.read(answer)
        if item is not None:
            self.ledger.handed.add(item.assignment)
        return item

    def submit(self, item: Item) -> None:
        answer = self._answered(
            self.submitting, lambda: self.post(self.client, item, item.key), expected={200, 201, 302, 409}
        )
        self.keep(item, item.key, self.read_result(answer))

    def keep(self, item: Item, key: str, result: Taken) -> None:
        """Write down what the server promised; a refusal is a surprise."""
        if result.status == 409:
            self.ledger.record_surprise(f"submit of {item.assignment} was refused")
            return
        self.ledger.promises.append(Promise(item.assignment, key, result.receipt))
        if result.follows:
            self._following = result.following
            if result.following is not None:
                self.ledger.handed.add(result.following.assignment)

    def _answered(self, kind: str, call: Callable[[], Answer], *, expected: set[int]) -> Answer:
        began = time.monotonic()
        while True:
            answer = self.repeat_call(call)
            self.ledger.answers[kind, answer.status] += 1
            if answer.status in expected:
                end = time.monotonic()
                self.ledger.timings.append(Timing(kind, end, end - began))
                return answer
            self.ledger.record_surprise(f"{kind}: {answer.status} {answer.body[:200]!r}")
            if time.monotonic() - began > GIVE_UP_AFTER:
                raise Stuck(f"{self.person.name}: no answer to {kind} that can be used")
            time.sleep(WAIT)

    def repeat_call(self, call: Callable[[], Answer]) -> Answer:
        """The answer, however often the connection is lost before it comes."""
        began = time.monotonic()
        while True:
            try:
                return call()
            except ConnectionLost as error:
                self.ledger.lost += 1
                if time.monotonic() - began > GIVE_UP_AFTER:
                    raise Stuck(f"{self.person.name}: {error}") from error
                time.sleep(WAIT)

    def decide(self, text: str, values: Sequence[float]) -> float:
        """A level that follows from the text, most of the time."""
        if self.chance.random() < AGREEMENT:
            return values[crc32(text.encode()) % len(values)]
        return self.chance.choice(values)


class Program(Worker):
    """Works over ``/api/v1/`` with a token."""

    def new_client(self) -> Client:
        headers = {"Authorization": f"Token {self.person.token}", "Content-Type": "application/json"}
        return Client(self.port, headers)

    def ask(self) -> Answer:
        return self.client.send("POST", f"/api/v1/batches/{self.batch}/next/", b"{}")

    def read(self, answer: Answer) -> Item | None:
        if answer.status == 204:
            return None
        content = json.loads(answer.body)
        text = content["turns"][-1]["text"]
        labels = {
            criterion["name"]: self.decide(text + criterion["name"], criterion["values"])
            for criterion in content["criteria"]
        }
        assignment = content["assignment"]
        fields = {"labels": labels, "seconds": 1.5}
        return Item(assignment, f"/api/v1/assignments/{assignment}/submit/", fields, str(uuid4()))

    def post(self, client: Client, item: Item, key: str) -> Answer:
        return client.send("POST", item.path, json.dumps(item.fields).encode(), {"Idempotency-Key": key})

    def read_result(self, answer: Answer) -> Taken:
        content = json.loads(answer.body)
        receipt = content["error"].get("receipt", "") if answer.status == 409 else content["receipt"]
        return Taken(answer.status, receipt)


class Adjudicator(Program):
    """Decides disputes over the API, whatever the annotators use."""

    def ask_dispute(self) -> Item | None:
        path = f"/api/v1/batches/{self.batch}/next-dispute/"
        answer = self._answered(
            "next dispute", lambda: self.client.send("POST", path, b"{}"), expected={200, 204}
        )
        item = self.read(answer)
        if item is None:
            return None
        self.ledger.handed.add(item.assignment)
        fields = {**item.fields, "reason": "reading_slip"}
        return Item(item.assignment, item.path.replace("/submit/", "/adjudicate/"), fields, item.key)

    def settle(self, item: Item) -> None:
        """A verdict, and the decision: the same levels."""
        labels = {"labels": item.fields["labels"]}
        path, body = item.path.replace("/adjudicate/", "/verdict/"), json.dumps(labels).encode()
        self._answered(
            "verdict", lambda: self.client.send("POST", path, body), expected={200, 409}
        )  # it stands
        answer = self._answered(
            "adjudicate", lambda: self.post(self.client, item, item.key), expected={200, 201}
        )
        receipt = self.read_result(answer).receipt
        self.ledger.promises.append(Promise(item.assignment, item.key, receipt, decision=True))


class Pages(Worker):
    """Reads the work page, fills its form in and sends it."""

    sends_to: ClassVar[str]  # the form's attribute that says where
    headers: ClassVar[Mapping[str, str]] = FORM

    def new_client(self) -> Client:
        client = Client(self.port, {"Accept": "text/html", "Accept-Language": "en"})
        client.cookies["sessionid"] = self.person.session
        if hasattr(self, "client"):  # a second tab
            client.cookies |= self.client.cookies
        return client

    def ask(self) -> Answer:
        return self.client.send("GET", f"/work/{self.batch}/")

    def read(self, answer: Answer) -> Item | None:
        return self.form(answer.body.decode())

    def post(self, client: Client, item: Item, key: str) -> Answer:
        fields = [*item.fields.items(), ("key", key), *self.list_page_fields(item)]
        return client.send("POST", item.path, urlencode(fields).encode(), self.headers)

    def list_page_fields(self, _item: Item) -> Sequence[tuple[str, str]]:
        """What the page sends with the form."""
        return ()

    def read_result(self, answer: Answer) -> Taken:
        receipt = answer.header("Assay-Receipt")
        if answer.status != 200:
            return Taken(answer.status, receipt)
        return Taken(200, receipt, following=self.form(answer.body.decode()), follows=True)

    def form(self, page: str) -> Item | None:
        """The item's form as it is filled in; None on a page without one."""
        match = _FORM.search(page)
        if match is None:
            return None
        about, content = attributes(match["about"]), match["content"]
        fields: dict[str, object] = {"rationale": "", "seconds": "1.5"}
        levels: dict[str, list[float]] = {}
        for tag in _INPUT.findall(content):
            input_attributes = attributes(tag)
            if input_attributes.get("type") == "hidden":
                fields.setdefault(input_attributes["name"], input_attributes.get("value", ""))
            elif input_attributes.get("name", "").startswith("label."):
                levels.setdefault(input_attributes["name"], []).extend(_values(input_attributes))
        text = html.unescape(_TEXT.findall(page)[-1])
        fields |= {
            name: f"{self.decide(text + name.removeprefix('label.'), values):g}"
            for name, values in levels.items()
        }
        key = str(fields.pop("key"))
        return Item(about["data-item"], about[self.sends_to], fields, key)


class Browser(Pages):
    """The page with its scripts (static/js/outbox.js, ahead.js): loaded once, then one item is always at hand, and
    each submission goes in the background and brings the item after that one.
    """

    submitting: ClassVar[str] = "submit and ahead"
    sends_to = "hx-post"
    headers = {**FORM, "HX-Request": "true"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hand: list[Item] = []

    def next(self) -> Item | None:
        if self.hand:
            return self.hand.pop(0)
        item = self.ask_again()
        if item is not None:
            self.look_ahead(item)
        return item

    def look_ahead(self, item: Item) -> None:
        had = urlencode([("had", item.assignment)]).encode()
        answer = self._answered(
            "ahead",
            lambda: self.client.send(
                "POST",
                f"/work/{self.batch}/ahead/",
                had,
                {**self.headers, "X-CSRFToken": self.client.cookies.get("csrftoken", "")},
            ),
            expected={200, 204},
        )
        self.hold(self.form(answer.body.decode()) if answer.status == 200 else None)

    def list_page_fields(self, item: Item) -> Sequence[tuple[str, str]]:
        had = [
            ("had", item_ahead.assignment)
            for item_ahead in self.hand
            if item_ahead.assignment != item.assignment
        ]
        return [*had, ("next", "ahead" if had else "page")]

    def keep(self, item: Item, key: str, result: Taken) -> None:
        super().keep(item, key, result)
        following, self._following = self._following, None
        self.hold(following)

    def hold(self, item: Item | None) -> None:
        if item is not None and item.assignment not in [held_item.assignment for held_item in self.hand]:
            self.ledger.handed.add(item.assignment)
            self.hand.append(item)


class Reader(Pages):
    """The pages without a script: a whole page for each item, its form sent, and on to the next page."""

    sends_to = "action"


_FORM = re.compile(r"<form\b(?P<about>[^>]*\bdata-item=[^>]*)>(?P<content>.*?)</form>", re.DOTALL)
_INPUT = re.compile(r"<input\b([^>]*)>")
_ATTRIBUTE = re.compile(r'([\w.:-]+)="([^"]*)"')
_TEXT = re.compile(r'class="turn__text"[^>]*>([^<]*)<')


def attributes(tag: str) -> dict[str, str]:
    return {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(tag)}


def _values(input_attributes: Mapping[str, str]) -> list[float]:
    if input_attributes.get("type") == "radio":
        return [float(input_attributes["value"])]
    return [float(value) for value in range(int(input_attributes["min"]), int(input_attributes["max"]) + 1)]


WORKERS: dict[str, type[Worker]] = {"api": Program, "pages": Browser, "reload": Reader}
