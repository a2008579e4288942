"""The terms of a batch: the part of its policy that may still change while people work in it."""

from __future__ import annotations

from datetime import date

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Conflict, Forbidden
from annotation.domain.batch_spec import Terms
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Batch, Person
from annotation.selectors.access import sealed_batches
from annotation.services.audit import record


def may_set_threshold(batch: Batch, person: Person) -> bool:
    """Not whoever judges blind in a batch with labels: by raising the threshold until it alarms they would read off
    how well people agree. Nor what concerns gold checks: they would be told of each.
    """
    return batch.state == Batch.State.DRAFT or not sealed_batches(person).filter(pk=batch.pk).exists()


@transaction.atomic
def set_terms(*, batch: Batch, terms: Terms, actor: Person) -> Batch:
    """Change the terms of a batch that is not closed. A new lease is for the claims from now on."""
    locked = Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    if locked.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed; its policy stays as it is."), name=batch.name)
    changes = {name: value for name, value in terms.model_dump().items() if getattr(locked, name) != value}
    if "agreement_threshold" in changes and not may_set_threshold(locked, actor):
        raise Forbidden(
            N_("You judge blind in the batch {name}: ask another manager to set its agreement threshold."),
            name=batch.name,
        )
    if {"check_share", "check_feedback"} & changes.keys() and not may_set_threshold(locked, actor):
        raise Forbidden(
            N_("You judge blind in the batch {name}: ask another manager to change its gold checks."),
            name=batch.name,
        )
    if locked.state != Batch.State.DRAFT and {"qualifying", "qualifying_threshold"} & changes.keys():
        raise Conflict(
            N_("The batch {name} is open: its qualification stays as it is. A manager can let people in."),
            name=batch.name,
        )
    if locked.blocks_since is None and terms.closes_in_blocks(
        max(locked.overlap, 2 if locked.settles_at_end else 1)
    ):
        # For good: what was submitted stays to be told apart, whatever the share becomes.
        Batch.objects.filter(pk=batch.pk).update(blocks_since=timezone.now())
    if changes:
        Batch.objects.filter(pk=batch.pk).update(**changes)
        data = {name: str(value) if isinstance(value, date) else value for name, value in changes.items()}
        record(actor=actor, verb=AnnotationVerb.SET_TERMS, target=f"batch:{batch.name}", **data)
    batch.refresh_from_db()
    return batch
