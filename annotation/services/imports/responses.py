from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from annotation.content import response_sha256
from annotation.errors import N_, InputError
from annotation.formats import RESPONSES, PromptRecord, PromptRef, ResponseRecord, Source
from annotation.models import Collection, Dataset, EvaluatedModel, Prompt, Response
from annotation.selectors.corpus import dataset_named
from annotation.selectors.imports import newest_response, responses_by_place
from annotation.services.imports.prompts import PromptShelf
from annotation.services.imports.report import ImportReport
from annotation.services.imports.run import PLAIN, Intake, Run, locked

Place = tuple[int, int, int]


@transaction.atomic
def import_responses(
    *,
    source: Source,
    format: str,  # noqa: A002
    dataset: str,
    model: str | None = None,
    collection: str | None = None,
    run: Run = PLAIN,
) -> ImportReport:
    """Take the responses of a file to the dataset's prompts; formats that bring their prompts make what is missing."""
    intake = Intake.open(source, format, RESPONSES, run, model=model, collection=collection)
    store_responses(intake, locked(dataset_named(dataset)))
    return intake.finish(
        target=f"dataset:{dataset}", dataset=dataset, model=intake.origin.model, collection=collection
    )


def store_responses(intake: Intake, dataset: Dataset) -> None:
    """The writing itself, without the transaction and without the record of it."""
    shelf = ResponseShelf(intake, dataset)
    for chunk in intake.chunks(intake.form.response_reader()):
        shelf.put(chunk)


class ResponseShelf:
    """The responses of one dataset while one file is put in."""

    def __init__(self, intake: Intake, dataset: Dataset) -> None:
        self.report = intake.report
        self._intake, self._prompts = intake, PromptShelf(intake, dataset)
        self._models: dict[str, EvaluatedModel] = {}
        self._collections: dict[str, Collection] = {}
        self._before = newest_response()

    def put(self, records: Sequence[ResponseRecord]) -> None:
        prompts = self._prompts_of(records)
        candidates = []
        for record in records:
            try:
                candidates.append((record, self._response(record, prompts)))
            except InputError as error:
                self._intake.problems.add(error)
        self._store(candidates)

    def _prompts_of(self, records: Sequence[ResponseRecord]) -> dict[PromptRef, Prompt]:
        refs = [record.ref for record in records]
        found = self._prompts.find(refs)
        brought = [r.prompt for r in records if r.prompt is not None and not _found_by_text(r.prompt, found)]
        if brought:
            self._intake.report.add_made("prompts", sum(self._prompts.put(brought)))
            found = self._prompts.find(refs)
        return found

    def _response(self, record: ResponseRecord, prompts: dict[PromptRef, Prompt]) -> Response:
        prompt = prompts.get(record.ref)
        if prompt is None:
            raise self._intake.error(
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
            model=self._model(record),
            collection=self._collection(record),
            text=record.text,
            turns=[dict(turn) for turn in record.turns],
            sha256=response_sha256(record.text, record.turns),
        )

    def _store(self, candidates: list[tuple[ResponseRecord, Response]]) -> None:
        stored = responses_by_place(
            (response.prompt_id for _record, response in candidates),
            (response.model_id for _record, response in candidates),
            (response.collection_id for _record, response in candidates),
        )
        lines: dict[Place, int] = {}
        new: list[Response] = []
        for record, response in candidates:
            place = (response.prompt_id, response.model_id, response.collection_id)
            sha256, pk = stored.setdefault(place, (response.sha256, 0))
            if place not in lines and pk == 0:
                lines[place] = record.line
                new.append(response)
                self._intake.report.count(taken=True)
            elif sha256 == response.sha256:
                self._intake.report.count(taken=False)
            else:
                self._intake.problems.add(self._contradiction(record, response, lines.get(place), pk))
        Response.objects.bulk_create(new)

    def _contradiction(
        self, record: ResponseRecord, response: Response, first_line: int | None, pk: int
    ) -> InputError:
        params: dict[str, Any] = {"model": response.model.name, "id": response.prompt.key}
        if pk and pk <= self._before:
            template = N_(
                "another response of {model} to the prompt {id} is stored; name a collection for a second one."
            )
        else:
            template = N_("line {first} has another response of {model} to the prompt {id}; keep one.")
            params["first"] = first_line or self._first_line(record) or "?"
        return self._intake.error(record.line, "response", template, **params)

    def _first_line(self, record: ResponseRecord) -> int | None:
        """Read again rather than remember every line of every file."""
        wanted = (record.ref.key, record.model, record.collection)
        for item in self._intake.form.response_reader().items(self._intake.source.again()):
            if not isinstance(item, InputError) and (item.ref.key, item.model, item.collection) == wanted:
                return item.line
        return None

    def _model(self, record: ResponseRecord) -> EvaluatedModel:
        name = self._intake.model_of(record.line, record.model)
        if name not in self._models:
            self._models[name], made = EvaluatedModel.objects.get_or_create(name=name)
            self._intake.report.add_made("models", int(made))
        return self._models[name]

    def _collection(self, record: ResponseRecord) -> Collection:
        name = record.collection or self._intake.origin.collection or ""
        if name not in self._collections:
            self._collections[name], _made = Collection.objects.get_or_create(name=name)
        return self._collections[name]


def _found_by_text(prompt: PromptRecord, found: dict[PromptRef, Prompt]) -> bool:
    """A prompt without an id that is stored under one of its own: nothing to make."""
    known = found.get(prompt.ref)
    return known is not None and known.key != prompt.ref.key
