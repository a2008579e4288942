"""What stands behind the tasks of a release, as a file that takes it elsewhere needs it: texts, labels, origins."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from annotation.domain.formats.bundle import label_place
from annotation.models import ADJUDICATION_SLOT, Annotation, Assignment, GoldRelease
from annotation.models.sql.releases import (
    SourceText,
    StatedRow,
    fetch_current_annotations,
    fetch_released_decisions,
    fetch_source_texts,
)

NOTHING_MARKED = "[]"
TASK: Final = 3
"""The place of the task in a row of what somebody said."""


class StatedOrigin(NamedTuple):
    """Where a label was imported from: the file, of a bundle with the table in it, its sha256 and the line."""

    file: str
    sha256: str
    line: int

    def as_json(self) -> dict[str, str | int]:
        """As files that leave this site tell of it."""
        return self._asdict()


class SubmissionSource(NamedTuple):
    """What one person said; ``reason`` is an adjudicator's, why the annotators differed.

    ``origin`` is where it was imported from, None where it was given here, and ``round`` in which round it was made
    there; ``labels_json`` is ``labels`` as the database has them. What is alike in many rows is one object: nothing of
    it may be changed.
    """

    person: int
    labels: Mapping[str, Any]
    rationale: str
    evidence: Sequence[Mapping[str, Any]]
    flags: Sequence[str]
    seconds: float | None
    at: datetime | None
    origin: StatedOrigin | None
    labels_json: str
    reason: str = ""
    round: str = ""
    texts: Mapping[str, str] = MappingProxyType({})

    @property
    def answers(self) -> dict[str, Any]:
        """The labels and the texts together."""
        return {**self.labels, **self.texts}


class TaskSources:
    """A task of a release. ``annotations`` are in the order of their slots; ``turns`` those of a dialogue."""

    __slots__ = ("annotations", "decision", "task", "turns")

    def __init__(self, task: SourceText) -> None:
        self.task = task
        self.turns: Sequence[Mapping[str, str]] = _parse_list(task.turns)
        self.annotations: list[SubmissionSource] = []
        self.decision: SubmissionSource | None = None

    @property
    def words(self) -> list[SubmissionSource]:
        return [*self.annotations, *([self.decision] if self.decision else [])]


def list_task_sources(
    release: GoldRelease, tasks: Sequence[int], *, with_times: bool, with_texts: bool
) -> dict[int, TaskSources]:
    """Of these tasks of the release, each with its texts and where they belong.

    ``with_times``: whether annotations tell when they were made, which costs as much as the rest of them.
    ``with_texts``: whether a guideline of the release asks for any.
    """
    sources = {task.task: TaskSources(task) for task in fetch_source_texts(tasks)}
    for row in fetch_current_annotations(tasks, with_times=with_times):
        sources[row[TASK]].annotations.append(_build_source(row, is_decision=False))
    for (task, person), texts in (find_texts(tasks) if with_texts else {}).items():
        annotations = sources[task].annotations
        place = next(n for n, annotation in enumerate(annotations) if annotation.person == person)
        annotations[place] = annotations[place]._replace(texts=_sort_fields(texts))
    for row in fetch_released_decisions(release.pk, tasks):
        sources[row[TASK]].decision = _build_source(row, is_decision=True)
    return sources


def find_texts(tasks: Iterable[int]) -> dict[tuple[int, int], dict[str, str]]:
    """What annotators wrote where the guideline asks for a text: by task and person, by criterion."""
    written = Annotation.objects.filter(
        current=True,
        assignment__task__in=tasks,
        assignment__state=Assignment.State.SUBMITTED,
        assignment__slot__lt=ADJUDICATION_SLOT,
    )
    rows = written.exclude(texts={}).order_by().values_list("assignment__task", "assignment__person", "texts")
    return {(task, person): texts for task, person, texts in rows}


def _build_source(row: StatedRow, *, is_decision: bool) -> SubmissionSource:
    (
        labels,
        evidence,
        flags,
        _task,
        person,
        rationale,
        seconds,
        at,
        reason,
        file,
        form,
        sha256,
        line,
        made_in,
    ) = row
    origin = None
    if file is not None:
        assert form is not None
        assert sha256 is not None
        assert line is not None
        origin = StatedOrigin(label_place(file, form, is_decision=is_decision), sha256, line)
    return SubmissionSource(
        person,
        parse_labels(labels),
        rationale,
        [_sort_fields(span) for span in json.loads(evidence)] if evidence != NOTHING_MARKED else (),
        _parse_list(flags),
        seconds,
        at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at,
        origin,
        labels,
        reason or "",
        made_in or "",
    )


@lru_cache(maxsize=4096)
def parse_labels(labels: str) -> dict[str, Any]:
    return _sort_fields(json.loads(labels))


def _parse_list(text: str) -> Sequence[Any]:
    return json.loads(text) if text != NOTHING_MARKED else ()


def _sort_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """By name: each database keeps them in an order of its own."""
    return {name: fields[name] for name in sorted(fields)}
