"""Importing prompts and responses into a dataset."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, InputError
from annotation.core.sql import write_rows
from annotation.domain.datasets import prompt_key, response_sha256
from annotation.domain.dialogues import begins_with_greeting, list_faults
from annotation.domain.formats import (
    PROMPTS,
    RESPONSES,
    PromptRecord,
    PromptRef,
    ResponseRecord,
    Source,
)
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Collection, Dataset, DialogueFault, EvaluatedModel, Prompt, Response
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.imports import (
    find_newest_prompt,
    find_newest_response,
    find_prompts_by_key,
    find_prompts_by_place,
    find_prompts_by_text,
    find_responses,
)
from annotation.services.imports.run import PLAIN, ImportReport, Intake, Run, lock_dataset

PROMPT_COLUMNS = (
    "dataset_id",
    "key",
    "text",
    "dimension",
    "subcomponent",
    "language",
    "attack_method",
    "malice",
    "source",
)
RESPONSE_COLUMNS = ("prompt_id", "model_id", "collection_id", "text", "turns", "sha256")


@transaction.atomic
def import_prompts(
    *,
    source: Source,
    format: str,  # noqa: A002
    dataset: str,
    guideline: str | None = None,
    personal_data: str = "",
    run: Run = PLAIN,
) -> ImportReport:
    """Take the prompts of a file into the dataset, which is made if there is none of this name.

    ``guideline``: whose dimensions and subcomponents they must be of. ``personal_data``: ``find`` counts it, ``mask``
    stores the texts with placeholders in its place.
    """
    intake = Intake.open(
        source, format, PROMPTS, run, document=get_document(guideline), personal_data=personal_data
    )
    store = PromptShelf(intake, intake.get_or_make_dataset(dataset))
    for chunk in intake.chunks(intake.form.prompt_reader()):
        for made in store.add_records(chunk):
            intake.report.count(is_new=made)
    return intake.finish(
        target=f"dataset:{dataset}", dataset=dataset, guideline=guideline, personal_data=personal_data
    )


def get_document(guideline: str | None) -> GuidelineDocument | None:
    return get_guideline(guideline).document if guideline else None


def is_same_text(text: str, other: str) -> bool:
    return text == other or unicodedata.normalize("NFC", text) == unicodedata.normalize("NFC", other)


class PromptShelf:
    """The prompts of one dataset while one file is put in."""

    def __init__(self, intake: Intake, dataset: Dataset) -> None:
        self.dataset = dataset
        self._intake = intake
        self._before = find_newest_prompt()

    def add_records(self, records: Sequence[PromptRecord]) -> list[bool]:
        """Make what is missing: for each record that is right, whether its prompt is new."""
        stored = find_prompts_by_key(self.dataset, (record.ref.key for record in records))
        first: dict[str, int] = {}
        new: list[Prompt] = []
        verdicts = []
        for record in records:
            known = stored.get(record.ref.key)
            if not self._intake.check_taxonomy(record):
                continue
            if known is None:
                known = stored[record.ref.key] = self._build_prompt(record)
                first[record.ref.key] = record.line
                new.append(known)
                verdicts.append(True)
            elif self._is_same_prompt(record, known, first.get(record.ref.key)):
                verdicts.append(False)
        write_rows(Prompt, PROMPT_COLUMNS, list(map(attrgetter(*PROMPT_COLUMNS), new)))
        return verdicts

    def find(self, refs: Sequence[PromptRef]) -> dict[PromptRef, Prompt]:
        """The stored prompts that are meant: by id; without one by text, also of a prompt that has an id. An id that is
        not stored means the prompt of its text that came without one.
        """
        if self._intake.form.names_places:
            by_place = find_prompts_by_place(self.dataset, [ref.id for ref in refs])
            return {ref: by_place[ref.id] for ref in refs if ref.id in by_place}
        stored = find_prompts_by_key(self.dataset, (ref.key for ref in refs))
        prompts = {ref: stored[ref.key] for ref in refs if ref.key in stored}
        text_keys = {ref: prompt_key(ref.text) for ref in refs if ref.id and ref.text and ref not in prompts}
        if text_keys:
            without_id = find_prompts_by_key(self.dataset, text_keys.values())
            prompts |= {ref: without_id[key] for ref, key in text_keys.items() if key in without_id}
        refs_without_id = [ref for ref in refs if ref not in prompts and not ref.id]
        if refs_without_id:
            by_text = find_prompts_by_text(self.dataset, (ref.text for ref in refs_without_id))
            prompts |= {
                ref: by_text[ref.text][0] for ref in refs_without_id if len(by_text.get(ref.text, ())) == 1
            }
        return prompts

    def check_wording(self, line: int, ref: PromptRef, prompt: Prompt) -> None:
        """A record that gives an id and a text must mean the stored text."""
        if ref.id and ref.text and not is_same_text(ref.text, prompt.text):
            self._report_difference(line, ref, prompt, None)

    def _build_prompt(self, record: PromptRecord) -> Prompt:
        return Prompt(
            dataset=self.dataset,
            key=record.ref.key,
            text=record.ref.text,
            dimension=record.dimension,
            subcomponent=record.subcomponent,
            language=record.language,
            attack_method=record.attack_method,
            malice=record.malice,
            source=record.source,
        )

    def _is_same_prompt(self, record: PromptRecord, known: Prompt, first_line: int | None) -> bool:
        if not is_same_text(record.ref.text, known.text):
            try:
                self._report_difference(record.line, record.ref, known, first_line)
            except InputError as error:
                self._intake.problems.add(error)
                return False
        self._note_differences(record, known)
        return True

    def _report_difference(self, line: int, ref: PromptRef, known: Prompt, first_line: int | None) -> None:
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
            params["first"] = first_line or self._find_first_line(ref.key) or "?"
            template = N_("the prompt {id} has another text on line {first}; give each text its own id.")
        else:
            template = N_(
                "the prompt {id} is in the dataset {dataset} with another text; give each text its own id."
            )
        raise self._intake.build_error(line, "prompt", template, **params)

    def _find_first_line(self, key: str) -> int | None:
        """Read again rather than remember every line of every file."""
        for reader in (self._intake.form.prompts, self._intake.form.responses):
            for item in reader.items(self._intake.source.reopen()) if reader is not None else ():
                if not isinstance(item, InputError) and item.ref.key == key:
                    return item.line
        return None

    def _note_differences(self, record: PromptRecord, known: Prompt) -> None:
        for field in ("dimension", "subcomponent", "attack_method", "malice", "source"):
            value, stored_value = getattr(record, field), getattr(known, field) or ""
            if value and value != stored_value:
                self._intake.report.note(
                    N_("Prompt {id} has another {field} on line {line}; “{kept}” is kept."),
                    id=record.ref.key,
                    field=field,
                    line=record.line,
                    kept=stored_value,
                )


ResponseKey = tuple[int, int, int]


@transaction.atomic
def import_responses(
    *,
    source: Source,
    format: str,  # noqa: A002
    dataset: str,
    model: str | None = None,
    collection: str | None = None,
    guideline: str | None = None,
    make_dataset: bool = False,
    personal_data: str = "",
    run: Run = PLAIN,
) -> ImportReport:
    """Take the responses of a file to the dataset's prompts; formats that bring their prompts make what is missing.

    ``guideline``: whose dimensions and subcomponents those must be of. ``make_dataset``: a dataset that is not there
    yet is made, as the log of a harness always has it.
    """
    document = get_document(guideline)
    intake = Intake.open(
        source,
        format,
        RESPONSES,
        run,
        model=model,
        collection=collection,
        document=document,
        personal_data=personal_data,
    )
    is_log = intake.form.is_log
    is_made = is_log or make_dataset
    store_responses(
        intake, intake.get_or_make_dataset(dataset) if is_made else lock_dataset(get_dataset(dataset))
    )
    return intake.finish(
        target=f"dataset:{dataset}",
        dataset=dataset,
        model=intake.origin.model,
        collection=collection,
        guideline=guideline,
        personal_data=personal_data,
        settings=_read_settings(intake) if is_log else None,
    )


def _read_settings(intake: Intake) -> dict[str, Any]:
    """What the model of a harness's log was asked with, as its first sample says; the report tells of it."""
    row = next(intake.form.response_reader().rows(intake.source.reopen()), None)
    if row is None or isinstance(row, InputError):
        return {}
    settings = dict(row.fields.get("settings") or {})
    if settings:
        intake.report.note(
            N_("The model was asked with {settings}."),
            settings=", ".join(f"{name}={value}" for name, value in settings.items()),
        )
    return settings


def store_responses(intake: Intake, dataset: Dataset) -> None:
    """The writing itself, without the transaction and without the record of it."""
    store = ResponseShelf(intake, dataset)
    for chunk in intake.chunks(intake.form.response_reader()):
        store.add_records(chunk)


class ResponseShelf:
    """The responses of one dataset while one file is put in."""

    def __init__(self, intake: Intake, dataset: Dataset) -> None:
        self.report = intake.report
        self._intake, self._prompts = intake, PromptShelf(intake, dataset)
        self._models: dict[str, EvaluatedModel] = {}
        self._collections: dict[str, Collection] = {}
        self._before = find_newest_response()

    def add_records(self, records: Sequence[ResponseRecord]) -> None:
        prompts = self._get_prompts(records)
        candidates = []
        for record in records:
            try:
                candidates.append((record, self._build_response(record, prompts)))
            except InputError as error:
                self._intake.problems.add(error)
        self._store(candidates)

    def _get_prompts(self, records: Sequence[ResponseRecord]) -> dict[PromptRef, Prompt]:
        refs = [record.ref for record in records]
        prompts = self._prompts.find(refs)
        new_records = [
            r.prompt
            for r in records
            if r.prompt is not None
            and not _is_stored_by_text(r.prompt, prompts)
            and not (not r.ref.text and r.ref in prompts)  # it means the stored prompt, whatever that says
        ]
        if new_records:
            self._intake.report.add_made("prompts", sum(self._prompts.add_records(new_records)))
            prompts = self._prompts.find(refs)
        return prompts

    def _build_response(self, record: ResponseRecord, prompts: dict[PromptRef, Prompt]) -> Response:
        prompt = prompts.get(record.ref)
        if prompt is None:
            raise self._intake.build_error(
                record.line,
                "prompt_id" if record.ref.id else "prompt",
                N_("there is no prompt {id} in the dataset {dataset}; import its prompts first."),
                id=record.ref.key,
                dataset=self._prompts.dataset.name,
            )
        if record.prompt is None:
            self._prompts.check_wording(record.line, record.ref, prompt)
        return Response(
            prompt=prompt,
            model=self._get_or_make_model(record),
            collection=self._get_or_make_collection(record),
            text=record.text,
            turns=[dict(turn) for turn in record.turns],
            sha256=response_sha256(record.text, record.turns),
        )

    def _store(self, candidates: list[tuple[ResponseRecord, Response]]) -> None:
        stored = find_responses(
            (response.prompt_id for _record, response in candidates),
            (response.model_id for _record, response in candidates),
            (response.collection_id for _record, response in candidates),
        )
        lines: dict[ResponseKey, int] = {}
        new: list[tuple[ResponseRecord, Response]] = []
        for record, response in candidates:
            place = (response.prompt_id, response.model_id, response.collection_id)
            sha256, pk = stored.setdefault(place, (response.sha256, 0))
            if place not in lines and pk == 0:
                lines[place] = record.line
                new.append((record, response))
                self._intake.report.count(is_new=True)
            elif sha256 == response.sha256:
                self._intake.report.count(is_new=False)
            else:
                self._intake.problems.add(self._build_contradiction(record, response, lines.get(place), pk))
        rows = list(map(attrgetter(*RESPONSE_COLUMNS), (response for _record, response in new)))
        write_rows(Response, RESPONSE_COLUMNS, rows, {"created_at": timezone.now()})
        dialogues = [pair for pair in new if pair[1].turns and "entry" not in pair[1].turns[0]]
        self._store_faults(dialogues)

    def _store_faults(self, dialogues: Sequence[tuple[ResponseRecord, Response]]) -> None:
        faults = {}
        for record, response in dialogues:
            has_card = self._intake.form.names_places or begins_with_greeting(response.turns)
            card = response.prompt.text if has_card else None
            if kinds := list_faults(response.turns, card=card, is_cut=record.is_cut):
                faults[response.prompt_id, response.model_id, response.collection_id] = kinds
                self.report.faults.update(kinds)
        if not faults:
            return
        stored = find_responses(*zip(*faults, strict=True))
        DialogueFault.objects.bulk_create(
            DialogueFault(response_id=stored[place][1], kind=kind)
            for place, kinds in faults.items()
            for kind in kinds
        )

    def _build_contradiction(
        self, record: ResponseRecord, response: Response, first_line: int | None, pk: int
    ) -> InputError:
        params: dict[str, Any] = {"model": response.model.name, "id": response.prompt.key}
        if pk and pk <= self._before:
            template = N_(
                "another response of {model} to the prompt {id} is stored; name a collection for a second one."
            )
        else:
            template = N_("line {first} has another response of {model} to the prompt {id}; keep one.")
            params["first"] = first_line or self._find_first_line(record) or "?"
        return self._intake.build_error(record.line, "response", template, **params)

    def _find_first_line(self, record: ResponseRecord) -> int | None:
        """Read again rather than remember every line of every file."""
        key = (record.ref.key, record.model, record.collection)
        for item in self._intake.form.response_reader().items(self._intake.source.reopen()):
            if not isinstance(item, InputError) and (item.ref.key, item.model, item.collection) == key:
                return item.line
        return None

    def _get_or_make_model(self, record: ResponseRecord) -> EvaluatedModel:
        name = self._intake.get_model_name(record.line, record.model)
        if name not in self._models:
            self._models[name], made = EvaluatedModel.objects.get_or_create(name=name)
            self._intake.report.add_made("models", int(made))
        return self._models[name]

    def _get_or_make_collection(self, record: ResponseRecord) -> Collection:
        name = self._intake.name_collection(record.collection)
        if name not in self._collections:
            self._collections[name], _made = Collection.objects.get_or_create(name=name)
        return self._collections[name]


def _is_stored_by_text(prompt: PromptRecord, prompts: dict[PromptRef, Prompt]) -> bool:
    """A prompt without an id that is stored under one of its own: nothing to make."""
    known = prompts.get(prompt.ref)
    return known is not None and known.key != prompt.ref.key
