"""One side of ``page_pictures``: list a site's pages, or serve them. Runs on the code of any version.

    python pictured_site.py list PAGES.json COUNT   the addresses of each reader, at most COUNT of each kind
    python pictured_site.py list PAGES.json quick   one address of each route, for the first reader who reaches it
    python pictured_site.py serve PAGES.json PORT   serve the site; SESSIONS.json beside PAGES.json has who is signed in

A reader is the first person of each set of groups, an administrator, or nobody. Pages that no link leads to are asked
for with the parameters that other addresses have. The clock stands at the moment of the listing.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from html import unescape
from itertools import islice, product
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import NoReverseMatch, Resolver404, get_resolver, resolve, reverse  # noqa: E402
from django.utils import timezone  # noqa: E402

NOBODY = "nobody"
START = "/"
ENDS_SESSION = ("/sign-out/", "/language/")
NO_PAGES = (*ENDS_SESSION, "/api/", "/charts/")
MAX_PAGES = 600  # of one reader
MAX_TRIES = 4  # of an address that no link leads to
VIEWS = frozenset({"view", "tab", "step"})
LINK = re.compile(r'(?:href|hx-get|action)="([^"#]+)')

Parameters = defaultdict[str, dict[str, None]]
"""The values that a parameter of an address has somewhere, in the order of their discovery."""


def list_readers() -> dict[str, Any]:
    """Name and account: the first of each set of groups among the people who can sign in."""
    readers: dict[str, Any] = {NOBODY: None}
    seen = set()
    people = get_user_model().objects.filter(is_active=True).order_by("username")
    for person in people:
        groups = frozenset(person.groups.values_list("name", flat=True)) | {person.is_superuser}
        if groups not in seen:
            seen.add(groups)
            readers[person.username] = person
    return readers


def make_client(person: Any) -> Client:
    client = Client(SERVER_NAME="localhost", headers={"Accept-Language": "en"}, raise_request_exception=False)
    if person is not None:
        client.force_login(person, backend=settings.AUTHENTICATION_BACKENDS[0])
    return client


def read_page(client: Client, path: str) -> str:
    """The HTML of a whole page; blank for anything else."""
    response = client.get(path, follow=True)
    if response.streaming or "html" not in response.headers.get("Content-Type", ""):
        response.close()
        return ""
    content: str = response.content.decode("utf-8", "replace")
    return content if "<html" in content else ""


def list_links(content: str, path: str) -> Iterator[str]:
    for link in LINK.findall(content):
        url = urlsplit(urljoin(path, unescape(link)))
        if not url.scheme and not url.netloc and not url.path.startswith(("/static/", *ENDS_SESSION)):
            yield url.path + (f"?{url.query}" if url.query else "")


def kind_of(path: str, parameters: Parameters) -> str:
    """The name of the route with the names of the query; pages of one kind differ in their data alone."""
    url = urlsplit(path)
    try:
        match = resolve(url.path)
    except Resolver404:
        return ""
    for name, value in match.kwargs.items():
        parameters[name][str(value)] = None
    query = parse_qsl(url.query)
    words = sorted(f"{name}={value}" if name in VIEWS else name for name, value in query)
    return f"{match.view_name}?{'&'.join(words)}"


def route_of(kind: str) -> str:
    """The route and the view of it, whatever else the query has."""
    route, _mark, query = kind.partition("?")
    return "?".join([route, *(word for word in query.split("&") if "=" in word)])


def crawl(client: Client, count: int, counts: Counter[str], parameters: Parameters) -> dict[str, str]:
    """Address and kind of each page that a link leads to from the start page."""
    waiting, pages = deque([START, "/no-such-page/"]), {}
    tried = set()
    while waiting and len(pages) < MAX_PAGES:
        path = waiting.popleft()
        if path in tried:
            continue
        tried.add(path)
        kind = kind_of(path, parameters)
        counted = kind if count else route_of(kind)
        is_due = counts[counted] < max(count, 1) or path == START
        if is_due and (content := read_page(client, path)):
            counts[counted] += 1
            pages[path] = kind
            waiting.extend(list_links(content, path))
    return pages


def list_routes() -> dict[str, tuple[str, ...]]:
    """The names of the product's routes with their parameters."""
    routes = {}
    for name in get_resolver().reverse_dict:
        if isinstance(name, str):
            for possibility, *_rest in get_resolver().reverse_dict.getlist(name):
                routes[name] = tuple(possibility[0][1])
    return routes


def fill_route(name: str, route: tuple[str, ...], parameters: Parameters) -> Iterator[str]:
    choices = product(*(parameters[parameter] for parameter in route))
    for values in islice(choices, MAX_TRIES):
        try:
            yield reverse(name, kwargs=dict(zip(route, values, strict=True)))
        except NoReverseMatch:
            continue


def find_reader(paths: Iterable[str], clients: dict[str, Client]) -> tuple[str, str] | None:
    """The first reader for whom one of the addresses is a page, with that address."""
    for path in paths:
        for reader, client in clients.items():
            status = client.get(path).status_code
            if status == 405:
                return None  # an action, whatever its parameters
            if status == 200 and read_page(client, path):
                return reader, path
    return None


def add_unlinked(
    readers: dict[str, dict[str, str]], clients: dict[str, Client], parameters: Parameters
) -> list[str]:
    """Add the pages of routes that no link led to; the names of the routes that have no page for anybody."""
    opened = {kind.partition("?")[0] for pages in readers.values() for kind in pages.values()}
    unopened = []
    for name, routes in sorted(list_routes().items()):
        if name in opened:
            continue
        paths = [path for path in fill_route(name, routes, parameters) if not path.startswith(NO_PAGES)]
        page = find_reader(paths, clients)
        if page is None:
            unopened.append(name)
        else:
            readers[page[0]][page[1]] = f"{name}?"
    return unopened


def list_site(count: int) -> dict[str, Any]:
    """The pages of each reader; with a count of 0 each route once for all of them together."""
    parameters: Parameters = defaultdict(dict)
    clients = {name: make_client(person) for name, person in list_readers().items()}
    shared: Counter[str] = Counter()
    readers = {
        name: crawl(client, count, Counter() if count else shared, parameters)
        for name, client in clients.items()
    }
    unopened = add_unlinked(readers, clients, parameters)
    return {"readers": readers, "unopened": unopened}


def make_session(person: Any) -> str:
    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.create()
    return str(session.session_key)


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the library)
        """A page is no news."""


def serve(sessions: Path, port: int) -> None:
    from config.wsgi import application

    people = {name: person for name, person in list_readers().items() if person is not None}
    sessions.write_text(json.dumps({name: make_session(person) for name, person in people.items()}))
    server = make_server(
        "127.0.0.1", port, application, server_class=ThreadedServer, handler_class=SilentHandler
    )
    server.serve_forever()


if __name__ == "__main__":
    action, pages_file = sys.argv[1], Path(sys.argv[2])
    moment = (
        timezone.now()
        if action == "list"
        else datetime.fromisoformat(json.loads(pages_file.read_text())["moment"])
    )
    timezone.now = lambda: moment
    if action == "list":
        listing = {
            "moment": moment.isoformat(),
            **list_site(0 if sys.argv[3] == "quick" else int(sys.argv[3])),
        }
        pages_file.write_text(json.dumps(listing, ensure_ascii=False, indent=1))
    else:
        serve(pages_file.with_name("sessions.json"), int(sys.argv[3]))
