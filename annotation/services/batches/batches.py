"""Batches: created at once, or by a job where there are many responses; opened, paused and closed.

The job creates a batch in one transaction, so that a failed, cancelled or killed job leaves nothing behind.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, Forbidden
from annotation.core.names import check_name
from annotation.core.sql import write_rows
from annotation.core.study_scope import choose_study_id
from annotation.domain.batch_spec import (
    MAX_OVERLAP,
    AnnotatorShare,
    BatchSpec,
    Policy,
    check_annotators,
    draw_overlapped,
)
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    Assignment,
    Batch,
    Dataset,
    DialogueFault,
    EvaluatedModel,
    Guideline,
    Job,
    Membership,
    Person,
    Response,
    Stratum,
    Study,
    Task,
)
from annotation.selectors.access import is_awaiting_confirmation
from annotation.selectors.batches.plan import has_other_units, list_topics
from annotation.selectors.counts import count_tasks
from annotation.selectors.people import count_invited_annotators
from annotation.services import jobs
from annotation.services.access import refuse_erased
from annotation.services.assignments import end_claims
from annotation.services.assignments.plan import (
    Planner,
    plan_open_tasks,
    refuse_without_pairs,
    save_named_pairs,
)
from annotation.services.audit import record
from annotation.services.counts import add_batch_counts, lock_memberships
from annotation.services.gold_questions.answers import close_checks
from annotation.services.gold_questions.qualification import check_enough_questions
from annotation.services.jobs import ProgressReporter
from annotation.services.table_statistics import refresh_statistics

CHUNK = 2000
# Of a response: what makes its stratum.
STRATUM_FIELDS = ("prompt__dataset", "prompt__dimension", "prompt__language", "model")
# Of a new task: what differs from one to the next.
TASK_COLUMNS = ("response_id", "prompt_id", "stratum_id", "panel_id", "overlap", "position", "rank")
Report = Callable[[float], object]  # from 0 to 1, how much of the tasks is made
TRANSITIONS = {
    Batch.State.DRAFT: {Batch.State.OPEN, Batch.State.CLOSED},
    Batch.State.OPEN: {Batch.State.PAUSED, Batch.State.CLOSED},
    Batch.State.PAUSED: {Batch.State.OPEN, Batch.State.CLOSED},
    Batch.State.CLOSED: set(),
}


@transaction.atomic
def create_batch(
    spec: BatchSpec, *, actor: Person | None = None, report: Report = lambda _done: None
) -> Batch:
    """Make a batch of the dataset's responses, and open it unless it is to be a draft."""
    batch, responses = _prepare(spec, actor)
    add_tasks(batch=batch, responses=responses, plan=spec.open_now, report=report)
    if spec.open_now:
        set_state(batch=batch, state=Batch.State.OPEN, actor=actor)
    return batch


def check_batch(spec: BatchSpec, *, actor: Person | None) -> None:
    """Raise what ``create_batch`` would raise, in a moment and without making anything."""
    with transaction.atomic():
        batch, responses = _prepare(spec, actor)
        if spec.open_now and batch.pairing != Batch.Pairing.POOL:
            Planner.build(batch, _make_strata(batch, responses)[1])
        transaction.set_rollback(True)


def _prepare(spec: BatchSpec, actor: Person | None) -> tuple[Batch, QuerySet[Response]]:
    """The batch with its people and without its tasks, and the responses that are to be its tasks."""
    guideline = Guideline.objects.get(pk=spec.guideline)
    if not guideline.is_published:
        raise AssayError(N_("The guideline {guideline} is not published yet."), guideline=str(guideline))
    responses = list_responses(spec)
    topics = list_topics(responses)
    if not topics:
        dataset = Dataset.objects.get(pk=spec.dataset)
        raise AssayError(N_("The dataset {dataset} has no responses of these models."), dataset=dataset.name)
    _refuse_unanswerable(guideline, topics)
    _refuse_other_units(guideline, responses)
    people = Person.objects.in_bulk([*spec.annotators, *spec.adjudicators, *spec.shares])
    shares = {people[pk]: spec.build_share(pk) for pk in [*spec.annotators, *spec.shares]}
    _check_shares(shares, spec.annotators, {*guideline.document.dimension_names, *dict(topics)} - {""})
    owner = Dataset.objects.get(pk=spec.dataset).study_id
    study = Study.objects.get(pk=choose_study_id(owner))
    batch = create_empty_batch(
        name=spec.name, study=study, guideline=guideline, policy=spec.policy, actor=actor
    )
    for role, members in (
        (Membership.Role.ANNOTATOR, spec.annotators),
        (Membership.Role.ADJUDICATOR, spec.adjudicators),
    ):
        add_members(batch=batch, role=role, people=[people[pk] for pk in members], shares=shares)
    _save_pairs(batch, spec.pairs)
    if spec.open_now:
        refuse_without_pairs(batch)
    return batch, responses


# What takes every criterion by itself, and a number for granted.
NUMBERS_ONLY = ("aggregate", "experts")


def _refuse_settling(guideline: Guideline, policy: Policy) -> None:
    labelled = guideline.document.labelled_criteria
    manifold = [c.name for c in labelled if not c.is_countable]
    if manifold and policy.settling == "aggregate":
        raise AssayError(
            N_(
                "Gold cannot be settled by aggregate where a response has no single level of a criterion, as of"
                " {criteria} (several, per_turn); choose another policy."
            ),
            criteria=", ".join(manifold),
        )
    criteria = [c.name for c in labelled if c.may_lack_value]
    if criteria and policy.settling in NUMBERS_ONLY:
        raise AssayError(
            N_(
                "Gold cannot be settled by {settling} where a response may have no level of a criterion, as of "
                "{criteria} (na, optional or asked_if); choose another policy."
            ),
            settling=policy.settling,
            criteria=", ".join(criteria),
        )


def create_empty_batch(
    *, name: str, study: Study, guideline: Guideline, policy: Policy, actor: Person | None
) -> Batch:
    _refuse_settling(guideline, policy)
    # Of an open plan nothing closes before its end, whatever its floor.
    overlap = max(policy.overlap, 2 if policy.settles_at_end else 1)
    blocks_since = timezone.now() if policy.closes_in_blocks(overlap) else None
    fields = {
        "guideline": guideline,
        "created_by": actor,
        "blocks_since": blocks_since,
        "of_slates": guideline.document.unit == "slate",
        **policy.model_dump(),
    }
    batch, created = Batch.objects.get_or_create(study=study, name=check_name(name), defaults=fields)
    if not created:
        raise AssayError(N_("There is already a batch named {name}."), name=name)
    record(actor=actor, verb=AnnotationVerb.CREATE_BATCH, target=f"batch:{name}", guideline=str(guideline))
    return batch


def add_members(
    *,
    batch: Batch,
    role: str,
    people: Iterable[Person],
    shares: Mapping[Person, AnnotatorShare] = {},  # read only
) -> None:
    people = list(people)
    refuse_erased(people)
    for person in people:
        fields: dict[str, object] = {"active": True, "cursor": Membership.START}
        if person in shares and role == Membership.Role.ANNOTATOR:
            fields["quota"] = shares[person].quota
            fields["excluded_dimensions"] = list(shares[person].excluded_dimensions)
        Membership.objects.update_or_create(batch=batch, person=person, role=role, defaults=fields)


def add_tasks(
    *,
    batch: Batch,
    responses: QuerySet[Response],
    plan: bool = False,
    overlaps: Mapping[int, int] | None = None,
    report: Report = lambda _done: None,
) -> int:
    """One work task for each response, in this order or shuffled by the batch's seed. The number made.

    With ``plan`` they are planned for people where the batch's pairing asks for it; a draft's are when it opens.
    ``overlaps``: how many labels each response gets, where that was settled elsewhere.
    The batch is new, or its row is locked.
    """
    strata, counts = _make_strata(batch, responses)
    overlapped = _draw_overlapped(batch, responses) if overlaps is None else None
    is_open = batch.plan == Batch.Plan.OPEN
    needed: Counter[int] = Counter()
    planner = Planner.build(batch, counts) if plan and batch.pairing != Batch.Pairing.POOL else None
    start = count_tasks(batch)
    total = sum(counts.values())
    positions = _list_positions(batch, start, total)
    # Where people are at work already, some cursors may be beyond: those tasks are offered as requeued ones.
    constants = {"batch_id": batch.pk, "requeued": batch.state != Batch.State.DRAFT}
    made = 0
    with closing(_read_chunks(responses)) as chunks:
        for chunk in chunks:
            tasks = []
            for pk, prompt, *kind in chunk:
                stratum, position = strata[tuple(kind)], next(positions)
                overlap = batch.overlap if overlapped is None or prompt in overlapped else 1
                if overlaps is not None:
                    overlap = overlaps[pk]
                needed[stratum] += batch.overlap if is_open else overlap
                panel = planner.next_panel(stratum) if planner else None
                n_slots = MAX_OVERLAP if is_open and overlaps is None else overlap
                tasks.append((pk, prompt, stratum, panel, n_slots, position, position))
            write_rows(Task, TASK_COLUMNS, tasks, constants)
            made += len(tasks)
            report(made / total)
    for stratum, n in counts.items():
        add_batch_counts(stratum, open=n, labels_needed=needed[stratum])
    if planner:
        planner.save()
    refresh_statistics(Task, rows=made)
    return made


def _draw_overlapped(batch: Batch, responses: QuerySet[Response]) -> frozenset[Hashable] | None:
    """The prompts whose responses get the overlap, drawn by the batch's seed; None where all do. By prompts, because
    the responses to one are alike.
    """
    if batch.is_even or batch.plan == Batch.Plan.OPEN:
        return None
    prompts = responses.order_by("prompt_id").values_list("prompt_id", flat=True).distinct()
    return draw_overlapped(prompts, share=batch.overlap_share, seed=batch.seed)


def _read_chunks(responses: QuerySet[Response]) -> Generator[list[tuple[Any, ...]], None, None]:
    """The id, the prompt and the stratum's fields of some responses at a time."""
    rows = responses.values_list("pk", "prompt", *STRATUM_FIELDS).iterator(chunk_size=CHUNK)
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


def _make_strata(
    batch: Batch, responses: QuerySet[Response]
) -> tuple[dict[tuple[Any, ...], int], dict[int, int]]:
    """The strata of these responses by their fields, and the number of responses in each."""
    work = Stratum.objects.filter(batch=batch, kind=Task.Kind.WORK)
    strata = {
        tuple(kind): pk for pk, *kind in work.values_list("pk", "dataset", "dimension", "language", "model")
    }
    counts = {
        tuple(kind): n
        for *kind, n in responses.order_by()
        .values_list(*STRATUM_FIELDS)
        .annotate(n=Count("pk"))
        .order_by(*STRATUM_FIELDS)
    }
    new = [
        Stratum(
            batch=batch,
            kind=Task.Kind.WORK,
            dataset_id=dataset,
            dimension=dimension,
            language=language,
            model_id=model,
        )
        for dataset, dimension, language, model in counts
        if (dataset, dimension, language, model) not in strata
    ]
    for stratum in Stratum.objects.bulk_create(new):
        strata[stratum.dataset_id, stratum.dimension, stratum.language, stratum.model_id] = stratum.pk
    return strata, {strata[kind]: n for kind, n in counts.items()}


def _list_positions(batch: Batch, start: int, number: int) -> Iterator[int]:
    if batch.order == Batch.Order.PROMPTS:
        return iter(range(start, start + number))
    shuffled = list(range(start, start + number))
    random.Random(batch.seed).shuffle(shuffled)  # noqa: S311  # an order that can be repeated, not a secret
    return iter(shuffled)


def _save_pairs(batch: Batch, pairs: Sequence[Sequence[int]]) -> None:
    if pairs and batch.pairing != Batch.Pairing.FIXED:
        raise AssayError(
            N_("Pairs are named for the pairing fixed; this batch's is {pairing}."), pairing=batch.pairing
        )
    if not pairs:
        return
    annotators = batch.memberships.filter(role=Membership.Role.ANNOTATOR)
    members = {member.person_id: member for member in annotators}
    save_named_pairs(batch, [[members[person] for person in pair] for pair in pairs])


def list_responses(spec: BatchSpec) -> QuerySet[Response]:
    """The responses that are to be the batch's tasks."""
    responses = filter_responses(
        dataset=spec.dataset,
        models=spec.models,
        collection=spec.collection,
        without_faults=spec.without_faults,
    )
    if spec.subcomponents:
        known = set(responses.order_by().values_list("prompt__subcomponent", flat=True).distinct())
        _refuse_unknown_subcomponents(set(spec.subcomponents) - known, known)
        responses = responses.filter(prompt__subcomponent__in=spec.subcomponents)
    return responses if spec.among is None else responses.filter(pk__in=spec.among)


def _refuse_unknown_subcomponents(unknown: set[str], known: set[str]) -> None:
    if unknown:
        raise AssayError(
            N_("No response is to a prompt of the subcomponent {subcomponent}; there are some of: {known}."),
            subcomponent=min(unknown),
            known=", ".join(sorted(known - {""})) or "-",
        )


def filter_responses(
    *,
    dataset: Dataset | int,
    models: Sequence[EvaluatedModel] | Sequence[int] = (),
    collection: str | None = None,
    without_faults: bool = False,
) -> QuerySet[Response]:
    """The dataset's responses, prompt by prompt; ``models`` empty means all, ``collection`` None means all but slates.
    A slate is of each of its models. ``without_faults`` leaves out dialogues that have a fault.

    Those to one prompt come in the order of their hashes: any order of models would tell whose each is.
    """
    responses = Response.objects.filter(prompt__dataset=dataset).select_related("prompt")
    if models:
        compared = EvaluatedModel.objects.filter(parts__in=models)
        responses = responses.filter(Q(model__in=models) | Q(model__in=compared.values("pk")))
    of_collection = Q(slate=None) if collection is None else Q(collection__name=collection)
    responses = responses.filter(of_collection)
    if without_faults:
        responses = responses.filter(~Exists(DialogueFault.objects.filter(response=OuterRef("pk"))))
    return responses.order_by("prompt_id", "-sha256", "id")


@transaction.atomic
def set_state(*, batch: Batch, state: str, actor: Person | None = None) -> Batch:
    """Open, pause or close. Closing ends every live claim; a closed batch stays closed.

    Its results stay sealed for an ``actor`` who works or worked in it, until ``confirm_closing``.
    """
    # A claim holds its membership: wait for the claims under way, and let those that come later see the new state.
    lock_memberships(batch)
    locked = Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    if locked.state == state:
        return locked
    if state not in TRANSITIONS[Batch.State(locked.state)]:
        raise Conflict(
            N_("The batch {name} is {state}; it cannot become {wanted}."),
            name=batch.name,
            state=Batch.State(locked.state).label,
            wanted=Batch.State(state).label,
        )
    if state == Batch.State.CLOSED and locked.state != Batch.State.DRAFT and locked.settles_at_end:
        raise Conflict(
            N_("End the collection of {name} before it closes: until then nothing in it is settled."),
            name=batch.name,
        )
    if locked.state == Batch.State.DRAFT and state == Batch.State.OPEN:
        # A pool needs no plan: whoever is invited begins when they have joined.
        invited = count_invited_annotators(batch) if batch.pairing == Batch.Pairing.POOL else 0
        check_annotators(batch.overlap, count_annotators(batch) + invited)
        check_enough_questions(locked)
        refuse_without_pairs(batch)
        if batch.pairing != Batch.Pairing.POOL:
            plan_open_tasks(batch)
    Batch.objects.filter(pk=batch.pk).update(
        state=state, closed_by=actor if state == Batch.State.CLOSED else None
    )
    if state == Batch.State.CLOSED:
        end_claims(Assignment.objects.filter(batch=batch))
        close_checks(batch)
    record(actor=actor, verb=AnnotationVerb.get(f"batch_{state}"), target=f"batch:{batch.name}")
    batch.refresh_from_db()
    return batch


@transaction.atomic
def confirm_closing(*, batch: Batch, actor: Person | None) -> Batch:
    """Say that it was right to close the batch: from now on its results are open to who closed it, too.

    Whoever closed it cannot say so. ``actor`` is None for the operator's shell.
    """
    locked = Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    if not is_awaiting_confirmation(locked):
        raise Conflict(N_("The closing of {name} needs no confirmation."), name=batch.name)
    if actor is not None and actor.pk == locked.closed_by_id:
        raise Forbidden(
            N_("You closed {name} while you worked in it: another manager must confirm that."),
            name=batch.name,
        )
    confirmed_at = timezone.now()
    Batch.objects.filter(pk=batch.pk).update(closing_confirmed_at=confirmed_at, closing_confirmed_by=actor)
    record(actor=actor, verb=AnnotationVerb.CONFIRM_CLOSING, target=f"batch:{batch.name}")
    batch.refresh_from_db()
    return batch


def _check_shares(
    shares: Mapping[Person, AnnotatorShare], annotators: Sequence[int], known: set[str]
) -> None:
    """``known`` are the dimensions that somebody can be kept from."""
    for person, share in shares.items():
        if person.pk not in annotators:
            raise AssayError(
                N_("{name} is not an annotator of this batch, so there is nothing to limit."),
                name=str(person),
            )
        if share.quota is not None and share.quota < 1:
            raise AssayError(
                N_("The quota of {name} is {quota}; it is at least 1."), name=str(person), quota=share.quota
            )
        unknown = set(share.excluded_dimensions) - known
        if unknown:
            raise AssayError(
                N_("The batch has no dimension {dimension}; it has: {known}."),
                dimension=min(unknown),
                known=", ".join(sorted(known)),
            )


def count_annotators(batch: Batch) -> int:
    return batch.memberships.filter(role=Membership.Role.ANNOTATOR, active=True).count()


def _refuse_unanswerable(guideline: Guideline, topics: Iterable[tuple[str, str]]) -> None:
    unanswerable = guideline.document.list_unanswerable(topics)
    if unanswerable:
        raise AssayError(
            N_("{guideline} has no criterion for the prompts of {dimensions}."),
            guideline=str(guideline),
            dimensions=", ".join(name or '""' for name in unanswerable),
        )


def _refuse_other_units(guideline: Guideline, responses: QuerySet[Response]) -> None:
    """A guideline may be written for dialogues or plain responses alone, and is for slates alone or not at all."""
    if not has_other_units(guideline.document, responses):
        return
    messages = {
        "dialogue": N_(
            "{guideline} is for dialogues, and some of these responses are plain texts; choose another."
        ),
        "response": N_(
            "{guideline} is for plain responses, and some of these are dialogues; choose another."
        ),
        "slate": N_(
            "{guideline} is for slates, and some of these are single responses; make slates and name their set."
        ),
        None: N_("{guideline} is for single responses, and some of these are slates; choose another."),
    }
    unit = guideline.document.unit
    has_slates = unit != "slate" and responses.order_by().filter(slate__isnull=False).exists()
    raise AssayError(messages[None if has_slates else unit], guideline=str(guideline))


JOB_KIND = "batch"
# So many responses are made into a batch while the page waits: a few seconds.
MAX_RESPONSES_AT_ONCE = 20_000
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


def create_or_enqueue_batch(spec: BatchSpec, *, actor: Person) -> Batch | Job:
    """The batch, or the job that makes it. What cannot be made is refused at once (AssayError)."""
    if list_responses(spec).count() <= MAX_RESPONSES_AT_ONCE:
        return create_batch(spec, actor=actor)
    check_batch(spec, actor=actor)
    if Job.objects.filter(kind=JOB_KIND, state__in=UNDER_WAY, payload__name=spec.name).exists():
        raise AssayError(N_("A batch named {name} is being made now."), name=spec.name)
    return jobs.enqueue(kind=JOB_KIND, payload=spec.model_dump(mode="json"), title=spec.name, actor=actor)


def execute_batch_job(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it finds the batch made, or nothing of it."""
    if "batch" in context.job.result:
        return dict(context.job.result)
    context.report(0, N_("making the items"))
    spec = BatchSpec.model_validate(context.payload)
    with ProgressReporter(context) as reporter, transaction.atomic():
        batch = create_batch(spec, actor=context.job.created_by, report=reporter.report)
        result = {"batch": batch.name, "tasks": batch.tasks.count()}
        context.save_result(result)
    return result
