"""What the commands that ask an endpoint read alike."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from typing import Any


def setting(text: str) -> tuple[str, Any]:
    """``KEY=JSON``, a generation setting."""
    name, _is, value = text.partition("=")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"{text[:80]!r}: write KEY=JSON, as in top_k=40") from error
