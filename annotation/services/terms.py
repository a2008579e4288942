"""The terms of a batch: what of its policy may still change while people work in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date

from django.db import transaction
from django.utils import timezone

from annotation.errors import N_, AssayError, Conflict, Forbidden
from annotation.models import MOST_CHECKS, Batch, Person
from annotation.selectors.blindness import sealed_batches
from annotation.services.audit import record

LONGEST_WAIT = 365  # days until a second reading


@dataclass(frozen=True)
class Terms:
    """The lease in seconds; when it is due; when its agreement alarms (``docs/decisions/agreement-alarm.md``); how
    many of the decided disputes, from 0 to 1, come back to their adjudicator after how many days; how many of the items
    are gold checks, and whether people are told after them; and the qualification before the work, which stays as it is
    once the batch is open (``docs/gold-questions.md``).
    """

    lease_seconds: int = 1800
    due_date: date | None = None
    agreement_threshold: float | None = None
    alarm_action: str = Batch.AlarmAction.TELL
    second_reading_share: float = 0.05
    second_reading_days: int = 14
    check_share: float = 0
    check_feedback: bool = False
    qualifying: str = Batch.Qualifying.NONE
    qualifying_threshold: float | None = None


def closes_in_blocks(terms: Terms, overlap: int) -> bool:
    """Whether closings would tell gold checks from work: not where all closes at once, nor where people are told."""
    return terms.check_share > 0 and not terms.check_feedback and overlap > 1


def check_terms(terms: Terms) -> None:
    if terms.lease_seconds < 1:
        raise AssayError(N_("The lease is at least one second."))
    threshold = terms.agreement_threshold
    if threshold is not None and not -1 <= threshold <= 1:
        raise AssayError(
            N_("The agreement threshold is {threshold}; choose -1 to 1, as in 0.667."), threshold=threshold
        )
    if terms.alarm_action not in Batch.AlarmAction.values:
        raise AssayError(
            N_("There is no alarm {action}; choose one of: {known}."),
            action=terms.alarm_action,
            known=", ".join(Batch.AlarmAction.values),
        )
    if not 0 <= terms.second_reading_share <= 1:
        raise AssayError(N_("The share of second readings is from 0 to 1."))
    if not 0 <= terms.second_reading_days <= LONGEST_WAIT:
        raise AssayError(N_("A second reading waits from 0 to {most} days."), most=LONGEST_WAIT)
    if not 0 <= terms.check_share <= MOST_CHECKS:
        raise AssayError(N_("The share of gold checks is from 0 to {most}."), most=MOST_CHECKS)
    _check_qualification(terms)


def _check_qualification(terms: Terms) -> None:
    by, threshold = terms.qualifying, terms.qualifying_threshold
    if by not in Batch.Qualifying.values:
        raise AssayError(
            N_("There is no qualification by {by}; choose one of: {known}."),
            by=by,
            known=", ".join(filter(None, Batch.Qualifying.values)),
        )
    if bool(by) != (threshold is not None):
        raise AssayError(
            N_("A qualification needs both: by what it is measured, and the threshold to be reached.")
        )
    lowest = -1 if by == Batch.Qualifying.KAPPA else 0
    if threshold is not None and not lowest <= threshold <= 1:
        raise AssayError(
            N_("The threshold of the qualification is {threshold}; choose {lowest} to 1, as in 0.8."),
            threshold=threshold,
            lowest=lowest,
        )


def may_set_threshold(batch: Batch, person: Person) -> bool:
    """Not whoever judges blind in a batch with labels: by raising the threshold until it alarms they would read off
    how well people agree. Nor what concerns gold checks: they would be told of each.
    """
    return batch.state == Batch.State.DRAFT or not sealed_batches(person).filter(pk=batch.pk).exists()


@transaction.atomic
def set_terms(*, batch: Batch, terms: Terms, actor: Person) -> Batch:
    """Change the terms of a batch that is not closed. A new lease is for the claims from now on."""
    check_terms(terms)
    locked = Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    if locked.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed; its policy stays as it is."), name=batch.name)
    changes = {name: value for name, value in asdict(terms).items() if getattr(locked, name) != value}
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
    if locked.blocks_since is None and closes_in_blocks(terms, locked.overlap):
        # For good: what was submitted stays to be told apart, whatever the share becomes.
        Batch.objects.filter(pk=batch.pk).update(blocks_since=timezone.now())
    if changes:
        Batch.objects.filter(pk=batch.pk).update(**changes)
        told = {name: str(value) if isinstance(value, date) else value for name, value in changes.items()}
        record(actor=actor, verb="set_terms", target=f"batch:{batch.name}", **told)
    batch.refresh_from_db()
    return batch
