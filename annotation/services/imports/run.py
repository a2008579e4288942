"""The import of one file, whatever it brings in: its problems, its report and the row that records it.

A command shows the first problem of a file only, an upload as many as fit on a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import PurePath
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model
from django.utils.translation import gettext

from annotation.core.errors import N_, AssayError, InputError
from annotation.core.names import check_name, check_printable_name
from annotation.domain import dialogues
from annotation.domain.formats import (
    ANNOTATIONS,
    PROMPTS,
    RESPONSES,
    Format,
    PromptRecord,
    Reader,
    Source,
    get_format,
)
from annotation.domain.formats.labels import find_taxonomy_fault
from annotation.domain.formats.mapping.check import NO_MODEL
from annotation.domain.formats.personal_data import PersonalDataScan
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    Dataset,
    GoldLabel,
    Import,
    ImportedLabel,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.services.audit import record
from annotation.services.sharing import refuse_borrowed
from annotation.services.studies import find_or_make_study
from annotation.services.table_statistics import refresh_statistics

T = TypeVar("T")


class ImportRefused(InputError):
    """Reads as the first of its ``problems``."""

    def __init__(self, problems: list[InputError]) -> None:
        first = problems[0]
        super().__init__(first.template, path=first.path, line=first.line, field=first.field, **first.params)
        self.problems = problems


class Problems:
    """Collects up to ``most`` problems, then refuses the file."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._problems: list[InputError] = []

    def add(self, error: InputError) -> None:
        self._problems.append(error)
        if len(self._problems) >= self._most:
            raise ImportRefused(self._problems)

    def refuse_any(self) -> None:
        if self._problems:
            raise ImportRefused(self._problems)

    def sift(self, items: Iterable[T | InputError]) -> Iterator[T]:
        """What is right goes through; what is wrong stays here."""
        for item in items:
            if isinstance(item, InputError):
                self.add(item)
            else:
                yield item


MAX_NOTES = 20
FAULT_NOTES = {
    dialogues.EMPTY: N_("Dialogues with an empty turn: {number}."),
    dialogues.CUT: N_("Dialogues with a turn that the limit of tokens cut off: {number}."),
    dialogues.UNMASKED: N_("Dialogues in which the agent says that it is an AI: {number}."),
    dialogues.CARD_COPIED: N_("Dialogues in which the agent copies its role card out: {number}."),
    dialogues.REPEATED: N_("Dialogues in which a side repeats itself: {number}."),
}


@dataclass(frozen=True)
class ImportNote:
    """Something that a person should know although nothing is wrong; kept untranslated."""

    template: str
    params: dict[str, Any]

    def __str__(self) -> str:
        return gettext(self.template).format(**self.params)

    def as_json(self) -> dict[str, Any]:
        return {"template": self.template, "params": self.params}


@dataclass
class ImportReport:
    """``imported`` and ``already_there`` count what the file is about: prompts, responses, or labels of people.

    ``made`` counts what had to be made beside it: datasets, prompts, people, a batch. ``left_out`` counts what of the
    file was not taken, by the reason: a message with ``{number}``. ``faults`` counts the new dialogues by their faults.
    """

    kind: str
    format: str
    file: str
    imported: int = 0
    already_there: int = 0
    made: dict[str, int] = field(default_factory=dict)
    notes: list[ImportNote] = field(default_factory=list)
    more_notes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    personal_data: PersonalDataScan | None = None

    def count(self, *, is_new: bool) -> None:
        if is_new:
            self.imported += 1
        else:
            self.already_there += 1

    @property
    def written(self) -> int:
        """Rows that were new, of whatever kind."""
        return self.imported + sum(self.made.values())

    def add_made(self, kind: str, number: int = 1) -> None:
        if number:
            self.made[kind] = self.made.get(kind, 0) + number

    def note(self, template: str, **params: Any) -> None:
        """At most so many; of the rest only the number is kept."""
        note = ImportNote(template, params)
        if note in self.notes:
            return
        if len(self.notes) < MAX_NOTES:
            self.notes.append(note)
        else:
            self.more_notes += 1

    def include(self, other: ImportReport) -> None:
        """What a part of the import made and noted."""
        for kind, number in other.made.items():
            self.add_made(kind, number)
        for note in other.notes:
            self.note(note.template, **note.params)
        self.left_out.update(other.left_out)
        self.faults.update(other.faults)
        self.more_notes += other.more_notes

    def list_notes(self) -> list[ImportNote]:
        numbers = [
            *self.left_out.items(),
            *((FAULT_NOTES[kind], n) for kind, n in sorted(self.faults.items())),
        ]
        if self.personal_data is not None:
            numbers += self.personal_data.notes.items()
        counts = [ImportNote(template, {"number": number}) for template, number in numbers]
        if not self.more_notes:
            return [*counts, *self.notes]
        return [
            *counts,
            *self.notes,
            ImportNote(N_("… and {number} more of this kind."), {"number": self.more_notes}),
        ]

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        left_out = [
            {"reason": str(ImportNote(template, {"number": number})), "number": number}
            for template, number in self.left_out.items()
        ]
        return self._build_counts() | {
            "left_out": left_out,
            "faults": dict(self.faults),
            "notes": [str(note) for note in self.list_notes()],
        }

    def to_stored_json(self) -> dict[str, Any]:
        """What the Import row keeps: the notes still in no language."""
        return self._build_counts() | {"notes": [note.as_json() for note in self.list_notes()]}

    def _build_counts(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "format": self.format,
            "file": self.file,
            "taken": self.imported,
            "already_there": self.already_there,
            "made": self.made,
            **({} if self.personal_data is None else {"personal_data": dict(self.personal_data.counts)}),
        }


MAX_REHEARSED_PROBLEMS = 100_000
CHUNK = 1000
LABEL_CHUNK = 4000  # labels are short, and PostgreSQL writes them while the next are read
FILLED_TABLES: dict[str, tuple[type[Model], ...]] = {
    PROMPTS: (Prompt,),
    RESPONSES: (Prompt, Response),
    ANNOTATIONS: (
        Prompt,
        Response,
        Task,
        Assignment,
        Annotation,
        Adjudication,
        GoldLabel,
        ImportedLabel,
    ),
}
"""The tables that a file of each kind may fill."""
Progress = Callable[[float], None]


def _ignore_progress(_fraction: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Run:
    """``most_problems`` is after how many problems the file is refused. ``upload`` is the row of a file that was
    uploaded before; else a row is made. ``progress`` is told the share of the file that was read.
    """

    actor: Person | None = None
    progress: Progress = _ignore_progress
    most_problems: int = 1
    upload: Import | None = None

    def start(self, source: Source) -> Run:
        """With a row of the file that its labels can point to while they are written."""
        if self.upload is not None:
            return self
        row = self.get_or_build_row(source)
        row.save()
        return replace(self, upload=row)

    def get_or_build_row(self, source: Source) -> Import:
        return self.upload or Import(
            study=find_or_make_study(actor=self.actor),
            created_by=self.actor,
            file_name=PurePath(source.name).name[:255],
        )


PLAIN = Run()


@dataclass(frozen=True)
class FileOrigin:
    """Whose responses these are and where they were gathered, for records that do not say it themselves."""

    model: str | None = None
    collection: str | None = None


@dataclass(frozen=True)
class Intake:
    """One file on its way in: what it is, what was found wrong with it, and what became of it.

    ``document``: the guideline whose dimensions the prompts must be of, if one was named.
    """

    source: Source
    form: Format
    run: Run
    report: ImportReport
    problems: Problems
    sha256: str
    origin: FileOrigin = field(default_factory=FileOrigin)
    document: GuidelineDocument | None = None

    @classmethod
    def open(
        cls,
        source: Source,
        format_name: str,
        kind: str,
        run: Run,
        *,
        model: str | None = None,
        collection: str | None = None,
        document: GuidelineDocument | None = None,
        personal_data: str = "",
    ) -> Intake:
        """Refuses an unknown format, one without this kind of content, and a file that is none."""
        form = get_format(format_name)
        form.reader(kind)
        for name in (model, collection):
            if name:
                check_printable_name(name)
        return cls(
            source=source,
            form=form,
            run=run,
            report=ImportReport(
                kind=kind,
                format=form.name,
                file=source.name,
                personal_data=PersonalDataScan(personal_data) if personal_data else None,
            ),
            problems=Problems(run.most_problems),
            sha256=source.sha256,
            origin=FileOrigin(model=model or form.model_of(source.name), collection=collection),
            document=document,
        )

    def chunks(self, reader: Reader[T]) -> Iterator[list[T]]:
        """The good records, some thousands of labels or about a thousand of anything else at a time."""
        size = LABEL_CHUNK if self.report.kind == ANNOTATIONS else CHUNK
        source = self.source.reopen()
        good = self.problems.sift(reader.items(source))
        if self.report.personal_data is not None:
            good = map(self.report.personal_data.scan, good)
        while chunk := list(islice(good, size)):
            yield chunk
            self.run.progress(source.fraction)
        if source.unused:
            self.report.note(N_("Not used: {fields}."), fields=", ".join(source.unused))
        for template, params in source.notes.items():
            self.report.note(template, **params)
        self.report.left_out.update(source.passed_over)

    def check_taxonomy(self, prompt: PromptRecord) -> bool:
        """Whether the guideline that was named knows the prompt's dimension and subcomponent; else it is a problem."""
        if self.document is None:
            return True
        fault = find_taxonomy_fault(self.document, prompt.dimension, prompt.subcomponent)
        if fault is not None:
            self.problems.add(self.add_place(fault.error, prompt.line, fault.field))
        return fault is None

    def build_error(self, line: int, field: str | None, template: str, **params: Any) -> InputError:
        return InputError(template, path=self.source.name, line=line, field=field, **params)

    def add_place(self, error: AssayError, line: int, field: str | None) -> InputError:
        """A rule's refusal, with the place in the file that it is about."""
        return self.build_error(line, field, error.template, **error.params)

    def get_model_name(self, line: int, model: str | None) -> str:
        """The model that a record names, or that was named for the file; the two must not contradict."""
        name = model or self.origin.model
        if name is None:
            raise self.build_error(
                line,
                "model",
                NO_MODEL,
            )
        if self.origin.model not in {None, name}:
            raise self.build_error(
                line,
                "model",
                N_("this row is of {found}, but the file was said to be of {expected}."),
                found=name,
                expected=self.origin.model,
            )
        return name

    def name_collection(self, name: str | None) -> str:
        """The one that a record names, or that was named for the file; an epoch is one of those of the file."""
        file_collection = self.origin.collection or ""
        if name and file_collection and self.form.is_log:
            return check_printable_name(f"{file_collection} {name}")
        return name or file_collection

    def get_or_make_dataset(self, name: str) -> Dataset:
        """The study's dataset of this name, made if there is none."""
        check_name(name)
        study = find_or_make_study(actor=self.run.actor)
        borrowed = Dataset.objects.filter(name=name).exclude(study=study).first()
        if borrowed is not None:
            refuse_borrowed(borrowed)
        dataset, created = Dataset.objects.get_or_create(
            study=study, name=name, defaults={"created_by": self.run.actor}
        )
        self.report.add_made("datasets", int(created))
        return lock_dataset(dataset)

    def finish(self, *, target: str, protocol: str | None = None, **options: Any) -> ImportReport:
        """Refuse the file if anything was wrong; else write down that it was taken, in the same transaction."""
        self.problems.refuse_any()
        row = self.run.get_or_build_row(self.source)
        row.protocol = protocol
        row.kind, row.format, row.sha256 = self.report.kind, self.report.format, self.sha256
        row.options = {name: value for name, value in options.items() if value not in (None, "", False)}
        row.report = self.report.to_stored_json()
        row.save()
        record(
            actor=self.run.actor,
            verb=AnnotationVerb.get(f"import_{self.report.kind}"),
            target=target[:200],
            file=row.file_name,
            sha256=self.sha256,
            taken=self.report.imported,
            already_there=self.report.already_there,
        )
        refresh_statistics(*FILLED_TABLES[self.report.kind], rows=self.report.written)
        return self.report


def lock_dataset(dataset: Dataset) -> Dataset:
    """Two files for one dataset go one after the other."""
    return Dataset.objects.select_for_update(no_key=True).get(pk=dataset.pk)


def rehearse(act: Callable[[Run], T]) -> T | list[InputError]:
    """What an import would report, or what is wrong with the file; nothing of it stays."""
    try:
        with transaction.atomic():
            outcome = act(Run(most_problems=MAX_REHEARSED_PROBLEMS))
            transaction.set_rollback(True)
    except ImportRefused as refusal:
        return refusal.problems
    return outcome
