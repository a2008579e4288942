from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from django.db import transaction
from django.db.models import QuerySet

from annotation.errors import N_, AssayError, Conflict
from annotation.models import (
    MAX_OVERLAP,
    Assignment,
    Batch,
    Dataset,
    EvaluatedModel,
    Guideline,
    Membership,
    Person,
    Response,
    Task,
)
from annotation.names import check_name
from annotation.services.audit import record
from annotation.services.distribution import end_claims

CHUNK = 2000
MOVES = {
    Batch.State.DRAFT: {Batch.State.OPEN, Batch.State.CLOSED},
    Batch.State.OPEN: {Batch.State.PAUSED, Batch.State.CLOSED},
    Batch.State.PAUSED: {Batch.State.OPEN, Batch.State.CLOSED},
    Batch.State.CLOSED: set(),
}


@dataclass(frozen=True)
class Policy:
    """How a batch hands out its tasks. ``tolerance`` is in scale units, the lease in seconds."""

    overlap: int = 2
    pairing: str = Batch.Pairing.POOL
    tolerance: float = 0
    lease_seconds: int = 1800
    due_date: date | None = None


@transaction.atomic
def create_batch(
    *,
    name: str,
    guideline: Guideline,
    dataset: Dataset,
    models: Sequence[EvaluatedModel] = (),
    collection: str | None = None,
    annotators: Sequence[Person] = (),
    adjudicators: Sequence[Person] = (),
    policy: Policy = Policy(),
    open_now: bool = True,
    actor: Person | None = None,
) -> Batch:
    """Make a batch of the dataset's responses (of all models, or of ``models``), prompt by prompt."""
    _check_policy(policy, annotators, open_now=open_now)
    if not guideline.is_published:
        raise AssayError(N_("The guideline {guideline} is not published yet."), guideline=str(guideline))
    batch = new_batch(name=name, guideline=guideline, policy=policy, actor=actor)
    for role, people in (("annotator", annotators), ("adjudicator", adjudicators)):
        add_members(batch=batch, role=role, people=people)
    responses = responses_for(dataset=dataset, models=models, collection=collection)
    _refuse_unknown_dimensions(guideline, responses)
    count = add_tasks(batch=batch, responses=responses.iterator(chunk_size=CHUNK))
    if not count:
        raise AssayError(N_("The dataset {dataset} has no responses of these models."), dataset=dataset.name)
    if open_now:
        set_state(batch=batch, state=Batch.State.OPEN, actor=actor)
    return batch


def new_batch(*, name: str, guideline: Guideline, policy: Policy, actor: Person | None) -> Batch:
    given = {"guideline": guideline, "created_by": actor, **policy.__dict__}
    batch, created = Batch.objects.get_or_create(name=check_name(name), defaults=given)
    if not created:
        raise AssayError(N_("There is already a batch named {name}."), name=name)
    record(actor=actor, verb="create_batch", target=f"batch:{name}", guideline=str(guideline))
    return batch


def add_members(*, batch: Batch, role: str, people: Iterable[Person]) -> None:
    for person in people:
        Membership.objects.update_or_create(batch=batch, person=person, role=role, defaults={"active": True})


def add_tasks(*, batch: Batch, responses: Iterable[Response]) -> int:
    """One work task for each response, in this order. The number made."""
    position = Task.objects.filter(batch=batch).count()
    made = 0
    for chunk in _chunks(responses):
        Task.objects.bulk_create(
            Task(batch=batch, response=response, overlap=batch.overlap, position=position + made + place)
            for place, response in enumerate(chunk)
        )
        made += len(chunk)
    return made


def responses_for(
    *, dataset: Dataset, models: Sequence[EvaluatedModel] = (), collection: str | None = None
) -> QuerySet[Response]:
    """The dataset's responses, prompt by prompt; ``models`` empty means all, ``collection`` None means all.

    Those to one prompt come in the order of their hashes: any order of models would tell whose each is.
    """
    responses = Response.objects.filter(prompt__dataset=dataset).select_related("prompt")
    if models:
        responses = responses.filter(model__in=models)
    if collection is not None:
        responses = responses.filter(collection__name=collection)
    return responses.order_by("prompt_id", "-sha256", "id")


@transaction.atomic
def set_state(*, batch: Batch, state: str, actor: Person | None = None) -> Batch:
    """Open, pause or close. Closing ends every live claim; a closed batch stays closed."""
    # A claim holds its membership: wait for the claims under way, and let those that come later see the new state.
    list(Membership.objects.select_for_update().filter(batch=batch).order_by("pk").values_list("pk"))
    locked = Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    if locked.state == state:
        return locked
    if state not in MOVES[Batch.State(locked.state)]:
        raise Conflict(
            N_("The batch {name} is {state}; it cannot become {wanted}."),
            name=batch.name,
            state=Batch.State(locked.state).label,
            wanted=Batch.State(state).label,
        )
    if locked.state == Batch.State.DRAFT and state == Batch.State.OPEN:
        _refuse_too_few(batch.overlap, _annotators_in(batch))
    Batch.objects.filter(pk=batch.pk).update(state=state)
    if state == Batch.State.CLOSED:
        end_claims(Assignment.objects.filter(batch=batch))
    record(actor=actor, verb=f"batch_{state}", target=f"batch:{batch.name}")
    batch.refresh_from_db()
    return batch


def _check_policy(policy: Policy, annotators: Sequence[Person], *, open_now: bool) -> None:
    if not 1 <= policy.overlap <= MAX_OVERLAP:
        raise AssayError(
            N_("The overlap is {overlap}; choose 1 to {most}."), overlap=policy.overlap, most=MAX_OVERLAP
        )
    if policy.pairing not in Batch.Pairing.values:
        raise AssayError(
            N_("There is no pairing {pairing}; choose one of: {known}."),
            pairing=policy.pairing,
            known=", ".join(Batch.Pairing.values),
        )
    if not 0 <= policy.tolerance < math.inf or policy.lease_seconds < 1:
        raise AssayError(N_("The tolerance is 0 or more, and the lease at least one second."))
    if open_now:
        _refuse_too_few(policy.overlap, len(set(annotators)))


def _refuse_too_few(overlap: int, annotators: int) -> None:
    if annotators < overlap:
        raise AssayError(
            N_("An overlap of {overlap} needs at least {overlap} annotators; {given} are named."),
            overlap=overlap,
            given=annotators,
        )


def _annotators_in(batch: Batch) -> int:
    return batch.memberships.filter(role=Membership.Role.ANNOTATOR, active=True).count()


def _refuse_unknown_dimensions(guideline: Guideline, responses: QuerySet[Response]) -> None:
    dimensions = set(responses.order_by().values_list("prompt__dimension", flat=True).distinct())
    unanswerable = sorted(name for name in dimensions if not guideline.document.criteria_for(name))
    if unanswerable:
        raise AssayError(
            N_("{guideline} has no criterion for the dimension {dimensions}."),
            guideline=str(guideline),
            dimensions=", ".join(name or '""' for name in unanswerable),
        )


def _chunks(responses: Iterable[Response]) -> Iterator[list[Response]]:
    chunk: list[Response] = []
    for response in responses:
        chunk.append(response)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
