from __future__ import annotations

import base64
import hashlib
import hmac
import struct
import time
from typing import Any

from django.test import Client
from django.urls import reverse

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1"


def sign_in(name: str, password: str = "", *, agent: str = "", address: str = "127.0.0.1") -> Client:
    client = Client(HTTP_USER_AGENT=agent, REMOTE_ADDR=address)
    client.post(reverse("login"), {"username": name, "password": password or f"{name}-password"})
    return client


def is_signed_in(client: Client) -> bool:
    answer: Any = client.get(reverse("account"))
    return bool(answer.status_code == 200)


def compute_code(secret: str, *, at: float | None = None) -> str:
    """The code of RFC 6238 for a base32 secret, written down here anew."""
    key = base64.b32decode(secret.replace(" ", ""), casefold=True)
    counter = struct.pack(">Q", int(time.time() if at is None else at) // 30)
    digest = hmac.new(key, counter, hashlib.sha1).digest()
    start = digest[-1] & 15
    number = struct.unpack(">I", digest[start : start + 4])[0] & 0x7FFFFFFF
    return f"{number % 10**6:06d}"
