"""Who may get what next. Pure: plain values in, a decision out.

The service keeps these rules under concurrency; the database holds them whatever the service does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice

from annotation.core.errors import N_
from annotation.domain.batch_spec import MAX_OVERLAP

# The slot of the adjudicator, which no annotator's can meet. It makes one table hold both invariants: a task has one
# adjudicator (unique task+slot), and the adjudicator is none of its annotators (unique task+person).
ADJUDICATION_SLOT = 2**15 - 1
# The adjudicator's of former versions: nobody's, so that the database refuses what a worker of theirs still writes
# during an upgrade, and nothing takes a decision for an annotation.
RETIRED_SLOT = 5
MAX_SLOT = MAX_OVERLAP
# A person reads one item while the next is fetched: never more than these live claims in one batch.
MAX_LIVE_CLAIMS = 2
# Why a stratum is not for a member.
NOT_THIS_DIMENSION = N_("taken out of this dimension")
NOT_THIS_TOPIC = N_("does not read this topic")
OWN_MODEL = N_("helped to build this model")
NOT_THIS_LANGUAGE = N_("does not read this language")


@dataclass(frozen=True)
class PastClaim:
    """How this person's earlier claim on a task ended; ``live`` covers claimed and submitted."""

    live: bool
    skipped: bool
    adjudication: bool


@dataclass(frozen=True)
class TaskKind:
    """What all tasks of a stratum have in common. ``language`` is empty where the prompts name none."""

    dimension: str
    language: str
    model: int


@dataclass(frozen=True)
class MemberLimits:
    """What a member must not be given: ``dimensions`` as the manager said, ``opted_out`` as they said themselves.

    ``languages`` empty means that they read every language.
    """

    dimensions: frozenset[str] = frozenset()
    opted_out: frozenset[str] = frozenset()
    languages: frozenset[str] = frozenset()
    models: frozenset[int] = frozenset()


def find_obstacle(limits: MemberLimits, kind: TaskKind) -> str | None:
    """Why tasks of this kind are not for this member; None where they are."""
    if kind.dimension in limits.dimensions:
        return NOT_THIS_DIMENSION
    if kind.dimension in limits.opted_out:
        return NOT_THIS_TOPIC
    if kind.model in limits.models:
        return OWN_MODEL
    if kind.language and limits.languages and not _is_readable(kind.language, limits.languages):
        return NOT_THIS_LANGUAGE
    return None


def find_free_slot(taken_slots: Collection[int], overlap: int) -> int | None:
    """The lowest annotation slot that nobody holds, or None."""
    return next((slot for slot in list_slots(overlap) if slot not in taken_slots), None)


@lru_cache(maxsize=64)
def list_slots(overlap: int) -> tuple[int, ...]:
    """The annotation slots of a task, as many as its overlap."""
    return tuple(islice((slot for slot in count() if slot != RETIRED_SLOT), overlap))


def may_claim_again(past: PastClaim | None, *, adjudication: bool) -> bool:
    """Whoever had a task gets it back only after an expired or given-back claim of the same kind.

    Never after a skip, never twice, and never as adjudicator of what they were given to annotate.
    """
    if past is None:
        return True
    return not past.live and not past.skipped and past.adjudication == adjudication


def has_enough_claims(live: int, *, ahead: bool) -> bool:
    """Whether the person must work on the ``live`` claims at hand before a new one is made."""
    return live >= (MAX_LIVE_CLAIMS if ahead else 1)


def is_within_quota(quota: int | None, *, submitted: int, live: int) -> bool:
    """Whether one more claim keeps the person within their quota. It limits what is handed out, never what is
    handed in: late work for a place that is still free is taken, too."""
    return quota is None or submitted + live < quota


def _is_readable(language: str, languages: frozenset[str]) -> bool:
    """``zh`` reads ``zh-Hans``; ``zh-Hans`` does not read ``zh-Hant``."""
    code = language.lower().replace("_", "-")
    return any(code == known or code.startswith(known + "-") for known in (x.lower() for x in languages))
