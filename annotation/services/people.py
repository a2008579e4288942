from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from rest_framework.authtoken.models import Token

from annotation.errors import N_, AssayError
from annotation.models import ROLES, Person
from annotation.services.audit import record


@transaction.atomic
def add_person(
    *,
    name: str,
    roles: Iterable[str] = (),
    password: str | None = None,
    display_name: str = "",
    actor: Person | None = None,
) -> Person:
    """Make a person. Without a password they cannot sign in, only hold what was made elsewhere or use a token."""
    roles = list(roles)
    _refuse_unknown_roles(roles)
    if Person.objects.filter(username=name).exists():
        raise AssayError(N_("There is already a person named {name}."), name=name)
    person = Person(username=name, display_name=display_name)
    person.set_password(password)
    try:
        person.full_clean(exclude=["password"])
    except ValidationError as error:
        raise AssayError(
            N_("{name} cannot be a person's name: {why}"), name=repr(name), why=" ".join(error.messages)
        ) from error
    person.save()
    person.groups.set(Group.objects.filter(name__in=roles))
    record(actor=actor, verb="add_person", target=f"person:{name}", roles=roles)
    return person


@transaction.atomic
def set_roles(*, person: Person, roles: Iterable[str], actor: Person | None = None) -> None:
    roles = list(roles)
    _refuse_unknown_roles(roles)
    person.groups.set(Group.objects.filter(name__in=roles))
    record(actor=actor, verb="set_roles", target=f"person:{person.username}", roles=roles)


def api_token(*, person: Person) -> str:
    """The person's API token, made at the first call."""
    token, _created = Token.objects.get_or_create(user=person)
    return str(token.key)


def _refuse_unknown_roles(roles: list[str]) -> None:
    unknown = [role for role in roles if role not in ROLES]
    if unknown:
        raise AssayError(
            N_("There is no group {unknown}; the groups are {known}."),
            unknown=", ".join(unknown),
            known=", ".join(ROLES),
        )
