"""What must not stand in a log."""

from __future__ import annotations

import logging
import re

# An address that lets whoever reads it make an account or set a password (annotation/services/people/invitations.py,
# setup_links.py), or read a board (benchmark/services/sharing.py); and a token
# (annotation/services/people/tokens.py), also one from before they had a prefix.
_SECRETS = (
    (re.compile(r"(/(?:join|set-up|shared)/)[^/\s\"'?]+"), r"\1***"),
    (re.compile(r"(assay_)[0-9a-f]{8,}"), r"\1***"),
    (re.compile(r"(\bToken\s+)(?!assay_)[0-9a-f]{16,}"), r"\1***"),
)


class SecretsFilter(logging.Filter):
    """Takes the secrets of links and of tokens out of the lines that show them."""

    def filter(self, record: logging.LogRecord) -> bool:
        line = masked = record.getMessage()
        for secret, mask in _SECRETS:
            masked = secret.sub(mask, masked)
        if masked != line:
            record.msg, record.args = masked, ()
        return True
