"""A release as Label Studio's JSON, with the labelling configuration that fits it (docs/gold.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from annotation.core.errors import N_, InputError
from annotation.domain.annotations import list_judged_turns, list_markable_texts
from annotation.domain.formats.label_studio import ADJUDICATOR, ANNOTATOR, GOLD, NA_SUFFIX
from annotation.domain.formats.label_studio_export import (
    AnnotationEncoder,
    ExportedAnnotation,
    LabelStudioLayout,
    build_configuration,
    build_layout,
)
from annotation.domain.formats.rows import as_number
from annotation.domain.guidelines import NA, Label
from annotation.domain.releases.gold_file import LABELS_BY_LEVEL, GoldRow
from annotation.models import Response
from annotation.selectors.releases.rows import ReleasedRow
from annotation.selectors.releases.sources import SubmissionSource, TaskSources
from annotation.services.exports.base import (
    Chunk,
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    TextFile,
    Writer,
)
from annotation.services.exports.verification import check_gold

FILE, CONFIGURATION = "label_studio.json", "labeling_config.xml"
HEAD, TAIL = "[\n", "\n]\n"
_encode = json.JSONEncoder(ensure_ascii=False).encode
_quoted = json.encoder.encode_basestring


class _LabelStudio(Writer):
    name = "label_studio"
    title = N_("Label Studio")
    about = N_(
        "JSON that Label Studio imports, with every annotation and decision, and the gold as ground truth."
    )
    options = frozenset({"real_names", "rationales"})

    def parts(self, spec: ExportSpec) -> Sequence[Part]:
        tasks = _TaskRecords(spec)

        def configured(_position: int) -> Iterator[Chunk]:
            yield Chunk(build_configuration(tasks.layout), 1)

        return [
            TextFile(FILE, tasks.chunks, total=spec.rows, head=HEAD, tail=TAIL),
            TextFile(CONFIGURATION, configured, total=1),
        ]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        return check_gold(spec.release, map(_read_gold_row, _read_tasks(folder / FILE)), tell)


LABEL_STUDIO = _LabelStudio()


@dataclass(frozen=True)
class _TaskRecords:
    spec: ExportSpec

    @cached_property
    def layout(self) -> LabelStudioLayout:
        documents = self.spec.released.documents
        responses = Response.objects.filter(tasks__in=self.spec.release.items.order_by().values("task"))
        dialogues = responses.exclude(turns=[])
        has_texts = responses.filter(turns=[]).exists()
        turns = {0} if has_texts else set()
        if any(document.asks_of_turns for document in documents):
            for dialogue in dialogues.order_by().values_list("turns", flat=True).iterator():
                turns |= set(list_judged_turns(list_markable_texts("", dialogue)))
        return build_layout(
            documents, has_texts=has_texts, has_dialogues=dialogues.exists(), turns=sorted(turns)
        )

    def chunks(self, start: int) -> Iterator[Chunk]:
        position = start
        for rows in self.spec.released.chunks_with_sources(start):
            texts = []
            for row in rows:
                position += 1
                task = self.encode_task(row, position)
                texts.append((",\n" if position > 1 else "") + task)
            yield Chunk("".join(texts), position)

    @cached_property
    def _encoder(self) -> AnnotationEncoder:
        return AnnotationEncoder(self.layout)

    def encode_task(self, row: ReleasedRow, number: int) -> str:
        gold, places = row.gold, row.sources
        first = places[0]
        annotations = [
            *(
                self.build_annotation(ANNOTATOR, word, first)
                for place in places
                for word in place.annotations
            ),
            *(
                self.build_annotation(ADJUDICATOR, place.decision, first)
                for place in places
                if place.decision
            ),
            ExportedAnnotation(role=GOLD, labels=dict(sorted(gold.labels.items()))),
        ]
        meta = _encode_meta(
            tuple(sorted(gold.sources.items())),
            tuple([(name, tuple(levels.items())) for name, levels in sorted(gold.labels_by_level.items())]),
            tuple([place.task.batch for place in places]),
        )
        imported = [self.imported(word) for place in places for word in place.words if word.origin]
        meta = f'{{{meta}, "imported": {_encode(imported) if imported else "[]"}}}'
        encoded = ", ".join([self._encoder.encode(exported, gold.dimension) for exported in annotations])
        data = self.encode_data(gold, first)
        return f'{{"id": {number}, "data": {data}, "meta": {meta}, "annotations": [{encoded}]}}'

    def imported(self, word: SubmissionSource) -> dict[str, Any]:
        """Whose label came from which line of a file."""
        assert word.origin is not None
        return {"person": self.spec.people[word.person], **word.origin.as_json()}

    def build_annotation(self, role: str, word: SubmissionSource, place: TaskSources) -> ExportedAnnotation:
        with_rationales = self.spec.options.rationales
        return ExportedAnnotation(
            role=role,
            labels=word.answers if word.texts else word.labels,
            person=self.spec.people[word.person],
            rationale=word.rationale if with_rationales else "",
            flags=word.flags,
            evidence=word.evidence if with_rationales else (),
            seconds=word.seconds,
            turns=place.turns,
            text=place.task.text,
        )

    def encode_data(self, gold: GoldRow, place: TaskSources) -> str:
        """The texts; what the tasks of a prompt share is written once."""
        task = place.task
        texts = {name: _encode(empty) for name, empty in self.layout.data.items()}
        texts |= {"dialogue": _encode(place.turns)} if place.turns else {"response": _quoted(task.text)}
        prompt = _encode_fields(
            ("prompt", task.prompt_text),
            ("prompt_id", gold.prompt_id),
            ("dataset", gold.dataset),
            ("dimension", gold.dimension),
            ("subcomponent", gold.subcomponent),
            ("language", task.language),
            ("attack_method", task.attack_method),
            *((("malice", task.malice),) if task.malice else ()),
        )
        origin = _encode_fields(
            ("model", gold.model),
            ("collection", task.collection),
            ("guideline", gold.guideline),
            ("guideline_version", gold.guideline_version),
            ("split", gold.split),
        )
        response = ", ".join([f'"{name}": {text}' for name, text in texts.items()])
        return f"{{{response}, {prompt}, {origin}}}"


@lru_cache(maxsize=4096)
def _encode_fields(*fields: tuple[str, str | None]) -> str:
    """Without the braces."""
    return _encode(dict(fields))[1:-1]


@lru_cache(maxsize=4096)
def _encode_meta(
    sources: tuple[tuple[str, str], ...],
    counts: tuple[tuple[str, tuple[tuple[str, int], ...]], ...],
    batches: tuple[str, ...],
) -> str:
    """What the tasks of a release share, without the braces."""
    by_level = {name: dict(levels) for name, levels in counts}
    return _encode({"sources": dict(sources), LABELS_BY_LEVEL: by_level, "batches": batches})[1:-1]


def _read_tasks(path: Path) -> Iterator[dict[str, Any]]:
    """The tasks of the written file, which stand on a line each; InputError where one does not."""
    with path.open("rb") as file:
        next(file, None)
        for number, line in enumerate(file, 2):
            if line == TAIL[1:].encode():
                return
            try:
                yield from_json(line.removesuffix(b",\n"))
            except ValueError as error:
                raise InputError(
                    N_("this cannot be read: {why}."), path=path.name, line=number, why=str(error)
                ) from error


def _read_gold_row(task: Mapping[str, Any]) -> GoldRow:
    """The row of the gold file, as it stands in a task that was written."""
    data = task["data"]
    (truth,) = (annotation for annotation in task["annotations"] if annotation["ground_truth"])
    sources = task["meta"]["sources"]
    return GoldRow(
        dataset=data["dataset"],
        prompt_id=data["prompt_id"],
        dimension=data["dimension"],
        subcomponent=data["subcomponent"],
        model=data["model"],
        response=data.get("dialogue") or data["response"],
        labels={
            criterion: _read_value(result)
            for result in truth["result"]
            if (criterion := result["from_name"].removesuffix(NA_SUFFIX)) in sources
        },
        sources=sources,
        guideline=data["guideline"],
        guideline_version=data["guideline_version"],
        labels_by_level=task["meta"][LABELS_BY_LEVEL],
    )


def _read_value(result: Mapping[str, Any]) -> Label:
    value = result["value"][result["type"]]
    if value == [NA]:
        return NA
    numbers = [as_number(part) for part in (value if isinstance(value, list) else [value])]
    assert None not in numbers, "written by this very export"
    return sum(filter(None, numbers))
