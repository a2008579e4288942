"""The labels of a bundle that comes in, and what it says of the tasks that they are of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from django.utils import timezone

from annotation.core.errors import N_, AssayError
from annotation.core.write_behind import WriteBehind
from annotation.domain.batch_spec import MAX_OVERLAP
from annotation.domain.formats import FORMATS, AdjudicationRecord, AnnotationRecord
from annotation.domain.formats.base import Judgement, PromptRef
from annotation.domain.formats.generic import read_prompt_ref
from annotation.domain.formats.rows import FileRow
from annotation.models import Batch, Dataset, LabelPosterior, Response
from annotation.selectors.imports import find_prompts_by_key
from annotation.services.batches.batches import add_tasks
from annotation.services.imports.places import Members, TaskSlots
from annotation.services.imports.replay import Replay
from annotation.services.imports.run import CHUNK, Intake

# Nobody labelled the answers of language models before; at the ends of time no time zone can be reckoned with.
FIRST_YEAR = 1970
_PARSE = FORMATS["jsonl"]
Place: TypeAlias = tuple[str, str | None, str]
"""Of a response the prompt's key, the model and the collection."""


@dataclass(frozen=True)
class TaskRecord:
    """A task of which the bundle says how many ``annotations`` it has; ``probabilities`` are by criterion and level."""

    line: int
    ref: PromptRef
    model: str | None
    collection: str | None
    annotations: int
    probabilities: Mapping[str, Mapping[str, float]]

    @property
    def place(self) -> Place:
        return self.ref.key, self.model, self.collection or ""


def parse_task(row: FileRow) -> Iterator[TaskRecord]:
    number, probabilities = row.fields.get("annotations"), row.fields.get("probabilities") or {}
    if type(number) is not int or not 1 <= number <= MAX_OVERLAP:
        raise row.error(
            N_("this is no number of annotations; it is 1 to {most}."), field="annotations", most=MAX_OVERLAP
        )
    if not isinstance(probabilities, dict) or not all(map(_are_chances, probabilities.values())):
        raise row.error(
            N_('write the probabilities as {{"criterion": {{"1": 0.98, "2": 0.02}}}}.'), field="probabilities"
        )
    ref = read_prompt_ref(row)
    yield TaskRecord(
        row.line, ref, row.optional_name("model"), row.optional_name("collection"), number, probabilities
    )


def _are_chances(chances: object) -> bool:
    return isinstance(chances, dict) and all(
        isinstance(chance, int | float) and not isinstance(chance, bool) and 0 <= chance <= 1
        for chance in chances.values()
    )


class LabelGroup:
    """The labels of one batch on the responses of one dataset."""

    def __init__(
        self, intake: Intake, batch: Batch, dataset: Dataset, members: Members, writes: WriteBehind
    ) -> None:
        self.intake = intake
        self._batch, self._dataset = batch, dataset
        self._places = TaskSlots(intake, batch, dataset, writes)
        self._replay = Replay(intake=intake, batch=batch, members=members, writes=writes)

    def make_tasks(self, keys: Collection[Place], overlaps: Mapping[Place, int] | None = None) -> int:
        """A task for each of these responses that has none yet, with as many labels as ``overlaps`` says."""
        # By the prompts, in no order: a database that is to sort by key walks through all responses of the site.
        prompts = find_prompts_by_key(self._dataset, {key for key, _model, _collection in keys})
        responses = Response.objects.filter(prompt__in=[prompt.pk for prompt in prompts.values()])
        rows = responses.exclude(tasks__batch=self._batch).values_list(
            "pk", "prompt__key", "model__name", "collection__name"
        )
        new: dict[int, Place] = {
            pk: (key, model, name) for pk, key, model, name in rows if (key, model, name) in keys
        }
        if not new:
            return 0
        return add_tasks(
            batch=self._batch,
            responses=Response.objects.filter(pk__in=new).order_by("pk"),
            overlaps=None if overlaps is None else {pk: overlaps[place] for pk, place in new.items()},
        )

    def add_posteriors(self, records: Sequence[TaskRecord]) -> None:
        """Store what the model of all labels said of these tasks; refused of a batch that none settled, and twice."""
        self._places.load(records)
        posteriors: dict[tuple[int, str], LabelPosterior] = {}
        for record in records:
            task = self._places.of(record).pk
            for criterion, chances in record.probabilities.items():
                self._check_posterior(record, criterion, chances)
                stored = LabelPosterior.objects.filter(task=task, criterion=criterion)
                if (task, criterion) in posteriors or stored.exists():
                    raise self.intake.build_error(
                        record.line, "probabilities", N_("this task is in the bundle twice.")
                    )
                posteriors[task, criterion] = LabelPosterior(
                    task_id=task, criterion=criterion, probabilities=dict(chances)
                )
        LabelPosterior.objects.bulk_create(posteriors.values(), batch_size=CHUNK)

    def _check_posterior(self, record: TaskRecord, criterion: str, chances: Mapping[str, float]) -> None:
        is_settled_so = self._batch.settling == Batch.Settling.AGGREGATE
        try:
            levels = {str(value) for value in self._batch.guideline.document.criterion(criterion).values}
        except AssayError as error:
            raise self.intake.add_place(error, record.line, "probabilities") from error
        if not is_settled_so or chances.keys() != levels:
            raise self.intake.build_error(
                record.line,
                "probabilities",
                N_("the batch {batch} has no such probabilities of {criterion}."),
                batch=self._batch.name,
                criterion=criterion,
            )

    def take(self, records: Sequence[Judgement]) -> int:
        self._places.load(records)
        for record in records:
            place = self._places.of(record)
            is_new = (
                self._replay.decide(place, record)
                if isinstance(record, AdjudicationRecord)
                else self._replay.annotate(place, record)
            )
            if not is_new:
                raise self.intake.build_error(record.line, None, N_("this label is in the bundle twice."))
        self._replay.save()
        return len(records)

    def finish(self) -> None:
        self._replay.finish()


def parse_annotation(row: FileRow) -> Iterator[AnnotationRecord]:
    at = _parse_time(row)
    for record in _PARSE.annotation_reader().parse(row):
        if not isinstance(record, AnnotationRecord):
            raise row.error(N_("here stand annotations alone; name the annotator."), field="annotator")
        yield replace(record, at=at)


def parse_adjudication(row: FileRow) -> Iterator[AdjudicationRecord]:
    at = _parse_time(row)
    for record in _PARSE.annotation_reader().parse(row):
        if not isinstance(record, AdjudicationRecord):
            raise row.error(N_("here stand adjudications alone; name the adjudicator."), field="adjudicator")
        yield replace(record, at=at, reason=row.optional("reason", longest=50))


def _parse_time(row: FileRow) -> datetime | None:
    if not row.has("at"):
        return None
    try:
        at = datetime.fromisoformat(row.text("at"))
    except ValueError as error:
        raise row.error(N_("this is no time; write it as 2026-05-01T09:30:00+00:00."), field="at") from error
    if at.tzinfo is None or not FIRST_YEAR <= at.year <= timezone.now().year + 1:
        raise row.error(N_("this is no time; write it as 2026-05-01T09:30:00+00:00."), field="at")
    return at
