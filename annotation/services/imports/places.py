"""The tasks that imported labels belong to, with all that was done on them before, and the people who gave them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.write_behind import WriteBehind
from annotation.domain.annotations import list_markable_texts
from annotation.domain.formats import AnnotationRecord
from annotation.domain.formats.base import PromptRef
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    Dataset,
    Membership,
    Person,
    Response,
    Task,
)
from annotation.models.sql.imports import (
    ImportTask,
    StoredClaim,
    StoredDecision,
    StoredRevision,
    fetch_stored_claims,
    fetch_stored_decisions,
    fetch_stored_revisions,
)
from annotation.selectors.access import has_opened
from annotation.selectors.imports import (
    ResponseName,
    list_datasets,
    lock_tasks,
    may_work,
    read_response_texts,
)
from annotation.selectors.slates import read_sources
from annotation.services.access import refuse_erased
from annotation.services.imports.run import ImportReport, Intake
from annotation.services.people.people import add_person

CLAIMED, SUBMITTED = Assignment.State.CLAIMED.value, Assignment.State.SUBMITTED.value
OPEN = Task.State.OPEN.value

MAX_AWAITED = 100_000
"""Tasks that are kept in memory until the file has brought the rest of their labels, about a kilobyte each."""


class StatedRevision(NamedTuple):
    """What somebody said of a task, and the key under which it was written."""

    labels: Mapping[str, Any]
    idempotency_key: str
    texts: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class Claim:
    """An assignment as the chunk sees it; ``id`` are the digits of its UUID, the last of ``revisions`` is current."""

    id: str
    task: int
    person: int
    slot: int
    state: str = CLAIMED
    skip_reason: str = ""
    submitted_at: datetime | None = None
    revisions: Sequence[StatedRevision] = ()

    @property
    def is_adjudication(self) -> bool:
        return self.slot == ADJUDICATION_SLOT

    @property
    def is_live(self) -> bool:
        return self.state in {CLAIMED, SUBMITTED}


class Decision(NamedTuple):
    labels: Mapping[str, Any]
    idempotency_key: str
    claim: str  # its id


class TaskReference(Protocol):
    """What a line of a file says of the response that it is about."""

    @property
    def line(self) -> int: ...
    @property
    def ref(self) -> PromptRef: ...
    @property
    def model(self) -> str | None: ...
    @property
    def collection(self) -> str | None: ...


class TaskSlot:
    """A task as the chunk sees it, with what is stored and what the chunk adds. Its row is locked.

    ``slots`` are the annotation slots that somebody holds, ``n_submitted`` is in how many of them labels are.
    ``is_moved``: the chunk changed the task's state. ``is_kept``: later chunks meet the same object for as long as
    labels are missing, and its row is written when none is.
    """

    __slots__ = (
        "claims",
        "collection",
        "decision",
        "dimension",
        "is_kept",
        "is_moved",
        "n_submitted",
        "overlap",
        "pk",
        "response",
        "slots",
        "slots_taken",
        "sources",
        "state",
        "stratum",
        "subcomponent",
        "texts",
    )

    def __init__(self, task: ImportTask, *, is_kept: bool) -> None:
        self.pk, self.stratum, self.response = task.pk, task.stratum, task.response
        self.state, self.overlap, self.slots_taken = task.state, task.overlap, task.slots_taken
        self.dimension, self.subcomponent = task.dimension, task.subcomponent
        self.collection = task.collection
        self.texts: Sequence[str | None] = ()  # what evidence may be marked in, where it was read
        self.sources: Sequence[tuple[str, str]] = ()  # of a slate the model and collection of each entry
        self.claims: dict[int, Claim] = {}  # by person
        self.decision: Decision | None = None
        self.slots: set[int] = set()
        self.n_submitted = 0
        self.is_moved, self.is_kept = False, is_kept

    def add_claim(self, claim: Claim) -> None:
        """The claim of a person, stored or new."""
        self.claims[claim.person] = claim
        if claim.is_live and not claim.is_adjudication:
            self.slots.add(claim.slot)
            self.n_submitted += claim.state == SUBMITTED

    def submit(self, claim: Claim, stated: StatedRevision, at: datetime) -> None:
        """The labels of whoever holds this annotation slot."""
        claim.state, claim.submitted_at = SUBMITTED, at
        self.slots.add(claim.slot)
        self.n_submitted += 1
        claim.revisions = (stated,)

    @property
    def is_awaited(self) -> bool:
        """Whether it is kept for the labels that are missing."""
        return self.is_kept and self.state == OPEN and self.n_submitted < self.overlap

    @property
    def adjudication_claim(self) -> Claim | None:
        held = (claim for claim in self.claims.values() if claim.is_live and claim.is_adjudication)
        return next(held, None)

    @property
    def annotators(self) -> list[int]:
        """Who submitted, in the order of their slots."""
        return [claim.person for claim in self._list_submitted()]

    @property
    def submitted(self) -> list[Mapping[str, Any]]:
        """The labels that count, in the order of the slots."""
        return [claim.revisions[-1].labels for claim in self._list_submitted()]

    def _list_submitted(self) -> list[Claim]:
        claims = [
            claim for claim in self.claims.values() if claim.state == SUBMITTED and not claim.is_adjudication
        ]
        return sorted(claims, key=attrgetter("slot"))


class TaskSlots:
    """``is_new``: the transaction made the batch, so that nothing was done there but what this import did."""

    def __init__(
        self,
        intake: Intake,
        batch: Batch,
        dataset: Dataset | None,
        writes: WriteBehind,
        *,
        is_new: bool = False,
    ) -> None:
        self._intake, self._batch, self._writes, self._is_new = intake, batch, writes, is_new
        self._asks_of_turns = batch.guideline.document.asks_of_turns
        self._datasets = [dataset] if dataset is not None else list_datasets(batch)
        self._candidates: dict[ResponseName, Sequence[TaskSlot]] = {}  # of this chunk
        self._awaited: dict[ResponseName, TaskSlot] = {}
        self._places: dict[int, TaskSlot] = {}  # of this chunk, of the one before, and those that are awaited

    def load(self, records: Sequence[TaskReference]) -> None:
        """Look up what this chunk is about, in a handful of queries.

        What the chunk before did may not be written yet, and what was done on tasks that wait for more labels is not:
        both, whose rows are locked, are known already. While these queries are made, nothing is written: what they
        bring is put together afterwards.
        """
        before = self._candidates
        refs = {self._name_response(record): record.ref for record in records}
        awaited = self._list_awaited(refs)
        missing = {name: ref for name, ref in refs.items() if name not in awaited}
        marked = {
            self._name_response(record)
            for record in records
            if self._asks_of_turns or (isinstance(record, AnnotationRecord) and record.evidence)
        }
        with self._writes.reads_ahead():
            groups = self._lock_tasks(missing) if missing else {}
            tasks = {task.pk: task for task in chain.from_iterable(groups.values())}
            new = [task for pk, task in tasks.items() if pk not in self._places]
            past = _fetch_past([task.pk for task in new if task.slots_taken or not self._is_new])
            sources = read_sources([task.response for task in new]) if self._batch.of_slates else {}
            responses = {task.response for name in marked for task in awaited.get(name) or groups[name]}
            texts = _read_texts(responses) if responses else {}
        unique = {group[0].pk for group in groups.values() if len(group) == 1}
        is_room = len(self._awaited) < MAX_AWAITED
        for task in new:
            self._places[task.pk] = TaskSlot(task, is_kept=is_room and task.pk in unique)
            self._places[task.pk].sources = sources.get(task.response, ())
        if past is not None:
            self._add_past(past)
        looked_up = {name: [self._places[task.pk] for task in group] for name, group in groups.items()}
        self._candidates = awaited | looked_up
        for place in chain.from_iterable(self._candidates.values()):
            place.texts = texts.get(place.response, ())
        self._forget(chain.from_iterable(before.values()), but=tasks.keys())

    def _lock_tasks(
        self, refs: Mapping[ResponseName, PromptRef]
    ) -> Mapping[ResponseName, Sequence[ImportTask]]:
        return lock_tasks(self._batch, self._datasets, refs, is_new=self._is_new)

    def _name_response(self, record: TaskReference) -> ResponseName:
        ref, model = record.ref, record.model or self._intake.origin.model or ""
        return ResponseName(ref.key, bool(ref.id), model, record.collection)

    def _list_awaited(self, names: Iterable[ResponseName]) -> dict[ResponseName, Sequence[TaskSlot]]:
        """Which of these mean a task that waits for labels, after what the chunk before brought."""
        for name, places in self._candidates.items():
            if len(places) == 1 and places[0].is_awaited:
                self._awaited[name] = places[0]
                places[0].texts = ()
            else:
                self._awaited.pop(name, None)
        # One that has another name too may have got its labels under that.
        known = {name: self._awaited.get(name) for name in names}
        return {name: [place] for name, place in known.items() if place is not None and place.is_awaited}

    def _forget(self, places: Iterable[TaskSlot], *, but: Collection[int]) -> None:
        for place in places:
            if place.pk not in but and not place.is_awaited:
                self._places.pop(place.pk, None)

    def of(self, record: TaskReference) -> TaskSlot:
        """The place that a record speaks of; InputError if there is none, or more than one."""
        model = self._intake.get_model_name(record.line, record.model)
        candidates = self._candidates[self._name_response(record)]
        if record.collection is not None:
            candidates = [task for task in candidates if task.collection == record.collection]
        if len(candidates) > 1:
            candidates = [task for task in candidates if not task.collection] or candidates
        if len(candidates) != 1:
            raise self._build_error(record, model, len(candidates))
        return candidates[0]

    def _add_past(self, past: _Past) -> None:
        claims = {id_: _build_claim(claim) for id_, claim in past.claims.items()}
        for claim in claims.values():
            self._places[claim.task].add_claim(claim)
        for revision in past.revisions:
            claim = claims[revision.assignment]
            stated = StatedRevision(revision.labels, revision.idempotency_key, revision.texts)
            claim.revisions = (*claim.revisions, stated)
        for decision in past.decisions:
            self._places[decision.task].decision = Decision(
                decision.labels, decision.idempotency_key, decision.assignment
            )

    def _build_error(self, record: TaskReference, model: str, number: int) -> InputError:
        template, field = self._explain_mismatch(record, model, number)
        return self._intake.build_error(
            record.line, field, template, id=record.ref.key, model=model, batch=self._batch.name
        )

    def _explain_mismatch(self, record: TaskReference, model: str, number: int) -> tuple[str, str]:
        if number:
            return N_(
                "several responses of {model} to the prompt {id} are in the batch {batch}; name the dataset"
                " or the collection."
            ), "prompt_id"
        responses = Response.objects.filter(tasks__batch=self._batch)
        if not responses.filter(prompt__key=record.ref.key).exists():
            return N_("there is no prompt {id} in the batch {batch}."), "prompt_id"
        if not responses.filter(model__name=model).exists():
            return N_("there is no response of a model {model} in the batch {batch}."), "model"
        return N_(
            "there is no such response of {model} to the prompt {id} in the batch {batch}."
        ), "prompt_id"


def _read_texts(responses: Collection[int]) -> dict[int, list[str | None]]:
    """What was answered is long: it is read where something is marked in it, or asked of its turns."""
    return {pk: list_markable_texts(*text) for pk, text in read_response_texts(responses).items()}


class _Past(NamedTuple):
    """What is stored of tasks that somebody claimed; the claims by their ids."""

    claims: Mapping[str, StoredClaim]
    revisions: Sequence[StoredRevision]
    decisions: Sequence[StoredDecision]


def _fetch_past(tasks: Sequence[int]) -> _Past | None:
    claims = {claim.id: claim for claim in fetch_stored_claims(tasks)} if tasks else {}
    if not claims:
        return None
    claimed = [*{claim.task for claim in claims.values()}]
    return _Past(claims, fetch_stored_revisions(list(claims)), fetch_stored_decisions(claimed))


def _build_claim(claim: StoredClaim) -> Claim:
    return Claim(claim.id, claim.task, claim.person, claim.slot, claim.state, claim.skip_reason)


class Member(NamedTuple):
    """A person in one role; ``membership`` is its id."""

    person: int
    name: str
    membership: int


class Members:
    """Whoever labelled is a member: blindness holds for them too. A membership that ended stays ended.

    ``is_own``: an import made the batch. Into any other nothing is written under somebody who can work there.
    """

    def __init__(
        self, batch: Batch, *, may_make: bool, is_own: bool, tell: bool, report: ImportReport
    ) -> None:
        self._batch, self._may_make, self._is_own = batch, may_make, is_own
        self._tell, self._report = tell, report
        self._members: dict[tuple[str, str], Member] = {}
        self._memberships: dict[tuple[int, str], int] = {}

    def has(self, name: str, role: Membership.Role) -> bool:
        return (name, role) in self._members

    def get(self, name: str, role: Membership.Role) -> Member:
        """The person as a member in this role; raises AssayError for one who is unknown and not to be made."""
        known = self._members.get((name, role))
        if known is None:
            person = self._get_or_make_person(name)
            self._add_member(person, role)
            known = Member(person.pk, person.username, self._memberships[person.pk, role])
            self._members[name, role] = known
        return known

    def find_membership_id(self, person: int, role: Membership.Role) -> int:
        """The id of the membership of whoever labelled here, in this file or before."""
        known = self._memberships.get((person, role))
        return known or Membership.objects.only("pk").get(batch=self._batch, person=person, role=role).pk

    def _get_or_make_person(self, name: str) -> Person:
        person = Person.objects.filter(username=name).first()
        if person is not None:
            refuse_erased([person])
            self._refuse_worker(person)
            return person
        if not self._may_make:
            raise AssayError(
                N_("nobody is named {name}; make the person first (add_person {name})."), name=name
            )
        self._report.add_made("people")
        return add_person(name=name, signs_in=False)

    def _refuse_worker(self, person: Person) -> None:
        if not self._is_own and may_work(person, self._batch):
            raise AssayError(
                N_(
                    "{name} can work here, and {batch} was not made by an import: nothing is written there in this"
                    " name. Import the file into a new batch, or name somebody who cannot sign in"
                    " (add_person {name}-imported)."
                ),
                name=person.username,
                batch=self._batch.name,
            )

    def _add_member(self, person: Person, role: Membership.Role) -> None:
        membership, joined = Membership.objects.get_or_create(
            batch=self._batch,
            person=person,
            role=role,
            # What was labelled elsewhere may be theirs; they are given no work of a batch whose results they opened.
            defaults={"active": not has_opened(self._batch, person)},
        )
        self._memberships[person.pk, role] = membership.pk
        if joined and self._tell:
            self._report.note(
                N_("{name} is now a member of the batch ({role})."), name=person.username, role=role.value
            )
