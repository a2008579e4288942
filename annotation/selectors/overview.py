"""What needs a person now, over all batches and jobs: the first page of managers and researchers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import F, Q
from django.utils import timezone

from annotation.domain.permissions import MANAGE_BATCHES, MANAGE_WEBHOOKS
from annotation.models import ADJUDICATOR, Batch, Job, Person, Task
from annotation.selectors.access import (
    blind_batches,
    list_studies_to,
    may,
    sealed_batches,
    unconfirmed_closings,
)
from annotation.selectors.adjudication import select_disputed_at
from annotation.selectors.annotations.messages import count_unread_answers, count_waiting_threads
from annotation.selectors.annotations.own_work import count_drafts
from annotation.selectors.batches.monitoring import list_alarmed, list_stuck
from annotation.selectors.batches.needs import MAX_TOLD
from annotation.selectors.batches.own_progress import list_own_batches
from annotation.selectors.jobs import AT_WORK, list_visible_jobs
from annotation.selectors.webhooks.endpoints import list_given_up

LONG_WAIT = timedelta(days=3)
RECENT = timedelta(days=7)
MAX_JOBS = 5


@dataclass(frozen=True)
class PendingWork:
    """Something that needs the person in a study. ``name`` is that of a batch or release, ``n`` how many there are
    (``is_more``: and more; of a webhook its number), ``due`` when the batch is to be done. In words:
    ``templates/annotation/people/_pending.html``.
    """

    study: int
    code: str
    name: str = ""
    n: int = 0
    due: date | None = None
    is_more: bool = False


def list_pending_work(person: Person) -> list[PendingWork]:
    """The person's own labelling first, then the batches that they manage; in as many queries for several studies as
    for one.
    """
    managed = _list_managed(person) if may(person, MANAGE_BATCHES) else ()
    webhooks = _list_webhooks(person) if may(person, MANAGE_WEBHOOKS) else ()
    return [*_list_own(person), *managed, *webhooks]


def _list_own(person: Person) -> Iterator[PendingWork]:
    for progress in list_own_batches(person):
        if progress.left:
            code = "settle" if progress.role == ADJUDICATOR else "label"
            yield PendingWork(progress.batch.study_id, code, progress.batch.name, progress.left, progress.due)
    for study, n in count_drafts(person).items():
        yield PendingWork(study, "drafts", n=n)
    for study, n in count_unread_answers(person).items():
        yield PendingWork(study, "answers", n=n)


def _list_managed(person: Person) -> Iterator[PendingWork]:
    """Disputes only of batches that are not sealed for the person; agreement, stuck tasks and questions only where they
    may read results.
    """
    studies = list_studies_to(person, MANAGE_BATCHES)
    managed = Q() if studies is None else Q(study__in=studies)
    batches = list(Batch.objects.exclude(state=Batch.State.CLOSED).filter(managed))
    sealed = set(sealed_batches(person).values_list("pk", flat=True))
    blind = set(blind_batches(person).values_list("pk", flat=True))
    readable = [batch for batch in batches if batch.pk not in blind]
    alarmed, stuck = list_alarmed(readable), list_stuck(readable)
    questions = count_waiting_threads([batch.pk for batch in readable])
    disputes = _count_old_disputes([batch for batch in batches if batch.pk not in sealed])
    today = timezone.localdate()
    for batch in batches:
        if batch.pk in alarmed:
            yield PendingWork(batch.study_id, "alarm", batch.name)
        if disputes[batch.pk]:
            yield PendingWork(batch.study_id, "old_disputes", batch.name, disputes[batch.pk])
        if batch.pk in stuck:
            n = stuck[batch.pk]
            yield PendingWork(batch.study_id, "stuck", batch.name, min(n, MAX_TOLD), is_more=n > MAX_TOLD)
        if questions[batch.pk]:
            yield PendingWork(batch.study_id, "questions", batch.name, questions[batch.pk])
        if batch.state == Batch.State.OPEN and batch.due_date is not None and batch.due_date < today:
            yield PendingWork(batch.study_id, "overdue", batch.name, due=batch.due_date)
    unconfirmed = unconfirmed_closings().filter(managed).exclude(closed_by=person).order_by("name")
    for study, name in unconfirmed.values_list("study", "name"):
        yield PendingWork(study, "confirm", name)


def _list_webhooks(person: Person) -> Iterator[PendingWork]:
    """Those that were turned off because their receivers took nothing, until a manager turns them on or leaves them."""
    for endpoint in list_given_up(list_studies_to(person, MANAGE_WEBHOOKS)):
        if endpoint.study_id is not None:
            yield PendingWork(endpoint.study_id, "webhook", endpoint.host, endpoint.pk)


def _count_old_disputes(batches: list[Batch]) -> Counter[int]:
    """By batch, the disputes that have waited for longer than ``LONG_WAIT``."""
    disputed = Task.objects.filter(
        batch__in=[batch.pk for batch in batches], kind=Task.Kind.WORK, state=Task.State.DISPUTED
    )
    old = disputed.annotate(disputed_at=select_disputed_at()).filter(
        disputed_at__lt=timezone.now() - LONG_WAIT
    )
    return Counter(old.values_list("batch", flat=True))


def list_own_jobs(person: Person) -> list[Job]:
    """The latest jobs of the person in the studies in question that wait, run, or failed a short while ago."""
    at_work, failed = Q(state__in=AT_WORK), Q(state=Job.State.FAILED, finished_at__gt=timezone.now() - RECENT)
    return list(list_visible_jobs(person).filter(at_work | failed, created_by=person)[:MAX_JOBS])


def list_current_batches(*, limit: int) -> list[Batch]:
    """The batches that are not closed, the earliest due first."""
    current = Batch.objects.exclude(state=Batch.State.CLOSED).select_related("guideline")
    return list(current.order_by(F("due_date").asc(nulls_last=True), "-created_at")[:limit])
