"""What every format is read into. ``line`` is the 1-based line of the file on which the record begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from annotation.content import prompt_key


@dataclass(frozen=True, slots=True)
class PromptRef:
    """How a record names its prompt: by its id, or where it has none by its text (then ``id`` is empty)."""

    id: str = ""
    text: str = ""

    @property
    def key(self) -> str:
        return self.id or prompt_key(self.text)


@dataclass(frozen=True, slots=True)
class PromptRecord:
    line: int
    ref: PromptRef
    dimension: str = ""
    subcomponent: str = ""
    language: str = ""
    attack_method: str | None = None


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """A text or the turns of a dialogue. ``prompt`` is there where the file brings its prompts along.

    ``model`` and ``collection`` are None where the file does not say.
    """

    line: int
    ref: PromptRef
    text: str = ""
    turns: Sequence[Mapping[str, str]] = ()
    model: str | None = None
    collection: str | None = None
    prompt: PromptRecord | None = None


@dataclass(frozen=True, slots=True)
class AnnotationRecord:
    """What one person said of one response. The labels are checked by the guideline, not here.

    ``at`` is when; None where the file does not say.
    """

    line: int
    ref: PromptRef
    annotator: str
    labels: Mapping[str, Any]
    model: str | None = None
    collection: str | None = None
    rationale: str = ""
    evidence: Sequence[Mapping[str, Any]] = ()
    flags: Sequence[str] = ()
    seconds: float | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AdjudicationRecord:
    """The third person's decision on the disputed criteria of one response.

    ``is_whole``: it answers every criterion, as of somebody who did not know what was disputed.
    """

    line: int
    ref: PromptRef
    adjudicator: str
    labels: Mapping[str, Any]
    model: str | None = None
    collection: str | None = None
    rationale: str = ""
    seconds: float | None = None
    at: datetime | None = None
    reason: str = ""
    is_whole: bool = False


Record: TypeAlias = PromptRecord | ResponseRecord | AnnotationRecord | AdjudicationRecord
