"""A release as Label Studio's JSON, with the labelling configuration that fits it (docs/gold.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from annotation.core.errors import N_
from annotation.domain.formats.label_studio import ADJUDICATOR, ANNOTATOR, GOLD, ROLE
from annotation.domain.formats.label_studio_export import (
    ExportedAnnotation,
    LabelStudioLayout,
    annotation_to_json,
    build_configuration,
    build_layout,
)
from annotation.domain.formats.rows import FileRow, Source, as_number, json_items
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
            TextFile(FILE, tasks.chunks, total=spec.rows, head="[\n", tail="\n]\n"),
            TextFile(CONFIGURATION, configured, total=1),
        ]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        rows = json_items(Source(folder / FILE))
        return check_gold(spec.release, (_read_gold_row(row) for row in rows), tell)


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
                task = self.task(row, [sources[task] for task in row.tasks], position)
                texts.append((",\n" if position > 1 else "") + _encode(task))
            yield Chunk("".join(texts), position)

    def task(self, row: ReleasedRow, places: Sequence[TaskSources], number: int) -> dict[str, Any]:
        gold, response = row.gold, places[0].task.response
        annotations = [
            *(
                self.build_annotation(ANNOTATOR, word, response)
                for place in places
                for word in place.annotations
            ),
            *(
                self.build_annotation(ADJUDICATOR, place.decision, response)
                for place in places
                if place.decision
            ),
            ExportedAnnotation(role=GOLD, labels=dict(sorted(gold.labels.items()))),
        ]
        return {
            "id": number,
            "data": self.data(gold, response),
            "meta": {
                "sources": dict(sorted(gold.sources.items())),
                "batches": [place.task.batch.name for place in places],
                "imported": [self.imported(word) for place in places for word in place.words if word.origin],
            },
            "annotations": [
                annotation_to_json(self.layout, annotated, gold.dimension) for annotated in annotations
            ],
        }

    def imported(self, word: SubmissionSource) -> dict[str, Any]:
        """Whose label came from which line of a file."""
        assert word.origin is not None
        return {"person": self.spec.people[word.person], **word.origin.as_json()}

    def build_annotation(self, role: str, word: SubmissionSource, response: Response) -> ExportedAnnotation:
        with_rationales = self.spec.options.rationales
        return ExportedAnnotation(
            role=role,
            labels=word.labels,
            person=self.spec.people[word.person],
            rationale=word.rationale if with_rationales else "",
            flags=word.flags,
            evidence=word.evidence if with_rationales else (),
            seconds=word.seconds,
            turns=response.turns,
            text=response.text,
        )

    def data(self, gold: GoldRow, response: Response) -> dict[str, Any]:
        prompt = response.prompt
        data = self.layout.data | {
            "prompt": prompt.text,
            "prompt_id": gold.prompt_id,
            "dataset": gold.dataset,
            "dimension": gold.dimension,
            "subcomponent": gold.subcomponent,
            "language": prompt.language,
            "attack_method": prompt.attack_method,
            "model": gold.model,
            "collection": response.collection.name,
            "guideline": gold.guideline,
            "guideline_version": gold.guideline_version,
            "split": gold.split,
        }
        return data | ({"dialogue": response.turns} if response.turns else {"response": response.text})


def _read_gold_row(row: FileRow | Exception) -> GoldRow:
    """The row of the gold file, as it stands in a task that was written."""
    if not isinstance(row, FileRow):
        raise row
    data = row.fields["data"]
    (truth,) = (field for field in row.fields["annotations"] if _find_role(field) == GOLD)
    sources = row.fields["meta"]["sources"]
    return GoldRow(
        dataset=data["dataset"],
        prompt_id=data["prompt_id"],
        dimension=data["dimension"],
        subcomponent=data["subcomponent"],
        model=data["model"],
        response=data.get("dialogue") or data["response"],
        labels={
            result["from_name"]: _read_value(result)
            for result in truth["result"]
            if result["from_name"] in sources
        },
        sources=sources,
        guideline=data["guideline"],
        guideline_version=data["guideline_version"],
    )


def _find_role(annotation_json: Mapping[str, Any]) -> str | None:
    return next(
        (str(r["value"]["choices"][0]) for r in annotation_json["result"] if r["from_name"] == ROLE), None
    )


def _read_value(result: Mapping[str, Any]) -> int | float:
    value = result["value"][result["type"]]
    number = as_number(value[0] if isinstance(value, list) else value)
    assert number is not None, "written by this very export"
    return number
