"""What people preferred on slates, as trainers read it (``prompt, chosen, rejected``), and the best answer to each
prompt.

Both are checked by reading the written lines back against the release.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from annotation.core.errors import N_, AssayError, Conflict
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.slates import Preference, list_preferences, name_label
from annotation.selectors.releases.rows import ReleasedRow
from annotation.selectors.releases.sources import TaskSources
from annotation.selectors.slates import EntryContent, SlateContent, read_slates
from annotation.services.exports.base import (
    Chunk,
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    TextFile,
    Writer,
)

OWN_ANSWER = "own_answer"
"""The source of a completion that an annotator wrote."""
_encode = json.JSONEncoder(ensure_ascii=False).encode
Record = dict[str, Any]


class _SlateWriter(Writer):
    """A writer of JSON lines, some of each slate, in one file or more."""

    options = frozenset({"real_names"})
    file_names: tuple[str, ...]

    @abstractmethod
    def list_records(self, slate: SlateRow, spec: ExportSpec, file_name: str) -> Iterator[Record]: ...

    def parts(self, spec: ExportSpec) -> Sequence[Part]:
        if not spec.released.has_slates:
            raise AssayError(
                N_("The release {name} has no slates, and so nothing that was preferred."),
                name=spec.release.name,
            )
        return [self._build_part(name, spec) for name in self.file_names]

    def _build_part(self, name: str, spec: ExportSpec) -> TextFile:
        def chunks(start: int) -> Iterator[Chunk]:
            for position, slates in iterate_slates(spec, start):
                records = (record for slate in slates for record in self.list_records(slate, spec, name))
                yield Chunk("".join(f"{_encode(record)}\n" for record in records), position)

        return TextFile(name, chunks, total=spec.rows)

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        rows = 0
        for name in self.file_names:
            with (folder / name).open(encoding="utf-8") as file:
                for position, slates in iterate_slates(spec, 0):
                    for slate in slates:
                        for record in self.list_records(slate, spec, name):
                            rows += 1
                            if json.loads(file.readline() or "null") != record:
                                raise Conflict(
                                    N_("Line {n} of {file} is not what the release holds."), n=rows, file=name
                                )
                    tell(position)
                if file.readline():
                    raise Conflict(N_("{file} goes on after what the release holds."), file=name)
        return ExportCounts(rows, spec.release.labels)


class SlateRow:
    """A released slate: its gold by criterion, what stands on it, and what people said of it."""

    def __init__(
        self, row: ReleasedRow, task: TaskSources, content: SlateContent, document: GuidelineDocument
    ) -> None:
        self.gold, self.task, self.content, self.document = row.gold, task, content, document
        self.sources = [(entry.model, entry.collection) for entry in content.entries]

    def list_preferences(self, criterion: Criterion) -> list[Preference]:
        label = self.gold.labels.get(criterion.name)
        return [] if label is None else list_preferences(criterion, label, len(self.content.entries))

    def get_entry(self, place: int) -> EntryContent:
        return self.content.entries[place - 1]

    def describe(self) -> Record:
        gold = self.gold
        return {
            "dataset": gold.dataset,
            "prompt_id": gold.prompt_id,
            "dimension": gold.dimension,
            "subcomponent": gold.subcomponent,
            "prompt": self.content.prompt_text,
        }

    def list_labels(self, criterion: Criterion, people: Mapping[int, str]) -> list[Record]:
        """Who said what, in the order of the slots; an adjudicator comes last."""
        return [
            {
                ("adjudicator" if word is self.task.decision else "annotator"): people[word.person],
                "label": name_label(criterion, word.labels[criterion.name], self.sources),
            }
            for word in self.task.words
            if criterion.name in word.labels
        ]


def iterate_slates(spec: ExportSpec, start: int) -> Iterator[tuple[int, list[SlateRow]]]:
    """The released slates a chunk at a time, with the position after each chunk."""
    documents = {(document.name, document.version): document for document in spec.released.documents}
    position = start
    for rows in spec.released.chunks_with_sources(start):
        position += len(rows)
        contents = read_slates([task for row in rows for task in row.tasks])
        yield (
            position,
            [
                SlateRow(
                    row,
                    task,
                    contents[task.task.task],
                    documents[row.gold.guideline, row.gold.guideline_version],
                )
                for row in rows
                for task in row.sources
                if task.task.task in contents
            ],
        )


def to_completion(entry: EntryContent) -> str | list[dict[str, str]]:
    """A text, or the messages of a dialogue as trainers write them."""
    if len(entry.messages) == 1:
        return entry.messages[0]["text"]
    return [{"role": message["role"], "content": message["text"]} for message in entry.messages]


class _Preferences(_SlateWriter):
    name = "preferences"
    title = N_("Preferences")
    about = N_(
        "A JSON object for each pair of responses of a slate: prompt, chosen, rejected, as preference trainers read"
        " them, with what each person said; ties in a file of their own."
    )
    file_names = ("preferences.jsonl", "ties.jsonl")

    def list_records(self, slate: SlateRow, spec: ExportSpec, file_name: str) -> Iterator[Record]:
        for criterion in slate.document.criteria:
            for preference in slate.list_preferences(criterion):
                if preference.is_tie == (file_name == self.file_names[1]):
                    yield self._build_record(slate, criterion, preference, spec)

    def _build_record(
        self, slate: SlateRow, criterion: Criterion, preference: Preference, spec: ExportSpec
    ) -> Record:
        first, second = slate.get_entry(preference.better), slate.get_entry(preference.worse)
        names = ("first", "second") if preference.is_tie else ("chosen", "rejected")
        return {
            **slate.describe(),
            names[0]: to_completion(first),
            names[1]: to_completion(second),
            f"{names[0]}_model": first.model,
            f"{names[1]}_model": second.model,
            f"{names[0]}_collection": first.collection,
            f"{names[1]}_collection": second.collection,
            "criterion": criterion.name,
            "source": slate.gold.sources[criterion.name],
            "labels": slate.list_labels(criterion, spec.people),
            "slate": [list(source) for source in slate.sources],
            "slate_sha256": slate.content.sha256,
            "guideline": slate.gold.guideline,
            "guideline_version": slate.gold.guideline_version,
        }


class _BestAnswers(_SlateWriter):
    name = "sft"
    title = N_("Best answers")
    about = N_(
        "A JSON object for each prompt with the best response of its slate, or the answers that people wrote"
        " where none was good enough: prompt and completion, for supervised fine-tuning."
    )
    file_names = ("sft.jsonl",)

    def list_records(self, slate: SlateRow, spec: ExportSpec, file_name: str) -> Iterator[Record]:
        written = [
            (word.person, text) for word in slate.task.annotations for text in (word.texts or {}).values()
        ]
        if written:
            for person, text in written:
                yield {
                    **slate.describe(),
                    "completion": text,
                    "source": OWN_ANSWER,
                    "author": spec.people[person],
                }
            return
        criterion = next((c for c in slate.document.criteria if c.entries is not None), None)
        if criterion is None or criterion.name not in slate.gold.labels:
            return
        preferences = slate.list_preferences(criterion)
        worse = {preference.worse for preference in preferences if not preference.is_tie}
        compared = {place for each in preferences for place in (each.better, each.worse)}
        for place in sorted(compared - worse):
            entry = slate.get_entry(place)
            yield {
                **slate.describe(),
                "completion": to_completion(entry),
                "source": slate.gold.sources[criterion.name],
                "author": entry.model,
            }


PREFERENCES, BEST_ANSWERS = _Preferences(), _BestAnswers()
