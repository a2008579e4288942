"""What must not stand in a log."""

from __future__ import annotations

import logging
import re

# An address that lets whoever reads it make an account: annotation/services/invitations.py.
_SECRET = re.compile(r"(/join/)[^/\s\"'?]+")


class WithoutSecrets(logging.Filter):
    """Takes the secrets of invitations out of the lines that name their addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        if "/join/" in line:
            record.msg, record.args = _SECRET.sub(r"\1***", line), ()
        return True
