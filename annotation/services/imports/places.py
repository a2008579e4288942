"""The tasks that imported labels belong to, with all that was done on them before, and the people who gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Dataset, Membership, Person, Response
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
    TasksByName,
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


@dataclass(slots=True)
class Claim:
    """An assignment as the chunk sees it; ``id`` are the digits of its UUID."""

    id: str
    task: int
    person: int
    slot: int
    state: str = CLAIMED
    skip_reason: str = ""
    submitted_at: datetime | None = None

    @property
    def is_adjudication(self) -> bool:
        return self.slot == ADJUDICATION_SLOT

    @property
    def is_live(self) -> bool:
        return self.state in {CLAIMED, SUBMITTED}


class StatedRevision(NamedTuple):
    """What somebody said of a task, and the key under which it was written."""

    labels: Mapping[str, Any]
    idempotency_key: str
    texts: Mapping[str, str] = MappingProxyType({})


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
    ``is_moved``: the chunk changed the task's state.
    """

    __slots__ = (
        "claims",
        "collection",
        "decision",
        "dimension",
        "is_moved",
        "n_submitted",
        "overlap",
        "pk",
        "response",
        "revisions",
        "slots",
        "slots_taken",
        "sources",
        "state",
        "stratum",
        "subcomponent",
        "texts",
    )

    def __init__(self, task: ImportTask) -> None:
        self.pk, self.stratum, self.response = task.pk, task.stratum, task.response
        self.state, self.overlap, self.slots_taken = task.state, task.overlap, task.slots_taken
        self.dimension, self.subcomponent = task.dimension, task.subcomponent
        self.collection = task.collection
        self.texts: Sequence[str | None] = ()  # what evidence may be marked in, where it was read
        self.sources: Sequence[tuple[str, str]] = ()  # of a slate the model and collection of each entry
        self.claims: dict[int, Claim] = {}  # by person
        self.revisions: dict[int, list[StatedRevision]] = {}  # by person, the current one last
        self.decision: Decision | None = None
        self.slots: set[int] = set()
        self.n_submitted = 0
        self.is_moved = False

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
        self.revisions[claim.person] = [stated]

    @property
    def adjudication_claim(self) -> Claim | None:
        held = (claim for claim in self.claims.values() if claim.is_live and claim.is_adjudication)
        return next(held, None)

    @property
    def annotators(self) -> list[int]:
        """Who submitted, in the order of their slots."""
        claims = [
            claim for claim in self.claims.values() if claim.state == SUBMITTED and not claim.is_adjudication
        ]
        return [claim.person for claim in sorted(claims, key=attrgetter("slot"))]

    @property
    def submitted(self) -> list[Mapping[str, Any]]:
        """The labels that count, in the order of the slots."""
        return [self.revisions[person][-1].labels for person in self.annotators]


class TaskSlots:
    def __init__(self, intake: Intake, batch: Batch, dataset: Dataset | None, writes: WriteBehind) -> None:
        self._intake, self._batch, self._writes = intake, batch, writes
        self._asks_of_turns = batch.guideline.document.asks_of_turns
        self._datasets = [dataset] if dataset is not None else list_datasets(batch)
        self._by_key: TasksByName = {}
        self._by_text: TasksByName = {}
        self._places: dict[int, TaskSlot] = {}

    def load(self, records: Sequence[TaskReference]) -> None:
        """Look up what this chunk is about, in a handful of queries.

        What the chunk before did may not be written yet; the tasks of both, whose rows are locked, are known already.
        While these queries are made, nothing is written: what they bring is put together afterwards.
        """
        model, known = self._intake.origin.model or "", self._places
        refs = {(record.ref.key, record.model or model): record.ref for record in records}
        marked = [
            r for r in records if self._asks_of_turns or (isinstance(r, AnnotationRecord) and r.evidence)
        ]
        with self._writes.reads_ahead():
            self._by_key, self._by_text = lock_tasks(self._batch, self._datasets, refs)
            groups = chain(self._by_key.values(), self._by_text.values())
            tasks = {task.pk: task for task in chain.from_iterable(groups)}
            past = _fetch_past([pk for pk in tasks if pk not in known])
            sources = read_sources([t.response for t in tasks.values()]) if self._batch.of_slates else {}
            texts = self._read_texts(marked)
        self._places = {pk: known.get(pk) or TaskSlot(task) for pk, task in tasks.items()}
        if past is not None:
            self._add_past(past)
        for place in self._places.values():
            place.sources = sources.get(place.response, ())
            place.texts = texts.get(place.response, ())

    def of(self, record: TaskReference) -> TaskSlot:
        """The place that a record speaks of; InputError if there is none, or more than one."""
        model = self._intake.get_model_name(record.line, record.model)
        candidates = self._list_candidates(record)
        if record.collection is not None:
            candidates = [task for task in candidates if task.collection == record.collection]
        if len(candidates) > 1:
            candidates = [task for task in candidates if not task.collection] or candidates
        if len(candidates) != 1:
            raise self._build_error(record, model, len(candidates))
        return self._places[candidates[0].pk]

    def _list_candidates(self, record: TaskReference) -> Sequence[ImportTask]:
        model = record.model or self._intake.origin.model or ""
        by_key = self._by_key.get((record.ref.key, model))
        if by_key or record.ref.id:
            return by_key or ()
        return self._by_text.get((record.ref.text, model), ())

    def _add_past(self, past: _Past) -> None:
        for claim in past.claims.values():
            self._places[claim.task].add_claim(_build_claim(claim))
        for revision in past.revisions:
            claim = past.claims[revision.assignment]
            stated = StatedRevision(revision.labels, revision.idempotency_key, revision.texts)
            self._places[claim.task].revisions.setdefault(claim.person, []).append(stated)
        for decision in past.decisions:
            self._places[decision.task].decision = Decision(
                decision.labels, decision.idempotency_key, decision.assignment
            )

    def _read_texts(self, records: Sequence[TaskReference]) -> dict[int, list[str | None]]:
        """What was answered is long: it is read where something is marked in it, or asked of its turns."""
        responses = {task.response for record in records for task in self._list_candidates(record)}
        texts = read_response_texts(responses) if responses else {}
        return {response: list_markable_texts(*text) for response, text in texts.items()}

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


class _Past(NamedTuple):
    """What is stored of tasks that somebody claimed; the claims by their ids."""

    claims: Mapping[str, StoredClaim]
    revisions: Sequence[StoredRevision]
    decisions: Sequence[StoredDecision]


def _fetch_past(tasks: Sequence[int]) -> _Past | None:
    claims = {claim.id: claim for claim in fetch_stored_claims(tasks)}
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
