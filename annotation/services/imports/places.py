"""The tasks that imported labels belong to, with all that was done on them before, and the people who gave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from annotation.core.errors import N_, AssayError, InputError
from annotation.domain.formats import AnnotationRecord
from annotation.domain.formats.base import Judgement
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    Dataset,
    Membership,
    Person,
    Response,
    Task,
)
from annotation.selectors.access import has_opened
from annotation.selectors.imports import list_datasets, lock_tasks, may_work
from annotation.services.imports.run import ImportReport, Intake
from annotation.services.people.people import add_person

LIVE = frozenset({Assignment.State.CLAIMED, Assignment.State.SUBMITTED})


@dataclass
class TaskSlot:
    """A task as the chunk sees it, with what is stored and what the chunk adds. Its row is locked."""

    task: Task
    assignments: dict[int, Assignment] = field(default_factory=dict)  # by person
    revisions: dict[int, list[Annotation]] = field(default_factory=dict)  # by person, the current one last
    decision: Adjudication | None = None

    @property
    def slots(self) -> frozenset[int]:
        """The annotation slots that somebody holds."""
        held = (a.slot for a in self.assignments.values() if a.state in LIVE and not a.is_adjudication)
        return frozenset(held)

    @property
    def adjudication_claim(self) -> Assignment | None:
        held = (a for a in self.assignments.values() if a.state in LIVE and a.is_adjudication)
        return next(held, None)

    @property
    def annotators(self) -> list[int]:
        """Who submitted, in the order of their slots."""
        people = [
            person
            for person, assignment in self.assignments.items()
            if assignment.state == Assignment.State.SUBMITTED and not assignment.is_adjudication
        ]
        return sorted(people, key=lambda person: self.assignments[person].slot)

    @property
    def submitted(self) -> list[Annotation]:
        """The current annotations in the order of their slots."""
        return [self.revisions[person][-1] for person in self.annotators]


class TaskSlots:
    def __init__(self, intake: Intake, batch: Batch, dataset: Dataset | None) -> None:
        self._intake, self._batch = intake, batch
        self._datasets = [dataset] if dataset is not None else list_datasets(batch)
        self._places: dict[int, TaskSlot] = {}
        self._by_key: dict[tuple[str, str], list[Task]] = {}
        self._by_text: dict[tuple[str, str], list[Task]] = {}

    def load(self, records: Sequence[Judgement]) -> None:
        """Look up what this chunk is about, in a handful of queries."""
        self._by_key.clear()
        self._by_text.clear()
        tasks = lock_tasks(
            self._batch,
            self._datasets,
            refs=(record.ref for record in records),
            models=(record.model or self._intake.origin.model or "" for record in records),
            texts=any(isinstance(record, AnnotationRecord) and record.evidence for record in records),
        )
        for task in tasks:
            prompt, model = task.response.prompt, task.response.model.name
            self._by_key.setdefault((prompt.key, model), []).append(task)
            self._by_text.setdefault((prompt.text, model), []).append(task)
        # Every model of the chunk times every prompt was looked up; only what a record speaks of is looked into.
        candidates = (task for record in records for task in self._candidates(record))
        self._places = {task.pk: TaskSlot(task) for task in candidates}
        self._load_past()

    def of(self, record: Judgement) -> TaskSlot:
        """The place that a record speaks of; InputError if there is none, or more than one."""
        model = self._intake.get_model_name(record.line, record.model)
        candidates = self._candidates(record)
        if record.collection is not None:
            candidates = [task for task in candidates if task.response.collection.name == record.collection]
        if len(candidates) > 1:
            candidates = [task for task in candidates if not task.response.collection.name] or candidates
        if len(candidates) != 1:
            raise self._build_error(record, model, len(candidates))
        return self._places[candidates[0].pk]

    def _candidates(self, record: Judgement) -> list[Task]:
        model = record.model or self._intake.origin.model or ""
        by_key = self._by_key.get((record.ref.key, model))
        return by_key or ([] if record.ref.id else self._by_text.get((record.ref.text, model), []))

    def _load_past(self) -> None:
        for assignment in Assignment.objects.filter(task__in=list(self._places)):
            self._places[assignment.task_id].assignments[assignment.person_id] = assignment
        past = Annotation.objects.filter(assignment__task__in=list(self._places))
        for annotation in past.select_related("assignment").order_by("assignment", "revision"):
            place = self._places[annotation.assignment.task_id]
            place.revisions.setdefault(annotation.assignment.person_id, []).append(annotation)
        for decision in Adjudication.objects.filter(task__in=list(self._places)):
            self._places[decision.task_id].decision = decision

    def _build_error(self, record: Judgement, model: str, number: int) -> InputError:
        template, field = self._explain_mismatch(record, model, number)
        return self._intake.build_error(
            record.line, field, template, id=record.ref.key, model=model, batch=self._batch.name
        )

    def _explain_mismatch(self, record: Judgement, model: str, number: int) -> tuple[str, str]:
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


class Members:
    """Whoever labelled is a member: blindness holds for them too. A membership that ended stays ended.

    ``is_own``: an import made the batch. Into any other nothing is written under somebody who can work there.
    """

    def __init__(
        self, batch: Batch, *, may_make: bool, is_own: bool, tell: bool, report: ImportReport
    ) -> None:
        self._batch, self._may_make, self._is_own = batch, may_make, is_own
        self._tell, self._report = tell, report
        self._people: dict[tuple[str, str], Person] = {}
        self._memberships: dict[tuple[int, str], int] = {}

    def get_person(self, name: str, role: Membership.Role) -> Person:
        """The person, as a member in this role; raises AssayError for one who is unknown and not to be made."""
        known = self._people.get((name, role))
        if known is None:
            known = self._people[name, role] = self._get_or_make_person(name)
            self._add_member(known, role)
        return known

    def get_membership_id(self, person: Person, role: Membership.Role) -> int:
        """The id of the membership of somebody who was ``named`` in this role."""
        return self._memberships[person.pk, role]

    def find_membership_id(self, person: int, role: Membership.Role) -> int:
        """The id of the membership of whoever labelled here, in this file or before."""
        known = self._memberships.get((person, role))
        return known or Membership.objects.only("pk").get(batch=self._batch, person=person, role=role).pk

    def _get_or_make_person(self, name: str) -> Person:
        person = Person.objects.filter(username=name).first()
        if person is not None:
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
