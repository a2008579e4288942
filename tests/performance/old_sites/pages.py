"""What each person of a site reads on each page, in both languages. Runs on the code of any version.

    python pages.py PAGES.json                crawl from the start page along all links
    python pages.py PAGES.json --of OLD.json  ask for the addresses that OLD.json names, following redirects

A page is kept as the words that it shows, so that markup may change without a difference. Both readings have the same
clock, so that "two minutes ago" stays so.
"""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

LANGUAGES = ("en", "zh-hans")
MAX_PAGES = 250  # of one person in one language; more of the same kind tell nothing new
MAX_OF_A_KIND = 4
ENDS_SESSION = ("/sign-out/", "/language/")
HIDDEN = re.compile(r"<(script|style|svg|head)\b.*?</\1>|<!--.*?-->", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def shown_words(content: str) -> str:
    return " ".join(unescape(TAG.sub(" ", HIDDEN.sub(" ", content))).split())


def client_of(person: Any, language: str) -> Client:
    client = Client(
        SERVER_NAME="localhost", headers={"Accept-Language": language}, raise_request_exception=False
    )
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def links(content: str, path: str) -> Iterator[str]:
    for link in re.findall(r'(?:href|hx-get)="([^"#]+)', content):
        address = urlsplit(urljoin(path, unescape(link)))
        if (
            not address.scheme
            and not address.netloc
            and not address.path.startswith(("/static/", *ENDS_SESSION))
        ):
            yield address.path + (f"?{address.query}" if address.query else "")


def kind(path: str) -> str:
    """Pages of one kind differ in numbers and names alone."""
    parts = urlsplit(path)
    shape = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|\d+", "#", parts.path)
    return shape + "?" + "&".join(sorted(re.findall(r"([^&=]+)=", parts.query)))


def read(client: Client, path: str) -> dict[str, Any]:
    answer = client.get(path, follow=True)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    media = answer.headers.get("Content-Type", "")
    text = content.decode("utf-8", "replace")
    words = shown_words(text) if "html" in media else f"{media}, {len(content)} bytes"
    if "json" in media or "text/plain" in media or "csv" in media:
        words = text
    return {"status": answer.status_code, "words": words, "html": text if "html" in media else ""}


def crawl(client: Client) -> dict[str, dict[str, Any]]:
    waiting, pages = deque(["/"]), {}
    kinds: dict[str, int] = {}
    while waiting and len(pages) < MAX_PAGES:
        path = waiting.popleft()
        if path in pages or kinds.get(kind(path), 0) >= MAX_OF_A_KIND:
            continue
        kinds[kind(path)] = kinds.get(kind(path), 0) + 1
        page = read(client, path)
        waiting.extend(links(page.pop("html"), path))
        pages[path] = page
    return pages


def read_again(client: Client, old: dict[str, Any]) -> dict[str, dict[str, Any]]:
    pages = {}
    for path in old:
        pages[path] = read(client, path)
        del pages[path]["html"]
    return pages


def read_site(old: dict[str, Any] | None) -> dict[str, Any]:
    site = {}
    for person in get_user_model().objects.filter(is_active=True).order_by("username"):
        if not person.has_usable_password():
            continue
        for language in LANGUAGES:
            reader = f"{person.username} {language}"
            if old is not None and reader not in old:
                continue
            client = client_of(person, language)
            site[reader] = crawl(client) if old is None else read_again(client, old[reader])
    return site


if __name__ == "__main__":
    before = json.loads(Path(sys.argv[3]).read_text()) if sys.argv[2:3] == ["--of"] else None
    moment = datetime.fromisoformat(before["read_at"]) if before else timezone.now()
    timezone.now = lambda: moment
    readers = read_site(before["readers"] if before else None)
    site = {"read_at": moment.isoformat(), "readers": readers}
    Path(sys.argv[1]).write_text(json.dumps(site, ensure_ascii=False))
