"""The rules of labelling, applied to a chunk of records in memory and then written at once.

``services/annotations/submission.py`` does it for one submission under a lock, this module for many: the pure rules
decide, and the database's constraints hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeAlias

from django.utils import timezone
from django.utils.translation import gettext as _

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.sql import Write, build_rows, draw_ids, update
from annotation.core.write_behind import WriteBehind
from annotation.domain.adjudication import (
    DECIDED,
    EXPERT,
    Outcome,
    SettledValue,
    SettlementRules,
    resolve_dispute,
    settle,
)
from annotation.domain.annotations import Submission
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
    Task,
)
from annotation.models.sql.imports import build_tasks_update
from annotation.services.audit.outbox import SettledTasks
from annotation.services.counts import add_member_counts
from annotation.services.imports.answers import AnswerChecker, LabelsKey
from annotation.services.imports.places import (
    CLAIMED,
    SUBMITTED,
    Claim,
    Decision,
    Member,
    Members,
    StatedRevision,
    TaskSlot,
)
from annotation.services.imports.run import Intake

KEY = "import:{sha256}:"
"""What the idempotency keys of a file's labels begin with; the line follows."""
# Of what follows from labels; of a guideline whose scales are longer the others are worked out each time.
MAX_SETTLED = 10_000

# The columns that differ from row to row.
CLAIM_COLUMNS = ("id", "task_id", "person_id", "slot", "state", "submitted_at")
ANNOTATION_COLUMNS = (
    "assignment_id",
    "receipt",
    "labels",
    "rationale",
    "evidence",
    "flags",
    "seconds",
    "idempotency_key",
    "body_sha256",
    "created_at",
)
DECISION_COLUMNS = (
    "task_id",
    "assignment_id",
    "receipt",
    "labels",
    "rationale",
    "seconds",
    "reason_id",
    "idempotency_key",
    "body_sha256",
    "created_at",
)
ORIGIN_COLUMNS = ("assignment_id", "line", "round")
Row: TypeAlias = tuple[Any, ...]


class Replay:
    def __init__(self, *, intake: Intake, batch: Batch, members: Members, writes: WriteBehind) -> None:
        self._intake, self._batch, self._members, self._writes = intake, batch, members, writes
        self.document = batch.guideline.document
        self._rules = SettlementRules.of(self.document, batch.tolerance, batch.settling)
        self._reasons = dict(DisputeReason.objects.values_list("key", "pk"))
        self._now: datetime = timezone.now()
        self._counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)  # by membership and stratum
        self._answers = AnswerChecker(intake, self.document)
        # Texts are a column of their own, and nearly no guideline asks for any.
        self._text_columns = ("texts",) if self.document.has_texts else ()
        self._settled: dict[tuple[LabelsKey, ...], Outcome] = {}
        self._bare_sha256: dict[LabelsKey, str] = {}  # of submissions that are labels alone
        self._settled_tasks = SettledTasks(batch)
        self._ids, self._key = draw_ids(), KEY.format(sha256=intake.sha256)
        self._unwritten: dict[int, TaskSlot] = {}  # tasks that wait for more labels
        self._reset()

    def _reset(self) -> None:
        self._new: list[Claim] = []
        self._retaken: list[Claim] = []
        self._annotations: list[Row] = []
        self._decisions: list[Row] = []
        self._imported: list[Row] = []
        self._gold: list[tuple[int, str, SettledValue]] = []  # task and criterion
        self._overruled: list[tuple[int, str, SettledValue]] = []
        self._changed: dict[int, TaskSlot] = {}

    def list_newcomers(self, records: Iterable[Judgement]) -> list[Judgement]:
        """The first record of each person of whom the file had none before."""
        newcomers: dict[tuple[str, Membership.Role], Judgement] = {}
        for record in records:
            newcomers.setdefault(_name_person(record), record)
        return [record for person, record in newcomers.items() if not self._members.has(*person)]

    def add_newcomers(self, records: Iterable[Judgement]) -> None:
        """Whoever is made while a chunk is replayed would wait until the chunk before it is written."""
        for record in records:
            with suppress(InputError):  # raised again with the other problems, in their order
                self._get_member(record)

    def annotate(self, place: TaskSlot, record: AnnotationRecord) -> bool:
        """Take an annotation; False if it was there already."""
        record = self._answers.place_quotations(place, record)
        member = self._get_member(record)
        labels = self._answers.check_labels(place, record)
        texts = self._answers.check_texts(place, record, labels)
        past = place.claims.get(member.person)
        if past is not None and past.revisions:
            stated = StatedRevision(labels, "", texts)
            return self._check_repeated_annotation(record, stated, past.revisions)
        claim = self._claim_annotation(place, record, member)
        self._submit(place, record, claim, labels, texts)
        counts = self._counts[member.membership, place.stratum]
        counts["submitted"] += 1
        if place.n_submitted == place.overlap and not self._batch.settles_at_end:
            self._settle(place, counts)
        return True

    def decide(self, place: TaskSlot, record: AdjudicationRecord) -> bool:
        """Take an adjudication; False if it was there already."""
        record = replace(record, labels=self._answers.read_decision(place, record))
        member = self._get_member(record)
        if self._batch.settles_at_end and place.state == Task.State.OPEN:
            self._end_collection(place)
        if self._may_overrule(place, record):
            return self._overrule(place, record, member)
        if record.is_whole and place.state in {Task.State.AGREED, Task.State.ADJUDICATED}:
            return self._check_settled_answer(place, record)
        if place.decision is not None:
            return self._check_repeated_decision(place.decision, place, record, member)
        labels = self._check_decision(place, record)
        self._add_decision(place, record, member, labels)
        self._add_gold(place, resolve_dispute(tuple(labels), labels, self._rules))
        self._set_task_state(
            place, Task.State.ADJUDICATED.value, self._counts[member.membership, place.stratum]
        )
        return True

    def _end_collection(self, place: TaskSlot) -> None:
        """A final decision ends the collection of its response, where everybody who began has submitted."""
        n = place.n_submitted
        if not n or n < place.slots_taken or (self._batch.plan == Batch.Plan.FIXED and n < place.overlap):
            return
        place.overlap = n
        membership = self._members.find_membership_id(place.annotators[0], Membership.Role.ANNOTATOR)
        self._settle(place, self._counts[membership, place.stratum])

    def _may_overrule(self, place: TaskSlot, record: AdjudicationRecord) -> bool:
        """Experts may say otherwise what the annotators agree on, where the batch's policy says so."""
        is_free = place.state == Task.State.AGREED and place.decision is None
        if self._batch.settling != Batch.Settling.EXPERTS or not is_free:
            return False
        settled = _list_settled_values(self._compute_outcome(place))
        return any(record.labels.get(name, value) != value for name, value in settled.items())

    def _overrule(self, place: TaskSlot, record: AdjudicationRecord, member: Member) -> bool:
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
        self._add_decision(place, record, member, labels)
        for name, value in labels.items():
            self._overruled.append((place.pk, name, SettledValue(value, EXPERT)))
        self._set_task_state(
            place, Task.State.ADJUDICATED.value, self._counts[member.membership, place.stratum]
        )
        return True

    def _add_decision(
        self, place: TaskSlot, record: AdjudicationRecord, member: Member, labels: dict[str, Label]
    ) -> None:
        claim = self._claim_adjudication(place, record, member)
        work = Submission(labels=labels, rationale=record.rationale)
        key = self._build_key(record)
        place.decision = Decision(labels, key, claim.id)
        reason = self._reasons.get(record.reason)
        at = record.at or self._now
        content = (labels, record.rationale, record.seconds, reason, key, work.sha256, at)
        self._decisions.append((place.pk, claim.id, next(self._ids), *content))
        self._imported.append((claim.id, record.line, record.round))

    def save(self) -> None:
        """Hand over what the chunk added to be written, in the order in which the constraints want it.

        What it adds to the counts of members waits for ``finish``, and so do tasks that wait for more labels.
        """
        done = []
        for pk, place in self._changed.items():
            if place.is_awaited:
                self._unwritten[pk] = place
            else:
                self._unwritten.pop(pk, None)
                done.append(place)
        self._writes.add([*self._build_labels(), *self._build_gold(), *self._build_task_updates(done)])
        for task, name, settled in self._overruled:
            GoldLabel.objects.filter(task=task, criterion=name).update(**GoldLabel.to_columns(settled))
        self._reset()

    def _build_labels(self) -> Iterator[Write]:
        source = self._intake.run.upload
        assert source is not None, "its labels point to the row of the file"
        times = {"claimed_at": self._now, "lease_expires": self._now}
        claims = list(map(attrgetter("id", "task", "person", "slot", "state", "submitted_at"), self._new))
        yield from build_rows(Assignment, CLAIM_COLUMNS, claims, {"batch_id": self._batch.pk, **times})
        for claim in self._retaken:
            columns = {"state": claim.state, "slot": claim.slot, "submitted_at": claim.submitted_at}
            yield update(Assignment, claim.id, columns)
        channel = {"channel": Channel.IMPORT}
        yield from build_rows(Annotation, ANNOTATION_COLUMNS + self._text_columns, self._annotations, channel)
        yield from build_rows(Adjudication, DECISION_COLUMNS, self._decisions, channel)
        yield from build_rows(ImportedLabel, ORIGIN_COLUMNS, self._imported, {"source_id": source.pk})

    def _build_gold(self) -> Iterator[Write]:
        rows = [(task, name, GoldLabel.to_columns(settled)) for task, name, settled in self._gold]
        columns = tuple(rows[0][-1]) if rows else ()
        yield from build_rows(
            GoldLabel,
            ("task_id", "criterion", *columns),
            [(task, name, *values.values()) for task, name, values in rows],
            {"created_at": self._now},
        )

    def finish(self) -> None:
        """Write what waited for the end: tasks that still wait for labels, and what the whole file added to the counts
        of its members, whose rows are few.
        """
        self._writes.add([*self._build_task_updates(self._unwritten.values())])
        self._unwritten.clear()
        add_member_counts(self._counts)
        self._counts.clear()

    def _build_task_updates(self, places: Iterable[TaskSlot]) -> Iterator[Write]:
        """One statement for all tasks that end alike: there are few ways to end."""
        ids_by_end: dict[tuple[bool, str, int, int], list[int]] = {}
        for place in places:
            end = place.is_moved, place.state, place.slots_taken, place.overlap
            ids_by_end.setdefault(end, []).append(place.pk)
            place.is_moved = False
        for (is_moved, state, slots_taken, overlap), ids in ids_by_end.items():
            values: dict[str, Any] = {"state": state, "slots_taken": slots_taken, "overlap": overlap}
            if is_moved:
                values["settled_at"] = None if state == Task.State.DISPUTED else self._now
                if state != Task.State.DISPUTED:
                    self._settled_tasks.announce(ids, self._now)
            yield build_tasks_update(ids, values)

    def _get_member(self, record: Judgement) -> Member:
        name, role = _name_person(record)
        try:
            return self._members.get(name, role)
        except AssayError as error:
            raise self._intake.add_place(error, record.line, role.value) from error

    def _check_repeated_annotation(
        self, record: AnnotationRecord, stated: StatedRevision, past: Sequence[StatedRevision]
    ) -> bool:
        """The same once more changes nothing, also after a correction here; other labels and texts contradict."""
        if any((revision.labels, revision.texts) == (stated.labels, stated.texts) for revision in past):
            return False
        raise self._build_contradiction(
            record,
            record.annotator,
            past[-1].idempotency_key,
            N_("{name} labelled this response otherwise {where}."),
        )

    def _check_repeated_decision(
        self, decision: Decision, place: TaskSlot, record: AdjudicationRecord, member: Member
    ) -> bool:
        claim = place.claims.get(member.person)
        if claim is not None and claim.id == decision.claim and decision.labels == record.labels:
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
        is_same_file = key.startswith(self._key)
        line = key.removeprefix(self._key)
        where = _("on line {line}").format(line=line) if is_same_file else _("before")
        return self._build_error(record, "labels", template, name=name, where=where)

    def _claim_annotation(self, place: TaskSlot, record: AnnotationRecord, member: Member) -> Claim:
        """The person's claim on a free slot: their own from before, or a new one."""
        past = place.claims.get(member.person)
        if place.state == Task.State.WITHDRAWN:
            raise self._build_error(record, "prompt_id", N_("this response was withdrawn from the batch."))
        if past is not None and past.is_adjudication:
            raise self._build_error(
                record,
                "annotator",
                N_("{name} adjudicates this response and cannot annotate it."),
                name=member.name,
            )
        if past is not None and past.skip_reason:
            raise self._build_error(
                record, "annotator", N_("{name} skipped this response."), name=member.name
            )
        if past is not None and past.state == CLAIMED:
            self._retaken.append(past)
            return past
        slot = find_free_slot(place.slots, place.overlap)
        if slot is None or place.state != Task.State.OPEN:
            raise self._build_error(
                record,
                "annotator",
                N_(
                    "all {overlap} annotations of this response are taken; {name} has none of them. For as many as"
                    " there are, import into a batch with an open plan (--plan open)."
                ),
                overlap=place.overlap,
                name=member.name,
            )
        place.slots_taken += 1
        return self._claim(place, member, past, slot)

    def _claim_adjudication(self, place: TaskSlot, record: AdjudicationRecord, member: Member) -> Claim:
        past, held = place.claims.get(member.person), place.adjudication_claim
        if past is not None and not past.is_adjudication:
            raise self._build_error(
                record,
                "adjudicator",
                N_("{name} had this response to annotate and cannot adjudicate it."),
                name=member.name,
            )
        if past is not None and past.skip_reason:
            raise self._build_error(
                record, "adjudicator", N_("{name} skipped this response."), name=member.name
            )
        if held is not None and held is not past:
            raise self._build_error(record, "adjudicator", N_("someone else is deciding this dispute now."))
        claim = self._claim(place, member, past, ADJUDICATION_SLOT)
        claim.state, claim.submitted_at = SUBMITTED, record.at or self._now
        return claim

    def _claim(self, place: TaskSlot, member: Member, past: Claim | None, slot: int) -> Claim:
        if past is not None:
            past.slot = slot
            self._retaken.append(past)
            return past
        new = Claim(next(self._ids), place.pk, member.person, slot)
        place.add_claim(new)
        self._new.append(new)
        return new

    def _submit(
        self,
        place: TaskSlot,
        record: AnnotationRecord,
        claim: Claim,
        labels: Mapping[str, Label],
        texts: Mapping[str, str],
    ) -> None:
        evidence = self._answers.check_evidence(place, record, labels)
        work = Submission(
            labels={**labels, **texts} if texts else labels,
            rationale=record.rationale,
            evidence=record.evidence,
            flags=record.flags,
        )
        key = self._build_key(record)
        at = record.at or self._now
        sha256 = self._compute_sha256(work)
        content = (labels, record.rationale, evidence, record.flags, record.seconds, key, sha256, at)
        written = (texts,) if self._text_columns else ()
        self._annotations.append((claim.id, next(self._ids), *content, *written))
        self._imported.append((claim.id, record.line, record.round))
        place.submit(claim, StatedRevision(labels, key, texts), at)
        self._changed[place.pk] = place

    def _compute_sha256(self, work: Submission) -> str:
        """Of labels without a word or a mark beside them, which many people gave, it is known."""
        if work.rationale or work.evidence or work.flags or self._text_columns:
            return work.sha256
        key = self._answers.get_key(work.labels)
        known = self._bare_sha256.get(key)
        if known is None:
            known = work.sha256
            if key and len(self._bare_sha256) < MAX_SETTLED:
                self._bare_sha256[key] = known
        return known

    def _settle(self, place: TaskSlot, counts: Counter[str]) -> None:
        outcome = self._compute_outcome(place)
        self._add_gold(place, outcome.settled)
        self._set_task_state(place, outcome.state, counts)

    def _compute_outcome(self, place: TaskSlot) -> Outcome:
        """What follows from the same labels is known: there are few, and many tasks that have them."""
        labels = place.submitted
        if self._batch.settling == Batch.Settling.AGGREGATE and place.state != Task.State.OPEN:
            return _read_outcome(place.pk, labels)
        key = tuple(map(self._answers.get_key, labels))
        known = self._settled.get(key)
        if known is None:
            known = settle(labels, self._rules)
            if all(key) and len(self._settled) < MAX_SETTLED:
                self._settled[key] = known
        return known

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
        if place.state == Task.State.DISPUTED:
            return
        if place.state == Task.State.AGREED:
            template = N_("the annotators agree on this response; there is nothing to decide.")
        else:
            template = N_(
                "this response has {found} of {overlap} annotations; it cannot be decided before it is disputed."
            )
        raise self._build_error(
            record, "adjudicator", template, found=place.n_submitted, overlap=place.overlap
        )

    def _add_gold(self, place: TaskSlot, settled: Mapping[str, SettledValue]) -> None:
        self._gold += [(place.pk, name, value) for name, value in settled.items()]

    def _set_task_state(self, place: TaskSlot, state: str, counts: Counter[str]) -> None:
        counts[place.state] -= 1
        counts[state] += 1
        place.state, place.is_moved = state, True
        self._changed[place.pk] = place

    def _build_key(self, record: Judgement) -> str:
        return f"{self._key}{record.line}"

    def _build_error(self, record: Judgement, field: str, template: str, **params: Any) -> InputError:
        return self._intake.build_error(record.line, field, template, **params)


def _name_person(record: Judgement) -> tuple[str, Membership.Role]:
    if isinstance(record, AnnotationRecord):
        return record.annotator, Membership.Role.ANNOTATOR
    return record.adjudicator, Membership.Role.ADJUDICATOR


def _list_settled_values(outcome: Outcome) -> dict[str, Any]:
    """What is settled, by criterion."""
    return {name: label.value for name, label in outcome.settled.items()}


def _read_outcome(task: int, labels: Sequence[Mapping[str, Any]]) -> Outcome:
    """What a model of all labels settled when the collection ended is stored, and never computed again."""
    gold = GoldLabel.objects.filter(task=task).exclude(source__in=DECIDED)
    settled = {label.criterion: SettledValue(label.label, label.source) for label in gold}
    return Outcome(settled=settled, disputed=tuple(name for name in labels[0] if name not in settled))
