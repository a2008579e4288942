"""Who may act in a role: the one rule of pages, programs and services. Membership in a batch is asked for besides.

The annotation loop asks it in the statements that it sends anyway and after its locks (``HAS_ROLE`` of models/sql.py):
a role that was taken away in the meantime counts no more.
"""

from __future__ import annotations

from typing import NoReturn

from django.db.models import Exists, OuterRef, Q

from annotation.errors import N_, Forbidden
from annotation.models import ADJUDICATOR, ANNOTATOR, Person

WITHOUT_ROLE = {
    ANNOTATOR: N_("You are not among the annotators, or no longer. Ask a manager."),
    ADJUDICATOR: N_("You are not among the adjudicators, or no longer. Ask a manager."),
}


def roles_of(person: Person) -> frozenset[str]:
    """The names of the person's groups; one query a request."""
    cached: frozenset[str] | None = getattr(person, "_roles", None)
    if cached is None:
        cached = frozenset(person.groups.values_list("name", flat=True))
        person._roles = cached  # type: ignore[attr-defined]
    return cached


def has_role(person: Person, *roles: str) -> bool:
    """Whether the person has any of these roles, as their groups were when this request first asked."""
    return person.is_superuser or not roles_of(person).isdisjoint(roles)


def who_has_role(role: str | OuterRef) -> Q:
    """The same of a queryset whose rows have a ``person``; the ``role`` may be a column of theirs."""
    groups = Person.groups.through.objects.filter(person=OuterRef("person"), group__name=role)
    return Q(person__is_active=True) & (Q(person__is_superuser=True) | Q(Exists(groups)))


def refuse_without_role(person: Person, role: str) -> None:
    """Raise Forbidden unless the person has the role now."""
    now = Person.objects.only("is_superuser").filter(pk=person.pk, is_active=True).first()
    if now is None or not has_role(now, role):
        refuse_role(role)


def refuse_role(role: str) -> NoReturn:
    raise Forbidden(WITHOUT_ROLE[role])
