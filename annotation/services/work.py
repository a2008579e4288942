"""What a person submits, before any rule has looked at it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Work:
    """What a person submits. ``labels`` maps criterion to level value; ``seconds`` is the time spent; ``channel``
    is the way by which it came.
    """

    labels: Mapping[str, Any]
    rationale: str = ""
    evidence: Sequence[Mapping[str, Any]] = field(default_factory=list)
    flags: Sequence[str] = field(default_factory=list)
    seconds: float | None = None
    reason: str = ""
    channel: str = ""

    @property
    def sha256(self) -> str:
        """Two submissions with one key are the same exactly if this is equal; a retry may differ in the rest."""
        body = {name: value for name, value in asdict(self).items() if name not in {"seconds", "channel"}}
        text = json.dumps(body, sort_keys=True, ensure_ascii=False, default=str)
        return hashlib.sha256(text.encode()).hexdigest()
