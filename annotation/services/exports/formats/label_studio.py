"""A release as Label Studio's JSON, with the labelling configuration that fits it (docs/gold.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from annotation.core.errors import N_, InputError
from annotation.domain.formats.label_studio import ADJUDICATOR, ANNOTATOR, GOLD, NA_SUFFIX, ROLE
from annotation.domain.formats.label_studio_export import (
    AnnotationEncoder,
    ExportedAnnotation,
    LabelStudioLayout,
    build_configuration,
    build_layout,
)
from annotation.domain.formats.rows import as_number
from annotation.domain.guidelines import NA, Label
from annotation.domain.releases.gold_file import GoldRow
from annotation.models import Guideline, Response
from annotation.selectors.releases.lineage import SubmissionSource, TaskSources, list_task_sources
from annotation.selectors.releases.rows import ReleasedRow
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
        release = self.spec.release
        used = release.items.order_by().values("task__batch__guideline")
        guidelines = Guideline.objects.filter(pk__in=used).order_by("published_at", "pk")
        responses = Response.objects.filter(tasks__in=release.items.order_by().values("task"))
        return build_layout(
            [guideline.document for guideline in guidelines],
            has_texts=responses.filter(turns=[]).exists(),
            has_dialogues=responses.exclude(turns=[]).exists(),
        )

    def chunks(self, start: int) -> Iterator[Chunk]:
        position = start
        for rows in self.spec.released.chunks(start):
            sources = list_task_sources(self.spec.release, (task for row in rows for task in row.tasks))
            texts = []
            for row in rows:
                position += 1
                task = self.encode_task(row, [sources[task] for task in row.tasks], position)
                texts.append((",\n" if position > 1 else "") + task)
            yield Chunk("".join(texts), position)

    @cached_property
    def _encoder(self) -> AnnotationEncoder:
        return AnnotationEncoder(self.layout)

    def encode_task(self, row: ReleasedRow, places: Sequence[TaskSources], number: int) -> str:
        gold, first = row.gold, places[0]
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
        meta = {
            "sources": dict(sorted(gold.sources.items())),
            "batches": [place.task.batch for place in places],
            "imported": [self.imported(word) for place in places for word in place.words if word.origin],
        }
        encoded = ", ".join([self._encoder.encode(exported, gold.dimension) for exported in annotations])
        data = _encode(self.data(gold, first))
        return f'{{"id": {number}, "data": {data}, "meta": {_encode(meta)}, "annotations": [{encoded}]}}'

    def imported(self, word: SubmissionSource) -> dict[str, Any]:
        """Whose label came from which line of a file."""
        assert word.origin is not None
        return {"person": self.spec.people[word.person], **word.origin.as_json()}

    def build_annotation(self, role: str, word: SubmissionSource, place: TaskSources) -> ExportedAnnotation:
        with_rationales = self.spec.options.rationales
        return ExportedAnnotation(
            role=role,
            labels=word.labels,
            person=self.spec.people[word.person],
            rationale=word.rationale if with_rationales else "",
            flags=word.flags,
            evidence=word.evidence if with_rationales else (),
            seconds=word.seconds,
            turns=place.turns,
            text=place.task.text,
        )

    def data(self, gold: GoldRow, place: TaskSources) -> dict[str, Any]:
        task = place.task
        data = self.layout.data | {
            "prompt": task.prompt_text,
            "prompt_id": gold.prompt_id,
            "dataset": gold.dataset,
            "dimension": gold.dimension,
            "subcomponent": gold.subcomponent,
            "language": task.language,
            "attack_method": task.attack_method,
            "model": gold.model,
            "collection": task.collection,
            "guideline": gold.guideline,
            "guideline_version": gold.guideline_version,
            "split": gold.split,
        }
        return data | ({"dialogue": place.turns} if place.turns else {"response": task.text})


def _read_tasks(path: Path) -> Iterator[dict[str, Any]]:
    """The tasks of the written file, which stand on a line each; InputError where one does not."""
    with path.open(encoding="utf-8", newline="\n") as file:
        next(file, None)
        for number, line in enumerate(file, 2):
            if line == TAIL[1:]:
                return
            try:
                yield json.loads(line.removesuffix(",\n"))
            except ValueError as error:
                raise InputError(
                    N_("this cannot be read: {why}."), path=path.name, line=number, why=str(error)
                ) from error


def _read_gold_row(task: Mapping[str, Any]) -> GoldRow:
    """The row of the gold file, as it stands in a task that was written."""
    data = task["data"]
    (truth,) = (field for field in task["annotations"] if _find_role(field) == GOLD)
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
    )


def _find_role(annotation_json: Mapping[str, Any]) -> str | None:
    return next(
        (str(r["value"]["choices"][0]) for r in annotation_json["result"] if r["from_name"] == ROLE), None
    )


def _read_value(result: Mapping[str, Any]) -> Label:
    value = result["value"][result["type"]]
    if value == [NA]:
        return NA
    number = as_number(value[0] if isinstance(value, list) else value)
    assert number is not None, "written by this very export"
    return number
