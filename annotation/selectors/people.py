from __future__ import annotations

from django.db.models import Count, Q, QuerySet

from annotation.errors import N_, NotFound
from annotation.models import Batch, Membership, Person


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


def person_named(name: str) -> Person:
    return people_named([name])[0]


def everybody() -> QuerySet[Person]:
    """All people with their groups, and the number of unclosed batches in which they work."""
    working = Q(memberships__active=True) & ~Q(memberships__batch__state=Batch.State.CLOSED)
    batches = Count("memberships__batch", filter=working, distinct=True)
    return (
        Person.objects.prefetch_related("groups").annotate(batches=batches).order_by("-is_active", "username")
    )


def memberships_of(person: Person) -> QuerySet[Membership]:
    return (
        Membership.objects.filter(person=person)
        .select_related("batch")
        .order_by("-batch__created_at", "role")
    )
