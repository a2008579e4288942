"""A batch by its name, and the batches whose agreement a person may read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.models import Batch, Person, Stratum
from annotation.models.sql.assignments import find_batch
from annotation.selectors.access import (
    record_openings,
    refuse_sealed_gold,
    sealed_batches,
    sealed_datasets,
)


def get_working_batch(name: str) -> Batch:
    """The batch with what handing out and submitting ask of it; the rest is read when it is asked for."""
    batch = find_batch(name)
    if batch is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return batch


def filter_by_name(name: str) -> QuerySet[Batch]:
    """The one of this name, if there is one, with its guideline but for the document."""
    batches = Batch.objects.select_related("guideline").defer("guideline__content", "guideline__source")
    return batches.filter(name=name)


def get_batch(name: str) -> Batch:
    batch = filter_by_name(name).first()
    if batch is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return batch


def get_batches(names: Iterable[str]) -> list[Batch]:
    """Those of these names, each once."""
    return [get_batch(name) for name in dict.fromkeys(names)]


def open_readable_batches(person: Person, names: Sequence[str] = ()) -> QuerySet[Batch]:
    """The batches of these names, refused if any is sealed for the person; without one all that they may read. The
    person opens the results of these now.
    """
    if names:
        batches = get_batches(names)
        refuse_sealed_gold(person, batches)
        return Batch.objects.filter(pk__in=[batch.pk for batch in batches])
    readable = list_readable_batches(person)
    record_openings(person, readable.values_list("pk", flat=True))
    return readable


def list_readable_batches(person: Person) -> QuerySet[Batch]:
    """Those whose agreement the person may read, to be offered: naming them opens nothing.

    Not those on responses that they judge blind elsewhere: a report names the models.
    """
    # By strata, which are few: of a million tasks the question would take seconds.
    judged = Stratum.objects.filter(dataset__in=sealed_datasets(person).values("pk")).order_by()
    sealed = Q(pk__in=sealed_batches(person).values("pk")) | Q(pk__in=judged.values("batch"))
    return Batch.objects.exclude(sealed)


def list_unfinished_batches() -> QuerySet[Batch]:
    """Those that people can still join, the newest first."""
    return Batch.objects.exclude(state=Batch.State.CLOSED).order_by("-pk")
