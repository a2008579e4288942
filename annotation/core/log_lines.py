"""The lines of a log as people read them, without the secrets that may stand in them."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FORMAT = "{asctime} {levelname} {name}: {message}"
MAX_LINES = 200
MAX_LINE_CHARACTERS = 8000
# An address that lets whoever reads it make an account or set a password (annotation/services/people/invitations.py,
# setup_links.py), confirm or stop mail (annotation/services/mail), or read a board (benchmark/services/sharing.py); and
# a token
# (annotation/services/people/tokens.py), also one from before they had a prefix.
_SECRETS = (
    (re.compile(r"(/(?:join|set-up|shared|mail/confirm|mail/stop)/)[^/\s\"'?]+"), r"\1***"),
    (re.compile(r"(%2Fmail%2Fconfirm%2F)[^%/\s\"'?&]+", re.IGNORECASE), r"\1***"),
    (re.compile(r"(assay_)[0-9a-f]{8,}"), r"\1***"),
    (re.compile(r"(\bToken\s+)(?!assay_)[0-9a-f]{16,}"), r"\1***"),
    (re.compile(r"(\bBearer\s+)[^\s\"']+"), r"\1***"),
    (re.compile(r"(://[^:/@\s]*:)[^@/\s]+(@)"), r"\1***\2"),  # the password of a database or a broker
)


def mask_secrets(text: str) -> str:
    for secret, mask in _SECRETS:
        text = secret.sub(mask, text)
    return text


class LineFormatter(logging.Formatter):
    """A line to read, and below it the traceback, where there is one."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 (logging's name)
        return mask_secrets(super().formatException(ei))


class _Gatherer(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=MAX_LINES)
        self.setFormatter(LineFormatter(FORMAT, style="{"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(mask_secrets(self.format(record))[:MAX_LINE_CHARACTERS])


@contextmanager
def gather_lines() -> Iterator[deque[str]]:
    """The last ``MAX_LINES`` that this process logs meanwhile."""
    gatherer, root = _Gatherer(), logging.getLogger()
    root.addHandler(gatherer)
    try:
        yield gatherer.lines
    finally:
        root.removeHandler(gatherer)
