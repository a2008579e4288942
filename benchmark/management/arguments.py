"""What several commands read alike."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any, TypeVar

from annotation.core.names import split_names

T = TypeVar("T")


def setting(text: str) -> tuple[str, Any]:
    """``KEY=JSON``, a generation setting."""
    name, _is, value = text.partition("=")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"{text[:80]!r}: write KEY=JSON, as in top_k=40") from error


def resolve_names(texts: list[str] | None, get: Callable[[str], T]) -> list[T] | None:
    """What each name of the lists means; None where nothing was stated."""
    return None if texts is None else [get(name) for text in texts for name in split_names(text)]
