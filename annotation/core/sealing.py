"""Secrets that must be read again, such as the seed of a second factor or a provider's refresh token: sealed with a key
made of SECRET_KEY, so that the database, or a backup of it, is not enough to read them.
"""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

_PURPOSE = b"annotation.sealing"


def seal(text: str) -> str:
    return _build_box().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str | None:
    """None for what was sealed with another SECRET_KEY, or was changed."""
    try:
        return _build_box().decrypt(sealed.encode()).decode()
    except InvalidToken:
        return None


def _build_box() -> Fernet:
    digest = hashlib.blake2b(settings.SECRET_KEY.encode(), digest_size=32, person=_PURPOSE[:16]).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
