"""What is in a gold release, for writing it into files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from annotation.gold import number
from annotation.goldfile import GoldRow
from annotation.models import GoldRelease, Response, Task

CHUNK = 1000
_CONTENT = (
    "task__batch__guideline__name",
    "task__batch__guideline__version",
    "task__response__prompt__dataset__name",
    "task__response__prompt__key",
    "task__response__model__name",
    "task__response__sha256",
)


def release_criteria(release: GoldRelease) -> list[str]:
    """The criteria that the release has labels of, by name."""
    return sorted(release.items.order_by().values_list("criterion", flat=True).distinct())


def gold_rows(release: GoldRelease) -> Iterator[GoldRow]:
    """The rows of the gold file, in the order of guideline, version, dataset, prompt id, model and response.

    Labels of the same response that came from different tasks stand in one row.
    """
    contents = _contents(release)
    for start in range(0, len(contents), CHUNK // 2):
        part = contents[start : start + CHUNK // 2]
        tasks = [task for _content, ids in part for task in ids]
        labels = _labels_by_task(release, tasks)
        responses = _responses_by_task(tasks)
        for content, ids in part:
            yield _gold_row(content, responses[ids[0]], [label for task in ids for label in labels[task]])


def _contents(release: GoldRelease) -> list[tuple[tuple[str, ...], list[int]]]:
    """What was labelled, sorted by code points (no database's collation), with the tasks of each."""
    fields = [*_CONTENT, "task_id"]
    rows = sorted(release.items.order_by().values_list(*fields).distinct())
    return [(content, [row[6] for row in same]) for content, same in groupby(rows, key=lambda row: row[:6])]


def _labels_by_task(release: GoldRelease, tasks: Sequence[int]) -> dict[int, list[tuple[str, float, str]]]:
    found: dict[int, list[tuple[str, float, str]]] = {task: [] for task in tasks}
    for label in release.items.filter(task__in=tasks).order_by("criterion"):
        found[label.task_id].append((label.criterion, label.value, label.source))
    return found


def _responses_by_task(tasks: Sequence[int]) -> Mapping[int, Response]:
    found = Task.objects.filter(pk__in=tasks).select_related("response__prompt")
    return {task.pk: task.response for task in found}


def _gold_row(
    content: tuple[str, ...], response: Response, labels: Sequence[tuple[str, float, str]]
) -> GoldRow:
    guideline, version, dataset, prompt, model, _sha256 = content
    return GoldRow(
        dataset=dataset,
        prompt_id=prompt,
        dimension=response.prompt.dimension,
        subcomponent=response.prompt.subcomponent,
        model=model,
        response=response.turns or response.text,
        labels={criterion: number(value) for criterion, value, _source in labels},
        sources={criterion: source for criterion, _value, source in labels},
        guideline=guideline,
        guideline_version=version,
    )
