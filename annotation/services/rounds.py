"""What a manager makes of somebody's round: lets them in whatever came out of it, or gives them another."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from annotation.errors import N_, AssayError, Conflict, NotFound
from annotation.models import Assignment, Batch, KnownTask, Membership, Person, Qualification, Task
from annotation.services.audit import record
from annotation.services.distribution import end_claims
from annotation.services.known_answers import close, withdraw
from annotation.services.qualifications import running_round

State = Qualification.State
LONGEST_REASON = 500


@transaction.atomic
def let_in(*, batch: Batch, person: Person, reason: str, actor: Person | None = None) -> Qualification:
    """Whatever came out of the round, or would: the work is theirs from now on. Saying it twice changes nothing."""
    member, found = _locked(batch, person, reason)
    if found.state in (State.PASSED, State.WAIVED):
        return found
    _leave_the_rest(member, found)
    found.state, found.decided_by = State.WAIVED, actor
    found.ended_at = found.ended_at or timezone.now()
    found.save()
    told = {"person": person.username, "attempt": found.attempt, "reason": reason}
    record(actor=actor, verb="qualification_waived", target=f"batch:{batch.name}", **told)
    return found


@transaction.atomic
def another_round(*, batch: Batch, person: Person, reason: str, actor: Person | None = None) -> Qualification:
    """For somebody who failed: with items that they have not had, if there are enough of these."""
    _member, found = _locked(batch, person, reason)
    if found.state == State.RUNNING:
        return found
    if found.state != State.FAILED:
        raise Conflict(N_("{name} was let in already."), name=str(person))
    again = Qualification.objects.create(
        batch=batch, person=person, attempt=found.attempt + 1, decided_by=actor
    )
    told = {"person": person.username, "attempt": again.attempt, "reason": reason}
    record(actor=actor, verb="qualification_again", target=f"batch:{batch.name}", **told)
    return again


def _locked(batch: Batch, person: Person, reason: str) -> tuple[Membership, Qualification]:
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise AssayError(N_("Say why, in at most {most} characters."), most=LONGEST_REASON)
    mine = Membership.objects.select_for_update(no_key=True).filter(
        batch=batch, person=person, role=Membership.Role.ANNOTATOR
    )
    member = mine.first()
    if member is None:
        raise NotFound(N_("{name} is not in the batch {batch}."), name=str(person), batch=batch.name)
    if not batch.qualifying:
        raise Conflict(N_("The batch {name} asks for no qualification."), name=batch.name)
    if batch.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed."), name=batch.name)
    member.batch, member.person = batch, person
    return member, running_round(member)


def _leave_the_rest(member: Membership, found: Qualification) -> None:
    """What was submitted of the round closes; what was not is taken back."""
    mine = KnownTask.objects.filter(
        person=found.person_id,
        attempt=found.attempt,
        item__batch=found.batch_id,
        task__kind=Task.Kind.QUALIFICATION,
        task__state=Task.State.OPEN,
    )
    tasks = sorted(mine.values_list("pk", flat=True))
    end_claims(Assignment.objects.filter(task__in=tasks))
    submitted = Assignment.objects.filter(task__in=tasks, state=Assignment.State.SUBMITTED)
    done = set(submitted.values_list("task", flat=True))
    close(sorted(done))
    withdraw(member.pk, tasks)
