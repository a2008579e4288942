from __future__ import annotations

from django.db.models import QuerySet

from annotation.errors import N_, NotFound
from annotation.models import Person


def roles_of(person: Person) -> frozenset[str]:
    """The names of the person's groups; one query a request."""
    cached: frozenset[str] | None = getattr(person, "_roles", None)
    if cached is None:
        cached = frozenset(person.groups.values_list("name", flat=True))
        person._roles = cached  # type: ignore[attr-defined]
    return cached


def people_named(names: list[str]) -> list[Person]:
    """The people of these names, in this order; an unknown name is an error."""
    found = {person.username: person for person in Person.objects.filter(username__in=names)}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise NotFound(N_("There is no person named {names}."), names=", ".join(unknown))
    return [found[name] for name in dict.fromkeys(names)]


def people_in_role(role: str) -> QuerySet[Person]:
    return Person.objects.filter(groups__name=role, is_active=True).order_by("username")
