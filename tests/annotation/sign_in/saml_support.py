"""An identity provider of SAML 2.0 that runs here: it reads the request that a browser brings, signs an assertion with
its own key, and has the browser send it to the address that the request names.
"""

from __future__ import annotations

import base64
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from lxml import etree
from onelogin.saml2.utils import OneLogin_Saml2_Utils

from annotation.domain.sign_in.providers import RoleRule, SamlProvider

SHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
DIGEST = "http://www.w3.org/2001/04/xmlenc#sha256"
ASSERTION = (
    '<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="{id}" Version="2.0" IssueInstant="{now}">'
    "<saml:Issuer>{issuer}</saml:Issuer>"
    '<saml:Subject><saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent">{subject}</saml:NameID>'
    '<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer">'
    '<saml:SubjectConfirmationData NotOnOrAfter="{until}" Recipient="{acs}" InResponseTo="{request}"/>'
    "</saml:SubjectConfirmation></saml:Subject>"
    '<saml:Conditions NotBefore="{since}" NotOnOrAfter="{until}"><saml:AudienceRestriction>'
    "<saml:Audience>{audience}</saml:Audience></saml:AudienceRestriction></saml:Conditions>"
    '<saml:AuthnStatement AuthnInstant="{now}" SessionIndex="{session}"><saml:AuthnContext>'
    "<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>"
    "</saml:AuthnContext></saml:AuthnStatement>"
    "<saml:AttributeStatement>{attributes}</saml:AttributeStatement></saml:Assertion>"
)
RESPONSE = (
    '<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" '
    'xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="{id}" Version="2.0" IssueInstant="{now}" '
    'Destination="{acs}" InResponseTo="{request}"><saml:Issuer>{issuer}</saml:Issuer><samlp:Status>'
    '<samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>{assertion}</samlp:Response>'
)


def make_key() -> tuple[str, str]:
    """A private key and its certificate, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "idp.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret.decode(), certificate.public_bytes(encoding).decode()


class SamlDirectory:
    """``changes`` are of the next assertion: ``audience``, ``issuer``, ``request``, ``until``, ``acs``, ``subject``."""

    def __init__(self) -> None:
        self.key, self.certificate = make_key()
        self.other_key, self.other_certificate = make_key()
        self.entity_id = "https://idp.test/metadata"
        self.address = ""
        self.subject = "s-2002"
        self.attributes: dict[str, list[str]] = {
            "username": ["ada"],
            "name": ["Ada Zhang"],
            "groups": ["assay-managers"],
        }
        self.changes: dict[str, Any] = {}
        self.signs_with = (self.key, self.certificate)
        self.tampers: Any = None

    def make_provider(self, **changes: Any) -> SamlProvider:
        values: dict[str, Any] = {
            "kind": "saml",
            "name": "campus",
            "title": "the campus",
            "entity_id": self.entity_id,
            "sso_url": self.address,
            "certificate": self.certificate,
            "roles": (RoleRule(group="assay-managers", study="default", roles=("manager",)),),
        }
        return SamlProvider(**values | changes)

    def answer(self, saml_request: str) -> tuple[str, str]:
        """The address to which the browser brings the answer, and the answer in base64."""
        request = etree.fromstring(zlib.decompress(base64.b64decode(saml_request), -15))
        acs = request.get("AssertionConsumerServiceURL")
        audience = request.findtext("{urn:oasis:names:tc:SAML:2.0:assertion}Issuer")
        now = datetime.now(UTC)
        values: dict[str, Any] = {
            "issuer": self.entity_id,
            "acs": acs,
            "audience": audience,
            "request": request.get("ID"),
            "subject": self.subject,
            "session": f"i-{uuid4().hex}",
            "now": _stamp(now),
            "since": _stamp(now - timedelta(minutes=1)),
            "until": _stamp(now + timedelta(minutes=5)),
        }
        values |= self.changes
        attributes = "".join(
            f'<saml:Attribute Name="{name}">'
            + "".join(f"<saml:AttributeValue>{escape(text)}</saml:AttributeValue>" for text in texts)
            + "</saml:Attribute>"
            for name, texts in self.attributes.items()
        )
        assertion = ASSERTION.format(id=f"a-{uuid4().hex}", attributes=attributes, **values)
        if self.signs_with is not None:
            signed = OneLogin_Saml2_Utils.add_sign(assertion, *self.signs_with, False, SHA256, DIGEST)
            assertion = signed.decode() if isinstance(signed, bytes) else signed
        if self.tampers:
            assertion = self.tampers(assertion)
        assertion = assertion.removeprefix('<?xml version="1.0" encoding="UTF-8"?>').strip()
        response = RESPONSE.format(id=f"r-{uuid4().hex}", assertion=assertion, **values)
        return acs, base64.b64encode(response.encode()).decode()


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def run_saml_directory() -> Iterator[SamlDirectory]:
    directory = SamlDirectory()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            acs, response = directory.answer(query["SAMLRequest"][0])
            state = escape(query.get("RelayState", [""])[0])
            page = (
                f'<form method="post" action="{escape(acs)}"><input name="SAMLResponse" value="{response}">'
                f'<input name="RelayState" value="{state}"><button>Sign in as {directory.subject}</button></form>'
            )
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    directory.address = f"http://127.0.0.1:{server.server_port}/sso"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield directory
    finally:
        server.shutdown()
        server.server_close()
