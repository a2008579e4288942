"""The signature of a webhook, as Standard Webhooks 1.0 has it (https://www.standardwebhooks.com). Pure.

A secret is 32 bytes, written ``whsec_`` and base64. It is not stored: it is derived from the site's ``SECRET_KEY`` and
a random salt that is, so that neither the database nor its backup holds what could sign.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable

PREFIX = "whsec_"
PURPOSE = b"assay webhook secret 1:"
FINGERPRINT_DIGITS = 16


def derive_secret(site_key: str, salt: str) -> bytes:
    return hmac.new(site_key.encode(), PURPOSE + salt.encode(), hashlib.sha256).digest()


def write_secret(secret: bytes) -> str:
    return PREFIX + b64encode(secret).decode()


def read_secret(text: str) -> bytes:
    """ValueError for what is no base64."""
    return b64decode(text.removeprefix(PREFIX), validate=True)


def compute_fingerprint(secret: bytes) -> str:
    """It is stored, and tells whether the same secret is still derived; nothing is derived from it."""
    return hashlib.sha256(PURPOSE + secret).hexdigest()[:FINGERPRINT_DIGITS]


def sign_message(secrets: Iterable[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The header ``webhook-signature``: one signature by each secret. ``timestamp`` in seconds since 1970."""
    content = f"{message_id}.{timestamp}.".encode() + body
    digests = [hmac.new(secret, content, hashlib.sha256).digest() for secret in secrets]
    return " ".join(f"v1,{b64encode(digest).decode()}" for digest in digests)
