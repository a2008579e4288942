"""What the audit trail knows: the verbs, each declared once with what it means, and the kinds of their targets. Pure.

Each app declares its own verbs, as an enum that extends ``Verb``, and the kinds of rows that they are about. Their
values are stored in events and never change. Nothing is recorded under another word: ``record`` takes a ``Verb`` alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, Self

from annotation.core.errors import N_


class Category(StrEnum):
    ACCOUNTS = "accounts"
    PEOPLE = "people"
    GUIDELINES = "guidelines"
    DATA = "data"
    BATCHES = "batches"
    LABELLING = "labelling"
    GOLD = "gold"
    SCORERS = "scorers"
    BOARDS = "boards"
    CAMPAIGNS = "campaigns"
    READING = "reading"
    SITE = "site"


CATEGORY_LABELS = {
    Category.ACCOUNTS: N_("Accounts and sign-ins"),
    Category.PEOPLE: N_("People and roles"),
    Category.GUIDELINES: N_("Guidelines"),
    Category.DATA: N_("Data and imports"),
    Category.BATCHES: N_("Batches"),
    Category.LABELLING: N_("Labels and decisions"),
    Category.GOLD: N_("Gold releases"),
    Category.SCORERS: N_("Scorers"),
    Category.BOARDS: N_("Boards, collections and judges"),
    Category.CAMPAIGNS: N_("Campaigns"),
    Category.READING: N_("Results opened, files taken"),
    Category.SITE: N_("Studies and the site"),
}


@dataclass(frozen=True)
class TargetKind:
    """What the target of an event is, such as ``batch`` of ``batch:first``: the model of its rows, the field that
    follows the colon, the path to the study of a row, and the name of the address of its page, which takes the field
    as its only argument. ``label`` has a place for the key.
    """

    name: str
    label: str
    model: str = ""
    field: str = "pk"
    study: str = ""
    page: str = ""


KINDS: dict[str, TargetKind] = {}
"""By name, of all apps."""


def register_kinds(*kinds: TargetKind) -> None:
    KINDS.update((kind.name, kind) for kind in kinds)


@dataclass(frozen=True)
class Meaning:
    """``sentence`` has a place for the actor and one for the target, or leaves them out. ``targets``: the kinds that
    the target can be of.

    ``is_of_site``: it is about an account or the site, and so of no study, wherever it was done. ``is_blind_safe``: it
    tells of no label, model, file or result, so that whoever judges blind may read it.
    """

    category: Category
    sentence: str
    targets: tuple[str, ...]
    is_of_site: bool = False
    is_blind_safe: bool = False


class Verb(StrEnum):
    """What somebody did. It has no members: the apps' verbs extend it."""

    meaning: Meaning

    def __new__(cls, value: str, meaning: Meaning) -> Self:
        verb = str.__new__(cls, value)
        verb._value_ = value
        verb.meaning = meaning
        return verb

    @classmethod
    def get(cls, value: str) -> Self:
        """The verb that is stored so."""
        return {verb.value: verb for verb in cls}[value]

    def check_target(self, target: str) -> None:
        """Raise ValueError for a target of a kind that is not the verb's: a mistake of the code."""
        kind = split_target(target)[0]
        if kind not in self.meaning.targets or kind not in KINDS:
            raise ValueError(
                f"The verb {self.value} is declared for {self.meaning.targets}, not for {target!r}."
            )


def list_verbs() -> list[Verb]:
    """Those of all apps, in the order in which they are declared."""
    return [verb for app_verbs in Verb.__subclasses__() for verb in app_verbs]


@lru_cache(maxsize=1000)
def find_verb(value: str) -> Verb | None:
    """The verb of a stored event; None of one that this version does not know."""
    return next((verb for verb in list_verbs() if verb.value == value), None)


def select_verbs(category: str = "", *, is_blind_safe: bool = False) -> list[str]:
    """The stored values of the verbs of the category, or of all; of those, the ones that are safe alone."""
    return [
        verb.value
        for verb in list_verbs()
        if (not category or verb.meaning.category == category)
        and (verb.meaning.is_blind_safe or not is_blind_safe)
    ]


def split_target(target: str) -> tuple[str, str]:
    """The kind and the key of ``batch:first``."""
    kind, _colon, key = target.partition(":")
    return kind, key


# The chain (docs/decisions/audit-chain.md).

CONTENT = ("id", "at", "actor", "verb", "target", "study", "address", "agent", "data")
"""The columns that the hash of an event covers, in their order."""
GENESIS = hashlib.sha256(b"assay audit chain 1").digest()
"""What stands before the first event."""


class EventContent(NamedTuple):
    """What is stored of an event, in the order of ``CONTENT``."""

    id: int
    at: datetime
    actor: int | None
    verb: str
    target: str
    study: int | None
    address: str
    agent: str
    data: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        """The same on every database: times in UTC, whole numbers without a point, the keys of objects in order."""
        fields = [
            self.id,
            self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            self.actor,
            self.verb,
            self.target,
            self.study,
            self.address,
            self.agent,
            _unify_numbers(self.data),
        ]
        return json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def chain_events(previous: bytes, contents: Iterable[EventContent]) -> Iterable[bytes]:
    """The hash of each event: of the hash before it and its own content."""
    for content in contents:
        previous = hashlib.sha256(previous + content.to_bytes()).digest()
        yield previous


def _unify_numbers(data: Any) -> Any:
    """A database may hand a whole number back with or without a point."""
    if isinstance(data, float) and data.is_integer():
        return int(data)
    if isinstance(data, Mapping):
        return {key: _unify_numbers(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_unify_numbers(value) for value in data]
    return data
