"""The people whom a file of labels names, and their part in the batch."""

from __future__ import annotations

from annotation.errors import N_, AssayError
from annotation.models import Batch, Membership, Person
from annotation.selectors.blindness import has_opened
from annotation.selectors.imports import may_work
from annotation.services.imports.report import ImportReport
from annotation.services.people import add_person


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

    def named(self, name: str, role: Membership.Role) -> Person:
        """The person, as a member in this role; raises AssayError for one who is unknown and not to be made."""
        known = self._people.get((name, role))
        if known is None:
            known = self._people[name, role] = self._person(name)
            self._join(known, role)
        return known

    def membership(self, person: Person, role: Membership.Role) -> int:
        """The id of the membership of somebody who was ``named`` in this role."""
        return self._memberships[person.pk, role]

    def _person(self, name: str) -> Person:
        found = Person.objects.filter(username=name).first()
        if found is not None:
            self._refuse_worker(found)
            return found
        if not self._may_make:
            raise AssayError(
                N_("nobody is named {name}; make the person first (add_person {name})."), name=name
            )
        self._report.add_made("people")
        return add_person(name=name)

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

    def _join(self, person: Person, role: Membership.Role) -> None:
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
