from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from annotation.errors import N_, InputError
from annotation.formats import PROMPTS, PromptRecord, PromptRef, Source
from annotation.models import Dataset, Prompt
from annotation.selectors.imports import newest_prompt, prompts_by_key, prompts_by_text
from annotation.services.imports.report import ImportReport
from annotation.services.imports.run import PLAIN, Intake, Run


@transaction.atomic
def import_prompts(*, source: Source, format: str, dataset: str, run: Run = PLAIN) -> ImportReport:  # noqa: A002
    """Take the prompts of a file into the dataset, which is made if there is none of this name."""
    intake = Intake.open(source, format, PROMPTS, run)
    shelf = PromptShelf(intake, intake.dataset(dataset))
    for chunk in intake.chunks(intake.form.prompt_reader()):
        for made in shelf.put(chunk):
            intake.report.count(taken=made)
    return intake.finish(target=f"dataset:{dataset}", dataset=dataset)


def same_text(one: str, other: str) -> bool:
    return one == other or unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


class PromptShelf:
    """The prompts of one dataset while one file is put in."""

    def __init__(self, intake: Intake, dataset: Dataset) -> None:
        self.dataset = dataset
        self._intake = intake
        self._before = newest_prompt()

    def put(self, records: Sequence[PromptRecord]) -> list[bool]:
        """Make what is missing: for each record that is right, whether its prompt is new."""
        stored = prompts_by_key(self.dataset, (record.ref.key for record in records))
        first: dict[str, int] = {}
        new: list[Prompt] = []
        verdicts = []
        for record in records:
            known = stored.get(record.ref.key)
            if known is None:
                known = stored[record.ref.key] = self._prompt(record)
                first[record.ref.key] = record.line
                new.append(known)
                verdicts.append(True)
            elif self._agrees(record, known, first.get(record.ref.key)):
                verdicts.append(False)
        Prompt.objects.bulk_create(new)
        return verdicts

    def find(self, refs: Sequence[PromptRef]) -> dict[PromptRef, Prompt]:
        """The stored prompts that are meant: by id; without one by text, also of a prompt that has an id."""
        stored = prompts_by_key(self.dataset, (ref.key for ref in refs))
        found = {ref: stored[ref.key] for ref in refs if ref.key in stored}
        loose = [ref for ref in refs if ref not in found and not ref.id]
        if loose:
            by_text = prompts_by_text(self.dataset, (ref.text for ref in loose))
            found |= {ref: by_text[ref.text][0] for ref in loose if len(by_text.get(ref.text, ())) == 1}
        return found

    def check_wording(self, line: int, ref: PromptRef, prompt: Prompt) -> None:
        """A record that gives an id and a text must mean the stored text."""
        if ref.id and ref.text and not same_text(ref.text, prompt.text):
            self._differs(line, ref, prompt, None)

    def _prompt(self, record: PromptRecord) -> Prompt:
        return Prompt(
            dataset=self.dataset,
            key=record.ref.key,
            text=record.ref.text,
            dimension=record.dimension,
            subcomponent=record.subcomponent,
            language=record.language,
            attack_method=record.attack_method,
        )

    def _agrees(self, record: PromptRecord, known: Prompt, first_line: int | None) -> bool:
        if not same_text(record.ref.text, known.text):
            try:
                self._differs(record.line, record.ref, known, first_line)
            except InputError as error:
                self._intake.problems.add(error)
                return False
        self._note_differences(record, known)
        return True

    def _differs(self, line: int, ref: PromptRef, known: Prompt, first_line: int | None) -> None:
        """Another wording is an error; of prompts that are joined on their id, a note, unless one file has both."""
        in_this_file = known.pk is None or known.pk > self._before
        params: dict[str, Any] = {"id": ref.key, "dataset": self.dataset.name}
        if not in_this_file and self._intake.form.joins_on_id:
            self._intake.report.note(
                N_("Prompt {id} is worded differently on line {line}; the first wording is kept."),
                line=line,
                **params,
            )
            return
        if in_this_file:
            params["first"] = first_line or self._first_line(ref.key) or "?"
            template = N_("the prompt {id} has another text on line {first}; give each text its own id.")
        else:
            template = N_(
                "the prompt {id} is in the dataset {dataset} with another text; give each text its own id."
            )
        raise self._intake.error(line, "prompt", template, **params)

    def _first_line(self, key: str) -> int | None:
        """Read again rather than remember every line of every file."""
        for reader in (self._intake.form.prompts, self._intake.form.responses):
            for item in reader.items(self._intake.source.again()) if reader is not None else ():
                if not isinstance(item, InputError) and item.ref.key == key:
                    return item.line
        return None

    def _note_differences(self, record: PromptRecord, known: Prompt) -> None:
        for field in ("dimension", "subcomponent"):
            given, kept = getattr(record, field), getattr(known, field)
            if given and given != kept:
                self._intake.report.note(
                    N_("Prompt {id} has another {field} on line {line}; “{kept}” is kept."),
                    id=record.ref.key,
                    field=field,
                    line=record.line,
                    kept=kept,
                )
