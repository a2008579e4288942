"""Gold questions: which of them a person may get, what they answered, and how often that was right.

An annotator learns of one question at most, and only where the batch gives feedback (``find_feedback``); all the rest
is for those who may see the batch's results (``access.refuse_sealed``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count, Exists, OuterRef, QuerySet, Sum
from django.utils.crypto import salted_hmac

from annotation.core.proportions import wilson
from annotation.core.sampling import DrawBlock
from annotation.domain.gold_questions import (
    MIN_ITEMS,
    Answer,
    Confusion,
    GoldScale,
    count_checks_to_come,
    count_confusion,
    is_bad_item,
)
from annotation.domain.gold_questions import is_poor as gold_questions_is_poor
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.guidelines.entries import SINGLE_RESPONSE, ShownOrder
from annotation.domain.slates import read_order
from annotation.models import (
    Annotation,
    Assignment,
    Batch,
    GoldQuestion,
    GoldQuestionTask,
    Membership,
    Panel,
    Person,
    Qualification,
    Task,
)
from annotation.models.sql.gold_questions import (
    STANDS_AT_HAND,
    STANDS_ENDED,
    KnownCandidate,
    fetch_round_items,
    fetch_unseen_checks,
)
from annotation.selectors.assignments.availability import list_ruled_out_strata

# Beside the round's state: the batch asks for no qualification.
NO_QUALIFICATION = ""


def has_gold_questions(batch: Batch) -> bool:
    return GoldQuestion.objects.filter(batch=batch).exists()


def exclude_gold_questions(assignments: QuerySet[Assignment], *, has_checks: bool) -> QuerySet[Assignment]:
    """Those of a batch that are no answers to gold questions. ``has_checks``: whether the batch has any; looking at the
    task of each row costs more than the row itself where there are many.
    """
    return assignments.filter(task__kind=Task.Kind.WORK) if has_checks else assignments


class QualificationItem(NamedTuple):
    """An item of a qualification. ``is_assigned``: it was assigned in this attempt; ``ended``: submitted or skipped."""

    candidate: KnownCandidate
    seen: bool
    is_assigned: bool
    ended: bool


def derive_seed(membership: int) -> str:
    """By which what a member is given is drawn; nobody outside the site can work it out."""
    return salted_hmac("annotation.known", str(membership)).hexdigest()


def list_unseen_checks(member: Membership, *, without: Iterable[int]) -> list[KnownCandidate]:
    """The checks that the member may be given now; those of the strata ``without`` are not for them."""
    ruled_out = set(without)
    return [check for check in fetch_unseen_checks(member) if check.stratum not in ruled_out]


def has_check_in(member: Membership, block: DrawBlock) -> bool:
    """Whether one of the member's items of this block was a check.

    One that was given back without a reason does not count: it comes last of all. One whose lease ran out does, for
    it comes again first.
    """
    checks = Assignment.objects.filter(
        task__known__person=member.person_id,
        task__batch=member.batch_id,
        task__kind=Task.Kind.CHECK,
        task__position__range=(block.first, block.last),
    )
    return checks.exclude(state=Assignment.State.RELEASED, skip_reason="").exists()


def count_checks_left(member: Membership, *, assigned: int, work: int, without: Iterable[int]) -> int:
    """How many checks will come among so much more ``work``, after ``given`` items."""
    most = len(list_unseen_checks(member, without=without)) + _count_checks_in_progress(member)
    share = member.batch.check_share
    return count_checks_to_come(assigned, work, share=share, seed=derive_seed(member.pk), most=most)


def _count_checks_in_progress(member: Membership) -> int:
    claims = Assignment.objects.filter(batch=member.batch_id, person=member.person_id, state="claimed")
    return claims.filter(task__kind=Task.Kind.CHECK).count()


def find_latest_qualification(batch: int, person: int) -> Qualification | None:
    attempts = Qualification.objects.filter(batch=batch, person=person)
    return attempts.order_by("-attempt").first()


def list_failed_people(batch: Batch) -> frozenset[int]:
    """Those who did not pass their latest round, and whom nobody has let in: they are given no work. No query where the
    batch asks for no qualification.
    """
    if not batch.qualifying:
        return frozenset()
    states = Qualification.objects.filter(batch=batch).order_by("attempt").values_list("person", "state")
    return frozenset(person for person, state in dict(states).items() if state == Qualification.State.FAILED)


def list_qualification_items(
    member: Membership, attempt: int, *, without: Iterable[int]
) -> list[QualificationItem]:
    """The items of a member's round: those that they have not had in an earlier one, if these are enough, else all.

    What was taken out meanwhile, or is not for them any more, is of it only where they have it at hand or are done
    with it: else the round could never end.
    """
    ruled_out = set(without)
    items = [
        QualificationItem(
            item.candidate,
            seen=item.seen,
            is_assigned=item.standing is not None,
            ended=item.standing == STANDS_ENDED,
        )
        for item in fetch_round_items(member, attempt)
        if (item.active and item.candidate.stratum not in ruled_out)
        or item.standing in (STANDS_AT_HAND, STANDS_ENDED)
    ]
    if sum(not item.seen for item in items) < MIN_ITEMS:
        return items
    return [item for item in items if item.is_assigned or not item.seen]


@dataclass(frozen=True)
class Feedback:
    """What an annotator is told of a gold question: that it was one, what they said, what is right, and why. ``order``:
    that in which they read the entries of a slate.
    """

    assignment: Any
    labels: Mapping[str, float]
    known: Mapping[str, float]
    explanation: str
    order: ShownOrder = SINGLE_RESPONSE

    @property
    def is_right(self) -> bool:
        return Answer(self.labels, self.known).is_right


def find_feedback(assignment: Assignment) -> Feedback | None:
    """Of an assignment whose labels its person was told; None of every other."""
    if assignment.task.kind != Task.Kind.CHECK:
        return None
    prefix = "assignment__task__known__item__"
    answer = (
        _list_disclosed_answers(assignment)
        .values_list("labels", f"{prefix}labels", f"{prefix}explanation")
        .first()
    )
    if answer is None:
        return None
    labels, gold, explanation = answer
    return Feedback(assignment.pk, labels, gold, explanation, _read_shown_order(assignment))


def _read_shown_order(assignment: Assignment) -> ShownOrder:
    if not assignment.shown_order:
        return SINGLE_RESPONSE
    turns = Task.objects.values_list("response__turns", flat=True).get(pk=assignment.task_id)
    return read_order(assignment.list_shown_places(), turns)


def _list_disclosed_answers(assignment: Assignment) -> QuerySet[Annotation]:
    """What was submitted of the assignment's known task, where its person was told the right labels."""
    return Annotation.objects.filter(
        assignment__task=assignment.task_id, assignment__task__known__told_at__isnull=False, current=True
    )


def find_latest_feedback(batch: Batch, person: Any) -> Feedback | None:
    """On what the person submitted last in the batch, where that was a gold question that they were told of."""
    if not batch.check_feedback:
        return None
    submitted = Assignment.objects.filter(batch=batch, person=person, state=Assignment.State.SUBMITTED)
    last = submitted.select_related("task").order_by("-submitted_at").first()
    return None if last is None else find_feedback(last)


def is_answer_disclosed(assignment: Assignment) -> bool:
    return assignment.task.kind == Task.Kind.CHECK and _list_disclosed_answers(assignment).exists()


def list_open_checks(batch: Batch) -> QuerySet[Task]:
    """The checks of the batch that were answered and can still be corrected."""
    check_tasks = GoldQuestionTask.objects.filter(item__batch=batch, item__kind=GoldQuestion.Kind.CHECK)
    return Task.objects.filter(
        pk__in=check_tasks.values("pk"), kind=Task.Kind.CHECK, state=Task.State.OPEN, slots_taken=1
    ).filter(Exists(Assignment.objects.filter(task=OuterRef("pk"), state=Assignment.State.SUBMITTED)))


def build_scales(document: GuidelineDocument) -> dict[str, GoldScale]:
    return {
        criterion.name: GoldScale(
            tuple(criterion.values), criterion.measurement == "nominal", criterion.tolerance
        )
        for criterion in document.criteria
    }


def list_answers(tasks: Sequence[int]) -> dict[int, Answer]:
    """What was said of these known tasks, by task; those not submitted are not there."""
    current = Annotation.objects.filter(
        assignment__task__in=tasks, assignment__state="submitted", current=True
    )
    known = dict(GoldQuestionTask.objects.filter(pk__in=tasks).values_list("pk", "item__labels"))
    return {
        task: Answer(labels=labels, known=known[task])
        for task, labels in current.values_list("assignment__task", "labels")
    }


@dataclass(frozen=True)
class CheckResult:
    """How often somebody had the gold checks of a batch right: ``n`` items, ``right`` of them in every label; the
    share has its 95% interval (Wilson). ``within``: none of their labels was further from the right one than the
    batch's tolerance. ``labels`` and ``labels_right`` count single labels; ``confusion`` counts (right, given) by
    criterion. ``latest`` is when the last of them was answered. Corrections count, but for what came after feedback.
    """

    person: Person
    batch: Batch
    n: int
    right: int
    share: float
    low: float
    high: float
    latest: datetime
    within: int
    labels: int
    labels_right: int
    confusion: Confusion

    @property
    def is_poor(self) -> bool:
        return gold_questions_is_poor(self.n, self.right)


def list_check_results(person: Person, batches: Iterable[Batch]) -> list[CheckResult]:
    """The person's checks in those of ``batches`` in which they have answered any, the latest batch first.

    Refuse whoever a batch is sealed for before this is asked, and the person themselves.
    """
    return _build_check_results(_list_answered(batches).filter(assignment__person=person))


def list_batch_check_results(batch: Batch) -> list[CheckResult]:
    """Of everybody who has answered checks in the batch, by name. Refuse whoever it is sealed for."""
    return _build_check_results(_list_answered([batch]))


def _list_answered(batches: Iterable[Batch]) -> QuerySet[Annotation]:
    """What was submitted of the checks that count: of items that are still in."""
    return Annotation.objects.filter(
        current=True,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__task__known__item__batch__in=[batch.pk for batch in batches],
        assignment__task__known__item__kind=GoldQuestion.Kind.CHECK,
        assignment__task__known__item__active=True,
    )


def _build_check_results(annotations: QuerySet[Annotation]) -> list[CheckResult]:
    rows = annotations.order_by().values_list(
        *("assignment__batch", "assignment__person", "assignment__submitted_at", "labels"),
        "assignment__task__known__item__labels",
    )
    answers: dict[tuple[int, int], list[Answer]] = defaultdict(list)
    latest: dict[tuple[int, int], datetime] = {}
    for batch, person, submitted_at, labels, gold in rows:
        answers[batch, person].append(Answer(labels, gold))
        latest[batch, person] = max(submitted_at, latest.get((batch, person), submitted_at))
    people = Person.objects.in_bulk({person for _batch, person in answers})
    batches = Batch.objects.select_related("guideline").in_bulk({batch for batch, _person in answers})
    results = [
        _build_check_result(people[person], batches[batch], person_answers, latest[batch, person])
        for (batch, person), person_answers in answers.items()
    ]
    return sorted(results, key=lambda result: (-result.batch.pk, result.person.username))


def _build_check_result(
    person: Person, batch: Batch, answers: Sequence[Answer], latest: datetime
) -> CheckResult:
    n, right = len(answers), sum(answer.is_right for answer in answers)
    scales, counts = build_scales(batch.guideline.document), count_confusion(answers)
    low, high = wilson(right, n)
    return CheckResult(
        person=person,
        batch=batch,
        n=n,
        right=right,
        share=right / n,
        low=low,
        high=high,
        latest=latest,
        within=sum(answer.is_within(batch.tolerance, scales) for answer in answers),
        labels=sum(of.total() for of in counts.values()),
        labels_right=sum(n for of in counts.values() for (gold, label), n in of.items() if gold == label),
        confusion=counts,
    )


def list_poor_results(batch: Batch) -> list[CheckResult]:
    """Of those who surely have too few of the checks right."""
    return [result for result in list_batch_check_results(batch) if result.is_poor]


@dataclass(frozen=True)
class GoldQuestionRow:
    """A gold question with how often it was answered, how often right in every label, and how often skipped."""

    item: GoldQuestion
    answered: int
    right: int
    skipped: int

    @property
    def is_bad(self) -> bool:
        return is_bad_item(self.answered, self.right)


def list_gold_question_rows(items: Sequence[GoldQuestion]) -> list[GoldQuestionRow]:
    """A line for each of ``items``, two queries however many they are. Every attempt of a round counts."""
    ids = [item.pk for item in items]
    annotations = Annotation.objects.filter(
        assignment__task__known__item__in=ids, assignment__state=Assignment.State.SUBMITTED, current=True
    ).order_by()
    labels: dict[int, list[Any]] = defaultdict(list)
    for item, answer_labels in annotations.values_list("assignment__task__known__item", "labels"):
        labels[item].append(answer_labels)
    skips = Assignment.objects.filter(task__known__item__in=ids).exclude(skip_reason="")
    skipped = Counter(skips.values_list("task__known__item", flat=True))
    return [
        GoldQuestionRow(
            item=item,
            answered=len(labels[item.pk]),
            right=sum(Answer(label, item.labels).is_right for label in labels[item.pk]),
            skipped=skipped[item.pk],
        )
        for item in items
    ]


def list_gold_questions(batch: Batch, *, kind: str = "") -> QuerySet[GoldQuestion]:
    """Those of the batch with all that their page shows, in their order; those taken out last."""
    questions = GoldQuestion.objects.filter(batch=batch).select_related(
        "response__prompt", "response__model", "created_by"
    )
    return (questions.filter(kind=kind) if kind else questions).order_by("-active", "kind", "position")


@dataclass(frozen=True)
class Supply:
    """How many items of a kind there are to give, and how often any was given."""

    kind: str
    active: int
    assigned: int


def count_supplies(batch: Batch) -> dict[str, Supply]:
    """By kind: the items that are in, and how many tasks were made of them."""
    items = GoldQuestion.objects.filter(batch=batch, active=True).order_by()
    active = dict(items.values_list("kind").annotate(n=Count("pk")))
    tasks = GoldQuestionTask.objects.filter(item__batch=batch).order_by()
    assigned = dict(tasks.values_list("item__kind").annotate(n=Count("pk")))
    return {
        kind: Supply(kind, active.get(kind, 0), assigned.get(kind, 0)) for kind in GoldQuestion.Kind.values
    }


@dataclass(frozen=True)
class QualificationRow:
    """One person's latest round: None before it begins. ``done`` of ``items`` are submitted or skipped, ``skipped`` of
    them skipped; ``confusion`` is of this round. ``planned`` items of work are planned for them.
    """

    member: Membership
    round: Qualification | None
    items: int
    done: int
    skipped: int
    confusion: Confusion
    planned: int

    @property
    def state(self) -> str:
        return self.round.state if self.round else Qualification.State.RUNNING

    @property
    def lacks_items(self) -> bool:
        """Whether too few items are for this person for the round to be able to end well."""
        waits = self.state in (Qualification.State.RUNNING, Qualification.State.FAILED)
        return waits and self.items < MIN_ITEMS


def list_qualification_rows(batch: Batch) -> list[QualificationRow]:
    """Of every annotator of the batch who has not left, by name."""
    members = Membership.objects.filter(batch=batch, role=Membership.Role.ANNOTATOR, active=True)
    members = members.select_related("person").prefetch_related("person__own_models__compared_in")
    latest = {
        qualification.person_id: qualification
        for qualification in Qualification.objects.filter(batch=batch).order_by("attempt")
    }
    planned = dict(
        Panel.objects.filter(batch=batch, tasks_planned__gt=0)
        .order_by()
        .values_list("members")
        .annotate(n=Sum("tasks_planned"))
    )
    return [
        _build_qualification_row(member, latest.get(member.person_id), planned.get(member.pk, 0))
        for member in members.order_by("person__username")
    ]


def _build_qualification_row(
    member: Membership, qualification: Qualification | None, planned: int
) -> QualificationRow:
    attempt = qualification.attempt if qualification else 1
    items = list_qualification_items(member, attempt, without=list_ruled_out_strata(member))
    tasks = GoldQuestionTask.objects.filter(
        item__batch=member.batch_id,
        item__kind=GoldQuestion.Kind.QUALIFICATION,
        person=member.person_id,
        attempt=attempt,
    )
    ids = list(tasks.values_list("pk", flat=True))
    skips = Assignment.objects.filter(task__in=ids).exclude(skip_reason="").count() if ids else 0
    return QualificationRow(
        member=member,
        round=qualification,
        items=len(items),
        done=sum(item.ended for item in items),
        skipped=skips,
        confusion=count_confusion(list_answers(ids).values()) if ids else {},
        planned=planned,
    )
