from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import translation

from annotation.domain.permissions import ACTS, ROLES, UNGUARDED, Act
from annotation.management.base import AssayCommand


@dataclass(frozen=True)
class Address:
    name: str
    route: str
    act: str
    """The key of an act in ``ACTS``; empty where none guards the address."""
    audience: str
    """Who may open it: the roles, or a word of ``UNGUARDED``."""


class Command(AssayCommand):
    help = "Print who may do what: acts and addresses by role, as Markdown. docs/permissions.md holds this."

    def needs_study(self, _options: dict[str, Any]) -> bool:
        return False

    def act(self, **_options: Any) -> dict[str, Any]:
        acts = [
            {"act": key, "name": act.name, "roles": list(act.roles), "is_of_site": act.is_of_site}
            for key, act in ACTS.items()
        ]
        return {"acts": acts, "addresses": [vars(address) for address in list_addresses()]}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write("\n".join(render_tables(data)))


def list_addresses(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[Address]:
    """Every address of the product but for Django's admin. AssertionError for one that no rule is about."""
    for pattern in (resolver or get_resolver()).url_patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if pattern.app_name != "admin":
                yield from list_addresses(pattern, route)
        else:
            yield describe_address(pattern, route)


def describe_address(pattern: URLPattern, route: str) -> Address:
    name, view = str(pattern.name), pattern.callback
    act = getattr(view, "act", None) or getattr(getattr(view, "cls", None), "act", None)
    if isinstance(act, Act):
        key = next(key for key, listed in ACTS.items() if listed is act)
        return Address(name, f"/{route}", key, ", ".join(act.roles))
    assert name in UNGUARDED, f"no rule says who may open {name} (/{route})"
    return Address(name, f"/{route}", "", UNGUARDED[name])


def render_tables(data: dict[str, Any]) -> Iterator[str]:
    with translation.override("en"):
        yield f"| act | {' | '.join(ROLES)} |"
        yield "|---" * (len(ROLES) + 1) + "|"
        for act in data["acts"]:
            marks = ["yes" if role in act["roles"] else "" for role in ROLES]
            site = "; among several studies an admin alone" if act["is_of_site"] else ""
            yield f"| {act['name']}{site} | {' | '.join(marks)} |"
        yield ""
        yield "| address | act | who |"
        yield "|---|---|---|"
        names = {act["act"]: act["name"] for act in data["acts"]}
        for address in data["addresses"]:
            yield f"| `{address['route']}` | {names.get(address['act'], '')} | {address['audience']} |"
