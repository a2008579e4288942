"""The rules of labelling, applied to a chunk of records in memory and then written at once.

``services/annotations/submission.py`` does it for one submission under a lock, this module for many: the pure rules
decide, and the database's constraints hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone
from django.utils.translation import gettext as _

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.sql import copy_object, write_objects, write_rows
from annotation.domain.adjudication import (
    DECIDED,
    Outcome,
    SettledValue,
    SettlementRules,
    resolve_dispute,
    settle,
)
from annotation.domain.annotations import Submission, check_evidence, list_markable_texts
from annotation.domain.assignments.eligibility import find_free_slot
from annotation.domain.formats import AdjudicationRecord, AnnotationRecord
from annotation.domain.formats.base import Judgement
from annotation.domain.guidelines import Label
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    Channel,
    DisputeReason,
    GoldLabel,
    ImportedLabel,
    Membership,
    Person,
    Task,
)
from annotation.services.counts import add_member_counts
from annotation.services.imports.places import Members, TaskSlot
from annotation.services.imports.run import Intake

KEY = "import:{sha256}:{line}"
# Of labels that a file gives together; of a guideline whose scales are longer the others are checked each time.
MAX_CHECKED = 10_000


class Replay:
    def __init__(self, *, intake: Intake, batch: Batch, members: Members) -> None:
        self._intake, self._batch, self._members = intake, batch, members
        self.document = batch.guideline.document
        self._rules = SettlementRules.of(self.document, batch.tolerance, batch.settling)
        self._reasons = dict(DisputeReason.objects.values_list("key", "pk"))
        self._now: datetime = timezone.now()
        self._counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)  # by membership and stratum
        self._claim_template = Assignment(batch_id=batch.pk, claimed_at=self._now, lease_expires=self._now)
        self._annotation_template = Annotation(channel=Channel.IMPORT)
        self._checked: dict[tuple[object, ...], dict[str, Label]] = {}
        self._reset()

    def _reset(self) -> None:
        self._new: list[Assignment] = []
        self._retaken: list[Assignment] = []
        self._annotations: list[Annotation] = []
        self._decisions: list[Adjudication] = []
        self._imported: list[tuple[UUID, int, int, str]] = []
        self._gold: list[GoldLabel] = []
        self._overruled: list[tuple[int, str, Label]] = []  # task, criterion and the expert's value
        self._changed_tasks: dict[int, Task] = {}

    def annotate(self, place: TaskSlot, record: AnnotationRecord) -> bool:
        """Take an annotation; False if it was there already."""
        person = self._get_person(record, record.annotator, Membership.Role.ANNOTATOR, "annotator")
        labels = self._check_labels(place, record)
        past = place.revisions.get(person.pk)
        if past is not None:
            return self._check_repeated_annotation(record, labels, past)
        assignment = self._claim_annotation(place, record, person)
        self._submit(place, record, assignment, labels)
        counts = self._get_counts(person, Membership.Role.ANNOTATOR, place.task)
        counts["submitted"] += 1
        if len(place.submitted) == place.task.overlap and not self._batch.settles_at_end:
            self._settle(place, counts)
        return True

    def decide(self, place: TaskSlot, record: AdjudicationRecord) -> bool:
        """Take an adjudication; False if it was there already."""
        person = self._get_person(record, record.adjudicator, Membership.Role.ADJUDICATOR, "adjudicator")
        if self._batch.settles_at_end and place.task.state == Task.State.OPEN:
            self._end_collection(place, record)
        if self._may_overrule(place, record):
            return self._overrule(place, record, person)
        if record.is_whole and place.task.state in {Task.State.AGREED, Task.State.ADJUDICATED}:
            return self._check_settled_answer(place, record)
        if place.decision is not None:
            return self._check_repeated_decision(place.decision, place, record, person)
        labels = self._check_decision(place, record)
        self._add_decision(place, record, person, labels)
        self._add_gold(place.task, resolve_dispute(tuple(labels), labels, self._rules))
        counts = self._get_counts(person, Membership.Role.ADJUDICATOR, place.task)
        self._set_task_state(place.task, Task.State.ADJUDICATED, counts)
        return True

    def _end_collection(self, place: TaskSlot, record: AdjudicationRecord) -> None:
        """A final decision ends the collection of its response, where everybody who began has submitted."""
        n = len(place.submitted)
        if (
            not n
            or n < place.task.slots_taken
            or (self._batch.plan == Batch.Plan.FIXED and n < place.task.overlap)
        ):
            return
        place.task.overlap = n
        membership = self._members.find_membership_id(place.annotators[0], Membership.Role.ANNOTATOR)
        self._settle(place, self._counts[membership, place.task.stratum_id])

    def _may_overrule(self, place: TaskSlot, record: AdjudicationRecord) -> bool:
        """Experts may say otherwise what the annotators agree on, where the batch's policy says so."""
        is_free = place.task.state == Task.State.AGREED and place.decision is None
        if self._batch.settling != Batch.Settling.EXPERTS or not is_free:
            return False
        settled = _list_settled_values(self._compute_outcome(place))
        return any(record.labels.get(name, value) != value for name, value in settled.items())

    def _overrule(self, place: TaskSlot, record: AdjudicationRecord, person: Person) -> bool:
        """The expert's value of each criterion that they say otherwise becomes its gold."""
        settled = _list_settled_values(self._compute_outcome(place))
        try:
            labels = {
                name: self.document.criterion(name).check(record.labels[name])
                for name, value in settled.items()
                if record.labels.get(name, value) != value
            }
        except AssayError as error:
            raise self._intake.add_place(error, record.line, "labels") from error
        self._add_decision(place, record, person, labels)
        for name, value in labels.items():
            self._overruled.append((place.task.pk, name, value))
        counts = self._get_counts(person, Membership.Role.ADJUDICATOR, place.task)
        self._set_task_state(place.task, Task.State.ADJUDICATED, counts)
        return True

    def _add_decision(
        self, place: TaskSlot, record: AdjudicationRecord, person: Person, labels: dict[str, Label]
    ) -> None:
        assignment = self._claim_adjudication(place, record, person)
        work = Submission(labels=labels, rationale=record.rationale)
        place.decision = Adjudication(
            task_id=place.task.pk,
            assignment_id=assignment.pk,
            labels=labels,
            rationale=record.rationale,
            seconds=record.seconds,
            reason_id=self._reasons.get(record.reason),
            idempotency_key=self._build_key(record),
            body_sha256=work.sha256,
            channel=Channel.IMPORT,
            created_at=record.at or self._now,
        )
        self._decisions.append(place.decision)
        self._add_origin(assignment, record)

    def save(self) -> None:
        """Write what the chunk added, in the order in which the constraints want it.

        What it adds to the counts of members waits for ``save_counts``.
        """
        write_objects(self._new)
        for assignment in self._retaken:
            assignment.save(update_fields=["state", "slot", "submitted_at"])
        write_objects(self._annotations)
        write_objects(self._decisions)
        write_rows(ImportedLabel, ("assignment_id", "source_id", "line", "round"), self._imported)
        write_objects(self._gold)
        for task, criterion, value in self._overruled:
            GoldLabel.objects.filter(task=task, criterion=criterion).update(
                value=value, source=GoldLabel.Source.EXPERT
            )
        self._save_tasks()
        self._reset()

    def save_counts(self) -> None:
        """Add what the whole file added to the counts of its members, whose rows are few."""
        for (membership, stratum), counts in sorted(self._counts.items()):
            add_member_counts(membership, stratum, **counts)
        self._counts.clear()

    def _get_counts(self, person: Person, role: Membership.Role, task: Task) -> Counter[str]:
        return self._counts[self._members.get_membership_id(person, role), task.stratum_id]

    def _save_tasks(self) -> None:
        """One statement for all tasks that end alike: there are few ways to end."""
        ids_by_end: dict[tuple[str, int, int, datetime | None], list[int]] = {}
        for task in self._changed_tasks.values():
            end = task.state, task.slots_taken, task.overlap, task.settled_at
            ids_by_end.setdefault(end, []).append(task.pk)
        for (state, slots_taken, overlap, settled_at), ids in ids_by_end.items():
            Task.objects.filter(pk__in=ids).update(
                state=state, slots_taken=slots_taken, overlap=overlap, settled_at=settled_at
            )

    def _get_person(self, record: Judgement, name: str, role: Membership.Role, field: str) -> Person:
        try:
            return self._members.get_person(name, role)
        except AssayError as error:
            raise self._intake.add_place(error, record.line, field) from error

    def _check_labels(self, place: TaskSlot, record: AnnotationRecord) -> dict[str, Label]:
        """What was checked before is known: there are few labels, and many who gave them."""
        dimension = place.task.response.prompt.dimension
        key = _build_labels_key(dimension, record.labels)
        known = self._checked.get(key)
        if known is not None:
            return known
        try:
            labels = self.document.check_labels(dimension, record.labels)
        except AssayError as error:
            raise self._intake.add_place(error, record.line, "labels") from error
        if key and len(self._checked) < MAX_CHECKED:
            self._checked[key] = labels
        return labels

    def _check_evidence(
        self, place: TaskSlot, record: AnnotationRecord, labels: Mapping[str, Label]
    ) -> list[dict[str, Any]]:
        """What a level requires is asked of people who label here, not of labels made elsewhere."""
        if not record.evidence:
            return []
        response = place.task.response
        try:
            return check_evidence(
                record.evidence,
                texts=list_markable_texts(response.text, response.turns),
                criteria=self.document.criteria_for(response.prompt.dimension),
                labels=labels,
            )
        except AssayError as error:
            raise self._intake.add_place(error, record.line, "evidence") from error

    def _check_repeated_annotation(
        self, record: AnnotationRecord, labels: Mapping[str, Label], past: list[Annotation]
    ) -> bool:
        """The same once more changes nothing, also after a correction here; other labels contradict."""
        if any(revision.labels == labels for revision in past):
            return False
        raise self._build_contradiction(
            record,
            record.annotator,
            past[-1].idempotency_key,
            N_("{name} labelled this response otherwise {where}."),
        )

    def _check_repeated_decision(
        self, decision: Adjudication, place: TaskSlot, record: AdjudicationRecord, person: Person
    ) -> bool:
        assignment = place.assignments.get(person.pk)
        if (
            assignment is not None
            and assignment.pk == decision.assignment_id
            and decision.labels == record.labels
        ):
            return False
        raise self._build_contradiction(
            record,
            record.adjudicator,
            decision.idempotency_key,
            N_("this dispute was decided otherwise {where}."),
        )

    def _check_settled_answer(self, place: TaskSlot, record: AdjudicationRecord) -> bool:
        """Who answers every criterion says of a settled response what it was settled as, or contradicts."""
        decided = place.decision.labels if place.decision is not None else {}
        self._refuse_overruling(record, {**_list_settled_values(self._compute_outcome(place)), **decided})
        return False

    def _refuse_overruling(self, record: AdjudicationRecord, settled: Mapping[str, Any]) -> None:
        if any(record.labels.get(name, value) != value for name, value in settled.items()):
            raise self._build_error(
                record,
                "labels",
                N_(
                    "{name} says otherwise what this response was settled as: nobody may overrule an agreement."
                ),
                name=record.adjudicator,
            )

    def _build_contradiction(self, record: Judgement, name: str, key: str, template: str) -> InputError:
        """Says where the other one stands: on a line of this file, or in the database."""
        file, _colon, line = key.rpartition(":")
        is_same_file = file == KEY.format(sha256=self._intake.sha256, line="").rstrip(":")
        where = _("on line {line}").format(line=line) if is_same_file else _("before")
        return self._build_error(record, "labels", template, name=name, where=where)

    def _claim_annotation(self, place: TaskSlot, record: AnnotationRecord, person: Person) -> Assignment:
        """The person's claim on a free slot: their own from before, or a new one."""
        past = place.assignments.get(person.pk)
        if place.task.state == Task.State.WITHDRAWN:
            raise self._build_error(record, "prompt_id", N_("this response was withdrawn from the batch."))
        if past is not None and past.is_adjudication:
            raise self._build_error(
                record,
                "annotator",
                N_("{name} adjudicates this response and cannot annotate it."),
                name=person.username,
            )
        if past is not None and past.skip_reason:
            raise self._build_error(
                record, "annotator", N_("{name} skipped this response."), name=person.username
            )
        if past is not None and past.state == Assignment.State.CLAIMED:
            self._retaken.append(past)
            return past
        slot = find_free_slot(place.slots, place.task.overlap)
        if slot is None or place.task.state != Task.State.OPEN:
            raise self._build_error(
                record,
                "annotator",
                N_(
                    "all {overlap} annotations of this response are taken; {name} has none of them. For as many as"
                    " there are, import into a batch with an open plan (--plan open)."
                ),
                overlap=place.task.overlap,
                name=person.username,
            )
        place.task.slots_taken += 1
        return self._claim(place, person, past, slot)

    def _claim_adjudication(self, place: TaskSlot, record: AdjudicationRecord, person: Person) -> Assignment:
        past, held = place.assignments.get(person.pk), place.adjudication_claim
        if past is not None and not past.is_adjudication:
            raise self._build_error(
                record,
                "adjudicator",
                N_("{name} had this response to annotate and cannot adjudicate it."),
                name=person.username,
            )
        if past is not None and past.skip_reason:
            raise self._build_error(
                record, "adjudicator", N_("{name} skipped this response."), name=person.username
            )
        if held is not None and held is not past:
            raise self._build_error(record, "adjudicator", N_("someone else is deciding this dispute now."))
        assignment = self._claim(place, person, past, ADJUDICATION_SLOT)
        assignment.state, assignment.submitted_at = Assignment.State.SUBMITTED, record.at or self._now
        return assignment

    def _claim(self, place: TaskSlot, person: Person, past: Assignment | None, slot: int) -> Assignment:
        if past is not None:
            past.slot = slot
            self._retaken.append(past)
            return past
        new = copy_object(
            self._claim_template, id=uuid4(), task_id=place.task.pk, person_id=person.pk, slot=slot
        )
        place.assignments[person.pk] = new
        self._new.append(new)
        return new

    def _submit(
        self,
        place: TaskSlot,
        record: AnnotationRecord,
        assignment: Assignment,
        labels: Mapping[str, Label],
    ) -> None:
        evidence = self._check_evidence(place, record, labels)
        work = Submission(
            labels=labels, rationale=record.rationale, evidence=record.evidence, flags=record.flags
        )
        annotation = copy_object(
            self._annotation_template,
            receipt=uuid4(),
            assignment_id=assignment.pk,
            labels=dict(labels),
            rationale=record.rationale,
            evidence=evidence,
            flags=list(record.flags),
            seconds=record.seconds,
            idempotency_key=self._build_key(record),
            body_sha256=work.sha256,
            created_at=record.at or self._now,
        )
        assignment.state, assignment.submitted_at = Assignment.State.SUBMITTED, annotation.created_at
        place.revisions[assignment.person_id] = [annotation]
        self._annotations.append(annotation)
        self._add_origin(assignment, record)
        self._changed_tasks[place.task.pk] = place.task

    def _add_origin(self, assignment: Assignment, record: Judgement) -> None:
        source = self._intake.run.upload
        assert source is not None, "its labels point to the row of the file"
        self._imported.append((assignment.pk, source.pk, record.line, record.round))

    def _settle(self, place: TaskSlot, counts: Counter[str]) -> None:
        outcome = self._compute_outcome(place)
        self._add_gold(place.task, outcome.settled)
        self._set_task_state(place.task, Task.State(outcome.state), counts)

    def _compute_outcome(self, place: TaskSlot) -> Outcome:
        labels = [annotation.labels for annotation in place.submitted]
        if self._batch.settling == Batch.Settling.AGGREGATE and place.task.state != Task.State.OPEN:
            return _read_outcome(place.task, labels)
        return settle(labels, self._rules)

    def _check_decision(self, place: TaskSlot, record: AdjudicationRecord) -> dict[str, Label]:
        """The values for the disputed criteria, all of them and no others; who answers every criterion says of the
        others what they were settled as.
        """
        self._refuse_undisputed(place, record)
        outcome = self._compute_outcome(place)
        disputed, labels = outcome.disputed, record.labels
        if record.is_whole:
            self._refuse_overruling(record, _list_settled_values(outcome))
            labels = {name: value for name, value in labels.items() if name in disputed}
        try:
            decided = resolve_dispute(disputed, labels, self._rules)
            return {name: self.document.criterion(name).check(label.value) for name, label in decided.items()}
        except AssayError as error:
            raise self._intake.add_place(error, record.line, "labels") from error

    def _refuse_undisputed(self, place: TaskSlot, record: AdjudicationRecord) -> None:
        if place.task.state == Task.State.DISPUTED:
            return
        if place.task.state == Task.State.AGREED:
            template = N_("the annotators agree on this response; there is nothing to decide.")
        else:
            template = N_(
                "this response has {found} of {overlap} annotations; it cannot be decided before it is disputed."
            )
        raise self._build_error(
            record, "adjudicator", template, found=len(place.submitted), overlap=place.task.overlap
        )

    def _add_gold(self, task: Task, settled: Mapping[str, SettledValue]) -> None:
        self._gold += [GoldLabel.settle(task, name, label, self._now) for name, label in settled.items()]

    def _set_task_state(self, task: Task, state: Task.State, counts: Counter[str]) -> None:
        counts.update({task.state: -1, state: 1})
        task.state = state
        task.settled_at = None if state == Task.State.DISPUTED else self._now
        self._changed_tasks[task.pk] = task

    def _build_key(self, record: Judgement) -> str:
        return KEY.format(sha256=self._intake.sha256, line=record.line)

    def _build_error(self, record: Judgement, field: str, template: str, **params: Any) -> InputError:
        return self._intake.build_error(record.line, field, template, **params)


def _list_settled_values(outcome: Outcome) -> dict[str, Any]:
    """What is settled, by criterion."""
    return {name: label.value for name, label in outcome.settled.items()}


def _read_outcome(task: Task, labels: Sequence[Mapping[str, Any]]) -> Outcome:
    """What a model of all labels settled when the collection ended is stored, and never computed again."""
    gold = GoldLabel.objects.filter(task=task).exclude(source__in=DECIDED)
    settled = {label.criterion: SettledValue(label.label, label.source) for label in gold}
    return Outcome(settled=settled, disputed=tuple(name for name in labels[0] if name not in settled))


def _build_labels_key(dimension: str, labels: Mapping[str, Any]) -> tuple[object, ...]:
    """Told apart by their types too: 1, 1.0 and true are not one label. Empty where a label is a list."""
    if any(isinstance(value, list | dict) for value in labels.values()):
        return ()
    return (dimension, *((name, value, type(value)) for name, value in labels.items()))
