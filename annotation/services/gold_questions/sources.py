"""The sources of gold questions: gold that was released or settled in closed batches, and files."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from annotation.core.errors import N_, AssayError, Conflict, InputError, Unprocessable
from annotation.domain.formats import generic
from annotation.domain.formats.base import LABEL
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.rows import FileRow, Source, json_rows
from annotation.domain.gold_questions import Labels, draw_balanced
from annotation.domain.guidelines import GuidelineDocument, Label
from annotation.domain.releases.canonical import number
from annotation.models import (
    Adjudication,
    Batch,
    GoldLabel,
    GoldQuestion,
    GoldRelease,
    Person,
    Response,
    Task,
)
from annotation.selectors.access import refuse_sealed_gold
from annotation.services.gold_questions.gold_questions import (
    MAX_EXPLANATION_LENGTH,
    MAX_ITEMS,
    BatchScope,
    GoldAnswer,
    add_questions,
    refuse_unfit,
)

# Gold that more than one person stands behind.
RELIABLE_SOURCES = (GoldLabel.Source.UNANIMOUS, GoldLabel.Source.ADJUDICATED)
CHUNK = 2000
# Of one kind of labels so many tasks are looked into before the draw; they are drawn from all of a kind alike.
MAX_TASKS_OF_KIND = 2000
FIELDS = frozenset({"prompt_id", "prompt", "model", "collection", "dataset", "labels", "explanation"})


def add_from_release(
    *,
    batch: Batch,
    kind: str,
    release: GoldRelease,
    number: int,
    sources: Sequence[str] = RELIABLE_SOURCES,
    actor: Person | None = None,
) -> list[GoldQuestion]:
    """``number`` of the responses that the release has gold of, by the batch's guideline version."""
    if actor is not None:
        refuse_sealed_gold(actor, release.batches.all())
    labels = release.items.filter(task__batch__guideline=batch.guideline_id)
    rows = labels.values_list("task", "criterion", "value", "source")
    return _add_gold(batch, kind, rows, number, sources=sources, actor=actor)


def add_from_batches(
    *,
    batch: Batch,
    kind: str,
    batches: Sequence[Batch],
    number: int,
    sources: Sequence[str] = RELIABLE_SOURCES,
    actor: Person | None = None,
) -> list[GoldQuestion]:
    """``number`` of the responses that were settled in closed batches of the batch's guideline version."""
    for source_batch in batches:
        if source_batch.state != Batch.State.CLOSED:
            raise Conflict(
                N_("The batch {name} is not closed yet: its gold may still change."), name=source_batch.name
            )
        if source_batch.guideline_id != batch.guideline_id:
            raise AssayError(
                N_("The batch {name} was judged by another guideline version than {wanted}."),
                name=source_batch.name,
                wanted=str(batch.guideline),
            )
    if actor is not None:
        refuse_sealed_gold(actor, batches)
    labels = GoldLabel.objects.filter(task__batch__in=batches, task__kind=Task.Kind.WORK)
    labels = labels.exclude(task__state=Task.State.WITHDRAWN)
    rows = labels.values_list("task", "criterion", "value", "source")
    return _add_gold(batch, kind, rows, number, sources=sources, actor=actor)


def _add_gold(
    batch: Batch, kind: str, rows: Any, number: int, *, sources: Sequence[str], actor: Person | None
) -> list[GoldQuestion]:
    if not 1 <= number <= MAX_ITEMS:
        raise AssayError(N_("Add from 1 to {most} items at once."), most=MAX_ITEMS)
    if not sources:
        raise AssayError(N_("Choose at least one source of gold."))
    candidates = _list_candidates(
        batch, _sample_tasks(_group_by_task(rows), frozenset(sources), seed=_build_seed(batch))
    )
    drawn = draw_balanced(
        ((candidate, candidate.kind) for candidate in candidates), number, seed=_build_seed(batch)
    )
    if len(drawn) < number:
        raise AssayError(
            N_(
                "There are {found} responses with such gold that are neither work nor gold questions "
                "in the batch {name}, and of a dimension and a language of it; ask for no more."
            ),
            found=len(drawn),
            name=batch.name,
        )
    return add_questions(batch=batch, kind=kind, items=_build_answers(drawn), actor=actor)


def _build_seed(batch: Batch) -> int:
    """Another draw each time, and the same one for who tries the same again."""
    return batch.pk * MAX_ITEMS + GoldQuestion.objects.filter(batch=batch).count()


@dataclass(frozen=True, eq=False)
class _SettledTask:
    """A task whose gold can be known: of which response, and the labels."""

    task: int
    response: int
    dimension: str
    labels: Labels

    @property
    def kind(self) -> tuple[str, tuple[tuple[str, Label], ...]]:
        return self.dimension, tuple(sorted(self.labels.items()))


def _group_by_task(rows: Any) -> Iterator[tuple[int, list[tuple[str, float, str]]]]:
    ordered = rows.order_by("task", "criterion").iterator(chunk_size=CHUNK)
    for task, labels in groupby(ordered, key=lambda row: row[0]):
        yield task, [(criterion, number(value), source) for _task, criterion, value, source in labels]


def _sample_tasks(
    tasks: Iterable[tuple[int, list[tuple[str, float, str]]]], sources: frozenset[str], *, seed: int
) -> dict[int, dict[str, float]]:
    """Tasks all of whose gold is of these sources, drawn with equal chances: at most ``MAX_TASKS_OF_KIND`` of each set
    of labels.
    """
    chance = random.Random(seed)  # noqa: S311  # a choice that can be repeated, not a secret
    piles: dict[tuple[tuple[str, float], ...], list[int]] = defaultdict(list)
    seen: dict[tuple[tuple[str, float], ...], int] = defaultdict(int)
    for task, labels in tasks:
        if not all(source in sources for _name, _value, source in labels):
            continue
        kind = tuple((name, value) for name, value, _source in labels)
        seen[kind] += 1
        if len(piles[kind]) < MAX_TASKS_OF_KIND:
            piles[kind].append(task)
        elif (place := chance.randrange(seen[kind])) < MAX_TASKS_OF_KIND:
            piles[kind][place] = task
    return {task: dict(kind) for kind, pile in piles.items() for task in pile}


def _list_candidates(batch: Batch, labels: Mapping[int, Labels]) -> list[_SettledTask]:
    """The tasks whose response can be a gold question of the batch; each response once."""
    worked = BatchScope.from_batch(batch)
    used_responses = set(
        Task.objects.filter(batch=batch, kind=Task.Kind.WORK).values_list("response", flat=True)
    )
    used_responses |= set(GoldQuestion.objects.filter(batch=batch).values_list("response", flat=True))
    document = batch.guideline.document
    candidates: list[_SettledTask] = []
    ids = sorted(labels)
    for start in range(0, len(ids), CHUNK):
        tasks = Task.objects.filter(pk__in=ids[start : start + CHUNK]).order_by("pk")
        rows = tasks.values_list(
            "pk", "response", "stratum__dimension", "response__prompt__subcomponent", "stratum__language"
        )
        for task, response, dimension, subcomponent, language in rows:
            if (
                response in used_responses
                or dimension not in worked.dimensions
                or not _is_complete(document, dimension, subcomponent, labels[task])
                or worked.is_foreign(language)
            ):
                continue
            used_responses.add(response)
            gold_labels = {name: number(value) for name, value in labels[task].items()}
            candidates.append(_SettledTask(task, response, dimension, gold_labels))
    return candidates


def _is_complete(document: GuidelineDocument, dimension: str, subcomponent: str, labels: Labels) -> bool:
    """Whether everything that is asked is settled."""
    try:
        document.check_labels(dimension, labels, subcomponent=subcomponent)
    except Unprocessable:
        return False
    return True


def _build_answers(tasks: Sequence[_SettledTask]) -> list[GoldAnswer]:
    """The answers, each with the rationale of the adjudicator who decided it, if one did."""
    decisions = Adjudication.objects.filter(task__in=[task.task for task in tasks])
    rationales = dict(decisions.values_list("task", "rationale"))
    return [
        GoldAnswer(task.response, task.labels, rationales.get(task.task, "")[:MAX_EXPLANATION_LENGTH])
        for task in tasks
    ]


def add_from_file(
    *, batch: Batch, kind: str, path: str | Path, name: str | None = None, actor: Person | None = None
) -> list[GoldQuestion]:
    """The items of a JSON-lines or CSV file, all or none of them; ``name`` is what errors call it.

    The first thing that is wrong is raised as an InputError, with its line and field.
    """
    source = Source(path, name)
    is_csv = source.name.lower().endswith(".csv")
    rows = csv_rows(source, required=[("prompt_id", "prompt")]) if is_csv else json_rows(source)
    items: dict[int, GoldAnswer] = {}
    reader = _AnswerReader(batch)
    for row in rows:
        if isinstance(row, InputError):
            raise row
        answer = reader.read(row)
        if answer.response in items:
            raise row.error(N_("this response is there twice."), field="prompt_id")
        if len(items) == MAX_ITEMS:
            raise row.error(N_("there are more than {most} items; add them in parts."), most=MAX_ITEMS)
        items[answer.response] = answer
    if not items:
        raise InputError(N_("there are no rows in this file."), path=source.name)
    return add_questions(batch=batch, kind=kind, items=list(items.values()), actor=actor)


class _AnswerReader:
    """Finds the response that a row speaks of, and checks its labels."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def read(self, row: FileRow) -> GoldAnswer:
        unknown = next(
            (field for field in row.fields if field not in FIELDS and not field.startswith(LABEL)), None
        )
        if unknown is not None:
            raise row.error(
                N_("there is no such field here; known are: {known}."),
                field=unknown,
                known=", ".join(sorted(FIELDS)),
            )
        response = get_response(row)
        explanation = row.raw_text("explanation") if row.has("explanation") else ""
        answer = GoldAnswer(response.pk, _read_labels(row), explanation)
        try:
            refuse_unfit(self.batch, response, answer)
        except InputError:
            raise
        except AssayError as error:
            raise row.error(error.template, field="labels", **error.params) from error
        if Task.objects.filter(batch=self.batch, kind=Task.Kind.WORK, response=response).exists():
            raise row.error(
                N_("this response is work in the batch {name}."), field="prompt_id", name=self.batch.name
            )
        if GoldQuestion.objects.filter(batch=self.batch, response=response).exists():
            raise row.error(
                N_("this response is a gold question of the batch {name} already."),
                field="prompt_id",
                name=self.batch.name,
            )
        return answer


def get_response(row: FileRow) -> Response:
    """The response that a row names by its prompt and, as far as they are needed, dataset, model and collection."""
    ref = generic.read_prompt_ref(row)
    model, collection, dataset = (row.optional_name(name) for name in ("model", "collection", "dataset"))
    named = {"prompt__key": ref.key} if ref.id else {"prompt__text": ref.text}
    matches = Response.objects.select_related("prompt").filter(**named)
    for path, value in (("model", model), ("collection", collection), ("prompt__dataset", dataset)):
        matches = matches.filter(**{f"{path}__name": value}) if value is not None else matches
    responses = list(matches.order_by("pk")[:2])
    if not responses:
        raise row.error(N_("there is no such response; import it first."), field="prompt_id")
    if len(responses) > 1:
        raise row.error(
            N_("several responses fit; name the dataset, the model or the collection as well."),
            field="prompt_id",
        )
    return responses[0]


def _read_labels(row: FileRow) -> dict[str, Label]:
    """``labels`` as an object, or the columns ``label.<criterion>``."""
    if isinstance(row.fields.get("labels"), dict):
        return {
            name: generic.read_value(row, "labels", value)
            for name, value in row.fields["labels"].items()
            if value is not None
        }
    columns = [field for field in row.fields if field.startswith(LABEL) and row.has(field)]
    if not columns:
        raise row.error(N_("there is no label; give labels, or a column label.CRITERION."), field="labels")
    return {
        column.removeprefix(LABEL): generic.read_value(row, column, row.fields[column]) for column in columns
    }
