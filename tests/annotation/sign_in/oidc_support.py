"""A provider that runs here: oidc-provider-mock from the registry, an authlib server with real signatures; and one of
our own whose tokens can be made wrong.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.cache import caches
from django.test import Client
from django.urls import reverse
from jwt.algorithms import RSAAlgorithm
from oidc_provider_mock import User, run_server_in_thread

from annotation.domain.sign_in.providers import OidcProvider, RoleRule

SECRET_VARIABLE = "ASSAY_TEST_OIDC_SECRET"
os.environ.setdefault(SECRET_VARIABLE, "any-secret-of-the-tests")
# The mock calls authlib as it was some versions ago.
OLD_WORDS_OF_MOCK = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:authlib.*", "ignore:get_jwt_config"
)
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


def make_provider(issuer: str, **changes: Any) -> OidcProvider:
    values: dict[str, Any] = {
        "kind": "oidc",
        "name": "company",
        "title": "the company",
        "title_zh": "公司账号",
        "issuer": issuer,
        "client_id": "assay",
        "client_secret_env": SECRET_VARIABLE,
        "userinfo": True,
        "scopes": ("openid", "profile"),
        "roles": (
            RoleRule(group="assay-managers", study="default", roles=("manager",)),
            RoleRule(group="assay-labels", study="default", roles=("annotator", "adjudicator")),
            RoleRule(group="assay-admins", admin=True),
        ),
    }
    return OidcProvider(**values | changes)


class Directory:
    """The mock with its people."""

    def __init__(self, server: Any) -> None:
        self.issuer = f"http://localhost:{server.server_port}"

    def put(self, sub: str, **claims: Any) -> None:
        requests.put(f"{self.issuer}/users/{sub}", json=claims, timeout=10).raise_for_status()

    def revoke(self, sub: str) -> None:
        requests.post(f"{self.issuer}/users/{sub}/revoke-tokens", timeout=10).raise_for_status()


@contextmanager
def run_directory(**options: Any) -> Iterator[Directory]:
    people = [
        User(
            sub="u-1001",
            claims={
                "preferred_username": "grace",
                "name": "Grace Liu",
                "groups": ["assay-managers", "staff"],
            },
        )
    ]
    with run_server_in_thread(user_claims=people, require_nonce=True, **options) as server:
        forget_provider()
        yield Directory(server)


def forget_provider() -> None:
    caches["process"].clear()


def go_to_provider(client: Client, name: str = "company", **query: str) -> str:
    """The address to which the browser is sent."""
    answer = client.get(reverse("openid_connect_login", args=[name]), query)
    assert answer.status_code == 302, answer.content.decode()
    return str(answer["Location"])


def consent(address: str, sub: str) -> str:
    """Who the provider's form says they are; the address back."""
    answer = requests.post(address, data={"sub": sub}, allow_redirects=False, timeout=10)
    assert answer.status_code == 302, answer.text
    return answer.headers["Location"]


def come_back(client: Client, address: str) -> Any:
    parts = urlsplit(address)
    return client.get(f"{parts.path}?{parts.query}")


def sign_in_by_provider(sub: str, client: Client | None = None, **query: str) -> tuple[Client, Any]:
    client = client or Client()
    return client, come_back(client, consent(go_to_provider(client, **query), sub))


class Forger:
    """A provider whose next ID token is ``claims`` changed by ``changes``, signed by ``key`` with ``algorithm``."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.other_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.changes: dict[str, Any] = {}
        self.signing: Any = self.key
        self.algorithm = "RS256"
        self.kid: str | None = "k1"
        self.nonce = ""
        self.seen: list[tuple[str, dict[str, list[str]]]] = []
        self.userinfo: dict[str, Any] = {}
        self.status = 200
        self.issuer = ""
        self.claimed_issuer = ""

    def make_token(self, **changes: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": "assay",
            "sub": "u-7",
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce,
            "preferred_username": "mallory",
            "groups": [],
        }
        claims = {
            name: value for name, value in (claims | self.changes | changes).items() if value is not None
        }
        headers = {"kid": self.kid} if self.kid else {}
        return jwt.encode(claims, self.signing, algorithm=self.algorithm, headers=headers)

    def make_logout_token(self, **changes: Any) -> str:
        base = {"events": {LOGOUT_EVENT: {}}, "jti": str(time.time()), "nonce": None, "sub": "u-7"}
        return self.make_token(**base | changes)

    def answer(self, path: str, form: dict[str, list[str]]) -> tuple[int, Any]:
        self.seen.append((path, form))
        if path.endswith("openid-configuration"):
            return 200, {
                "issuer": self.claimed_issuer or self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "jwks_uri": f"{self.issuer}/keys",
            }
        if path == "/keys":
            key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key())) | {
                "kid": "k1",
                "use": "sig",
                "alg": "RS256",
            }
            return 200, {"keys": [key]}
        if self.status != 200:
            return self.status, {"error": "invalid_grant"}
        if path == "/token":
            return 200, {
                "access_token": "a",
                "refresh_token": "r",
                "token_type": "Bearer",
                "id_token": self.make_token(),
            }
        return 200, self.userinfo


@contextmanager
def run_forger() -> Iterator[Forger]:
    forger = Forger()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            self._reply(parse_qs(body))

        def _reply(self, form: dict[str, list[str]]) -> None:
            status, document = forger.answer(urlsplit(self.path).path, form)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    forger.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    forget_provider()
    try:
        yield forger
    finally:
        server.shutdown()
        server.server_close()


def read_query(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def read_message(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())
