from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from annotation.errors import N_, NotFound
from annotation.models import Batch, Membership, Person
from annotation.selectors.blindness import sealed_batches
from annotation.selectors.counts import by_stratum
from annotation.selectors.eligibility import strata_ruled_out


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


def everybody(words: str = "", role: str = "") -> QuerySet[Person]:
    """People with their groups: all, or those with ``words`` in a name of theirs, and those of a role."""
    found = Person.objects.prefetch_related("groups").order_by("-is_active", "username")
    if words:
        found = found.filter(Q(username__icontains=words) | Q(display_name__icontains=words))
    return found.filter(groups__name=role) if role else found


@dataclass(frozen=True)
class Consequence:
    """Of the ``items`` of a batch that are not settled, ``ruled_out`` are not for a person who annotates there."""

    batch: Batch
    items: int
    ruled_out: int


def consequences(person: Person, *, reader: Person) -> list[Consequence]:
    """What a person's languages, own models and exclusions mean in the batches where they annotate now; nothing of
    the batches in which ``reader`` judges blind.
    """
    memberships = (
        Membership.objects.filter(person=person, role=Membership.Role.ANNOTATOR, active=True)
        .exclude(batch__state=Batch.State.CLOSED)
        .exclude(batch__in=sealed_batches(reader))
        .select_related("batch", "person")
        .order_by("-batch__created_at")
    )
    found = []
    for one in memberships:
        ruled_out = set(strata_ruled_out(one))
        if ruled_out:
            items = {stratum.pk: counts["open"] for stratum, counts in by_stratum([one.batch_id]).items()}
            lost = sum(number for stratum, number in items.items() if stratum in ruled_out)
            found.append(Consequence(one.batch, sum(items.values()), lost))
    return [one for one in found if one.ruled_out]
