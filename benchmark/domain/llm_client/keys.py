"""Addresses that requests may go to, and the keys that belong to them.

A key is named by the host that it is for, so that it cannot be sent to another one: a person who may name an address
on a command line cannot choose the key that goes there.
"""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from annotation.core.errors import N_, AssayError

PREFIX = "ASSAY_KEY_"
HIDDEN = "[key]"
MAX_URL_CHARACTERS = 500
MIN_HIDDEN_CHARACTERS = 16
"""A key at least this long is no word that an answer could hold by chance."""
USUAL_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\uffff\\]")


def check_endpoint(url: str) -> str:
    """The address as it is kept: lower-case host, no slash at the end, the usual port left out. AssayError else."""
    if not url or len(url) > MAX_URL_CHARACTERS or _UNSAFE.search(url):
        raise AssayError(
            N_(
                "This is no address of an endpoint: write http:// or https://, in ASCII without blanks,"
                " at most {longest} characters."
            ),
            longest=MAX_URL_CHARACTERS,
        )
    try:
        parts = urlsplit(url)
        host, port = _read_host(parts), parts.port
    except ValueError:
        host, port, parts = "", None, SplitResult("", "", "", "", "")
    if parts.scheme not in USUAL_PORTS or not host:
        raise AssayError(N_("Write the endpoint as http://HOST:PORT/v1 or https://HOST/v1."))
    if "@" in parts.netloc:
        raise AssayError(
            N_(
                "An endpoint's address has no user or password in it; a key comes from the environment: {name}."
            ),
            name=_build_name(host, port if port != USUAL_PORTS[parts.scheme] else None),
        )
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise AssayError(N_("An endpoint's address has no ? and no # in it: a key would be kept with it."))
    bracketed = f"[{host}]" if ":" in host else host
    netloc = bracketed if port in {None, USUAL_PORTS[parts.scheme]} else f"{bracketed}:{port}"
    path = re.sub(r"/chat/completions$", "", parts.path.rstrip("/"))
    return f"{parts.scheme}://{netloc}{path}"


def build_key_name(url: str) -> str:
    """The environment variable that holds the key for this address."""
    parts = urlsplit(check_endpoint(url))
    return _build_name(_read_host(parts), parts.port)


def find_key(url: str) -> str | None:
    """The key for this address; None where there is none, and for a host with ``_``, which would share a name.

    AssayError where there is one that may not be sent: over plain HTTP to another machine, or no header can carry it.
    """
    name = build_key_name(url)
    key = os.environ.get(name, "").strip()
    parts = urlsplit(check_endpoint(url))
    if not key or "_" in _read_host(parts):
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise AssayError(N_("{name} holds characters that no key has; write it again."), name=name)
    if parts.scheme != "https" and not is_loopback(_read_host(parts)):
        raise AssayError(
            N_("{name} is set, and a key is sent over HTTPS or to this machine alone: write https://."),
            name=name,
        )
    return key


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def hide_key(text: str, key: str | None, *, min_length: int = 1) -> str:
    """The text, in which no key of at least ``min_length`` characters stands."""
    return text.replace(key, HIDDEN) if key and len(key) >= min_length else text


def _read_host(parts: SplitResult) -> str:
    """The host in lower case, "" for what is none; an address of IPv6 in its short form, without brackets."""
    host = (parts.hostname or "").removesuffix(".").lower()
    labels = host.split(".")
    if ":" in host or labels[-1].isdecimal():
        return str(ip_address(host))
    return host if all(map(_LABEL.fullmatch, labels)) else ""


def _build_name(host: str, port: int | None) -> str:
    """A dot is ``_``, a hyphen ``__``, a colon (of IPv6) ``___``: no two hosts share one."""
    word = host.replace("-", "__").replace(":", "___").replace(".", "_").upper()
    return f"{PREFIX}{word}" + (f"_{port}" if port is not None else "")
