from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from rest_framework.authtoken.models import Token

from annotation.errors import N_, AssayError, Conflict, Forbidden
from annotation.models import MANAGER, ROLES, Assignment, Membership, Person
from annotation.names import check_name
from annotation.services.audit import record
from annotation.services.distribution import end_claims


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
    check_name(name)
    if Person.objects.filter(username=name).exists():
        raise AssayError(N_("There is already a person named {name}."), name=name)
    person = Person(username=name, display_name=display_name)
    person.set_password(password or None)
    try:
        person.full_clean(exclude=["password"])
    except ValidationError as error:
        raise AssayError(
            N_("{name} cannot be a person's name: {why}"), name=repr(name), why=" ".join(error.messages)
        ) from error
    person.save()
    person.groups.set(_groups(roles))
    record(actor=actor, verb="add_person", target=f"person:{name}", roles=roles)
    return person


@transaction.atomic
def set_roles(*, person: Person, roles: Iterable[str], actor: Person | None = None) -> None:
    roles = list(roles)
    _refuse_unknown_roles(roles)
    _refuse_above(person, actor)
    if person == actor and not actor.is_superuser and MANAGER not in roles:
        raise Conflict(N_("You cannot take the manager's group from yourself; ask another manager."))
    person.groups.set(_groups(roles))
    record(actor=actor, verb="set_roles", target=f"person:{person.username}", roles=roles)


def api_token(*, person: Person) -> str:
    """The person's API token, made at the first call."""
    token, _created = Token.objects.get_or_create(user=person)
    return str(token.key)


@transaction.atomic
def renew_token(*, person: Person, actor: Person) -> str:
    """A new API token; the old one ends."""
    _refuse_above(person, actor)
    Token.objects.filter(user=person).delete()
    token = api_token(person=person)
    record(actor=actor, verb="renew_token", target=f"person:{person.username}")
    return token


@transaction.atomic
def revoke_token(*, person: Person, actor: Person) -> None:
    _refuse_above(person, actor)
    deleted, _by_model = Token.objects.filter(user=person).delete()
    if deleted:
        record(actor=actor, verb="revoke_token", target=f"person:{person.username}")


@transaction.atomic
def set_password(*, person: Person, password: str, actor: Person) -> None:
    """The new password ends the person's sessions."""
    _refuse_above(person, actor)
    person.set_password(password)
    person.save(update_fields=["password"])
    record(actor=actor, verb="set_password", target=f"person:{person.username}")


@transaction.atomic
def set_display_name(*, person: Person, display_name: str, actor: Person) -> None:
    _refuse_above(person, actor)
    if display_name == person.display_name:
        return
    person.display_name = display_name
    person.save(update_fields=["display_name"])
    record(
        actor=actor, verb="set_display_name", target=f"person:{person.username}", display_name=display_name
    )


@transaction.atomic
def deactivate_person(*, person: Person, actor: Person) -> int:
    """Shut a person out, sessions and token included, and give their live claims back. The number released.

    Everything that they submitted stays. Doing it twice changes nothing.
    """
    _refuse_above(person, actor)
    if person == actor:
        raise Conflict(N_("You cannot deactivate yourself; ask another manager."))
    # All memberships before any task: the order in which a claim locks them.
    list(Membership.objects.select_for_update().filter(person=person).order_by("pk").values_list("pk"))
    changed = Person.objects.filter(pk=person.pk, is_active=True).update(is_active=False)
    person.refresh_from_db(fields=["is_active"])
    if not changed:
        return 0
    released = end_claims(Assignment.objects.filter(person=person))
    record(actor=actor, verb="deactivate", target=f"person:{person.username}", released=released)
    return released


@transaction.atomic
def activate_person(*, person: Person, actor: Person) -> None:
    _refuse_above(person, actor)
    changed = Person.objects.filter(pk=person.pk, is_active=False).update(is_active=True)
    person.refresh_from_db(fields=["is_active"])
    if changed:
        record(actor=actor, verb="activate", target=f"person:{person.username}")


def _refuse_above(person: Person, actor: Person | None) -> None:
    """A manager has no power over an admin: else a new password would make them one."""
    if actor is not None and actor != person and person.is_superuser and not actor.is_superuser:
        raise Forbidden(N_("{name} is an admin: only an admin may change that."), name=str(person))


def _groups(roles: list[str]) -> list[Group]:
    """The roles' groups; one that somebody deleted is made again, so that no role is lost in silence."""
    return [Group.objects.get_or_create(name=role)[0] for role in roles]


def _refuse_unknown_roles(roles: list[str]) -> None:
    unknown = [role for role in roles if role not in ROLES]
    if unknown:
        raise AssayError(
            N_("There is no group {unknown}; the groups are {known}."),
            unknown=", ".join(unknown),
            known=", ".join(ROLES),
        )
