from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext

from annotation.errors import N_

MOST_NOTES = 20


@dataclass(frozen=True)
class Note:
    """Something that a person should know although nothing is wrong; kept untranslated."""

    template: str
    params: dict[str, Any]

    def __str__(self) -> str:
        return gettext(self.template).format(**self.params)

    def as_json(self) -> dict[str, Any]:
        return {"template": self.template, "params": self.params}


@dataclass
class ImportReport:
    """``taken`` and ``already_there`` count what the file is about: prompts, responses, or labels of people.

    ``made`` counts what had to be made beside it: datasets, prompts, people, a batch.
    """

    kind: str
    format: str
    file: str
    taken: int = 0
    already_there: int = 0
    made: dict[str, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    more_notes: int = 0

    def count(self, *, taken: bool) -> None:
        if taken:
            self.taken += 1
        else:
            self.already_there += 1

    @property
    def written(self) -> int:
        """Rows that were new, of whatever kind."""
        return self.taken + sum(self.made.values())

    def add_made(self, what: str, number: int = 1) -> None:
        if number:
            self.made[what] = self.made.get(what, 0) + number

    def note(self, template: str, **params: Any) -> None:
        """At most so many; of the rest only the number is kept."""
        note = Note(template, params)
        if note in self.notes:
            return
        if len(self.notes) < MOST_NOTES:
            self.notes.append(note)
        else:
            self.more_notes += 1

    def include(self, other: ImportReport) -> None:
        """What a part of the import made and noted."""
        for what, number in other.made.items():
            self.add_made(what, number)
        for note in other.notes:
            self.note(note.template, **note.params)
        self.more_notes += other.more_notes

    def all_notes(self) -> list[Note]:
        if not self.more_notes:
            return self.notes
        return [*self.notes, Note(N_("… and {number} more of this kind."), {"number": self.more_notes})]

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return self._counts() | {"notes": [str(note) for note in self.all_notes()]}

    def stored(self) -> dict[str, Any]:
        """What the Import row keeps: the notes still in no language."""
        return self._counts() | {"notes": [note.as_json() for note in self.all_notes()]}

    def _counts(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "format": self.format,
            "file": self.file,
            "taken": self.taken,
            "already_there": self.already_there,
            "made": self.made,
        }
