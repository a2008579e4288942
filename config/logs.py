"""What must not stand in a log."""

from __future__ import annotations

import logging
import re

# An address that lets whoever reads it make an account (annotation/services/invitations.py), or read a board
# (benchmark/services/sharing.py).
_SECRET = re.compile(r"(/(?:join|shared)/)[^/\s\"'?]+")


class WithoutSecrets(logging.Filter):
    """Takes the secrets of invitations and of links for outsiders out of the lines that name their addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        if "/join/" in line or "/shared/" in line:
            record.msg, record.args = _SECRET.sub(r"\1***", line), ()
        return True
