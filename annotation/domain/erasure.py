"""What the audit trail forgets of a person who is erased, and how it shows that it forgot nothing else; and the hash of
the certificate of a deleted study. Pure.

docs/decisions/erasure.md says why the trail is rewritten, and why its seals are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from annotation.domain.audit import EventContent, split_target

NAME_KEYS = frozenset(
    {
        "actor",
        "adjudicators",
        "annotators",
        "author",
        "by",
        "closed_by",
        "made_by",
        "managers",
        "members",
        "people",
        "person",
        "reviewer",
        "who",
    }
)
"""The keys of an event's data that hold names of people, at any depth."""

KEPT_KEYS = frozenset(
    {
        "expires_at",
        "had_password",
        "link",
        "password",
        "released",
        "roles",
        "scope",
        "study",
        "token",
        "tokens",
        "why",
    }
)
"""What stays of the data of an event about the person: ids, numbers, roles and times, and no word about them."""


FREE_KEYS = frozenset({"error", "reason"})
"""The keys of what somebody wrote: dropped from events of the person and from those that name them."""


@dataclass(frozen=True)
class ErasedPerson:
    """``names`` are all by which the person was known: the name to sign in with, those shown, and an address."""

    id: int
    username: str
    names: Set[str]
    pseudonym: str

    def rewrite(self, event: EventContent) -> EventContent:
        """The event without the person's names, and, where it was their doing or an attempt to sign in as them, without
        address and browser. Id, time, actor, verb and study are as they were.
        """
        kind, key = split_target(event.target)
        is_about = kind == "person" and key == self.username
        is_theirs = event.actor == self.id or (is_about and event.actor is None)
        data = self._rewrite_data(event.data)
        if is_about:
            data = {name: value for name, value in data.items() if name in KEPT_KEYS}
        elif is_theirs or self._is_named(event.data):
            data = {name: value for name, value in data.items() if name not in FREE_KEYS}
        return event._replace(
            target=self._rewrite_target(kind, key, event.target),
            address="" if is_theirs else event.address,
            agent="" if is_theirs else event.agent,
            data=data,
        )

    def _rewrite_target(self, kind: str, key: str, target: str) -> str:
        if kind == "person" and key == self.username:
            return f"person:{self.pseudonym}"
        model, _blank, row = key.partition(" ")
        if kind == "admin" and model == "person" and row in self.names:
            return f"admin:person {self.pseudonym}"
        return target

    def _rewrite_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: self._rename(value) if key in NAME_KEYS else self._rewrite_value(value)
            for key, value in data.items()
        }

    def _rewrite_value(self, value: Any) -> Any:
        return self._rewrite_data(value) if isinstance(value, Mapping) else value

    def _rename(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.pseudonym if value in self.names else value
        if isinstance(value, list | tuple):
            return [self._rename(item) for item in value]
        return self._rewrite_value(value)

    def _is_named(self, data: Mapping[str, Any]) -> bool:
        return any(data.get(key) in self.names for key in NAME_KEYS if isinstance(data.get(key), str))


CERTIFICATE_FORMAT = "assay certificate of a deleted study 1"


def digest_certificate(certificate: Mapping[str, Any]) -> str:
    """The SHA-256, in hex, of a certificate as JSON whose keys are in order and which has no spaces between them."""
    text = json.dumps(certificate, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def digest_content(event: EventContent) -> bytes:
    """The SHA-256 of what is stored of a rewritten event, without the hash before it."""
    return hashlib.sha256(event.to_bytes()).digest()


def digest_rewrites(digests: Iterable[tuple[int, bytes]]) -> str:
    """One SHA-256, in hex, over rewritten events by their ids: the erasure's own event has it, and is sealed."""
    lines = [f"{event}:{digest.hex()}\n" for event, digest in sorted(digests)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
