"""Taking in labels that judges gave elsewhere: a file whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from django.db import transaction

from annotation.core.errors import N_, Conflict, InputError
from annotation.core.names import check_printable_name
from annotation.core.study_scope import choose_study_id
from annotation.domain.formats import Source, esc_eval
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.slates import place_label
from annotation.models import Collection, Dataset, Guideline, Person, Response, Study
from annotation.selectors.imports import find_prompts_by_place
from annotation.selectors.slates import read_sources
from annotation.services.audit import record
from benchmark.domain.judges.formats import (
    JudgeRecord,
    build_probabilities_error,
    find_model,
    read_judge_labels,
    read_scores,
)
from benchmark.domain.judges.prompts import (
    find_level,
    find_most_likely,
    find_scale_value,
    parse_probabilities,
)
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import Judge, JudgeLabel
from benchmark.selectors.leaderboards.runs import get_collection
from benchmark.services.judges.judges import insert_judge
from scoring.domain.training_data import level_name

CHUNK = 500


@dataclass(frozen=True)
class JudgeFileReport:
    """What became of one file. ``off_scale`` are those of its labels that are no level of the scale."""

    file: str
    sha256: str
    imported: int
    already_there: int
    off_scale: int
    judge: str
    collection: str

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "sha256": self.sha256,
            "taken": self.imported,
            "already_there": self.already_there,
            "off_scale": self.off_scale,
            "judge": self.judge,
            "collection": self.collection,
        }


@dataclass(frozen=True)
class JudgeLabelTarget:
    """Where labels belong. ``model`` is whose responses were judged, where neither a row nor the file's name says."""

    judge: str
    guideline: Guideline
    dataset: Dataset
    collection: Collection
    model: str | None = None


@transaction.atomic
def import_judge_labels(
    *, source: Source, format_name: str, into: JudgeLabelTarget, actor: Person | None = None
) -> JudgeFileReport:
    """Take a file whole or not at all. The same file twice changes nothing; another label of the same is an error."""
    records = list(read_judge_labels(source, format_name))
    if format_name == esc_eval.NAME:
        records = _replace_places(records, into.dataset)
        into = replace(into, model=into.model or esc_eval.find_model(source.name))
    return _store_records(records, source, into, actor)


def _replace_places(records: Sequence[JudgeRecord], dataset: Dataset) -> list[JudgeRecord]:
    """The records with their prompts' ids for the places of these."""
    prompts = find_prompts_by_place(dataset, {judge_record.prompt for judge_record in records})
    for judge_record in records:
        if judge_record.prompt not in prompts:
            raise judge_record.error(
                N_("the dataset {dataset} has no role card at the place {place}."),
                field="id",
                dataset=dataset.name,
                place=judge_record.prompt,
            )
    return [replace(judge_record, prompt=prompts[judge_record.prompt].key) for judge_record in records]


@transaction.atomic
def import_scores(
    *,
    source: Source,
    format_name: str,
    into: JudgeLabelTarget,
    levels: Mapping[str, float],
    actor: Person | None = None,
) -> list[JudgeFileReport]:
    """Take the scores of a harness's log, each scorer as a judge of its name (``into.judge``: only that one), each
    epoch in its collection. The file is taken whole or not at all.
    """
    parts: dict[tuple[str, str], list[JudgeRecord]] = {}
    for score in read_scores(source, format_name, levels):
        if into.judge in {"", score.judge}:
            collection = " ".join(filter(None, (into.collection.name, score.collection)))
            parts.setdefault((score.judge, collection), []).append(replace(score, collection=collection))
    if not parts:
        raise InputError(N_("there are no scores in this log, or none of this judge."), path=source.name)
    return [
        _store_records(
            records, source, replace(into, judge=judge, collection=get_collection(collection)), actor
        )
        for (judge, collection), records in parts.items()
    ]


def _store_records(
    records: list[JudgeRecord], source: Source, into: JudgeLabelTarget, actor: Person | None
) -> JudgeFileReport:
    judge = _lock_judge(into, actor)
    known = _JudgedResponses(into, records, find_model(source.name) if into.model is None else into.model)
    labels: dict[tuple[int, str], JudgeLabel] = {}
    for judge_record in records:
        label = _build_label(judge, known.name_places(judge_record), known, into.guideline.document)
        before = labels.setdefault((label.response_id, label.criterion), label)
        if not _is_same(before, label):
            raise judge_record.error(N_("this response has another label earlier in this file."), field=None)
    lines = {key: judge_record for judge_record, key in zip(records, known.keys, strict=True)}
    new = _list_new(judge, labels, lines)
    for start in range(0, len(new), CHUNK):
        JudgeLabel.objects.bulk_create(new[start : start + CHUNK])
    sha256 = source.sha256
    _add_source(judge, Path(source.name).name, sha256)
    report = JudgeFileReport(
        file=source.name,
        sha256=sha256,
        imported=len(new),
        already_there=len(labels) - len(new),
        off_scale=sum(label.value is None for label in labels.values()),
        judge=judge.name,
        collection=into.collection.name,
    )
    if new:
        record(
            actor=actor,
            verb=BenchmarkVerb.IMPORT_JUDGE_LABELS,
            target=f"judge:{judge.name}",
            **report.as_json(),
        )
    return report


def _lock_judge(into: JudgeLabelTarget, actor: Person | None) -> Judge:
    """The judge, locked; made where there is none."""
    judge = (
        Judge.objects.select_for_update(of=("self",)).filter(name=check_printable_name(into.judge)).first()
    )
    if judge is None:
        return insert_judge(
            study=Study.objects.get(pk=choose_study_id(into.dataset.study_id)),
            name=into.judge,
            guideline=into.guideline,
            kind=Judge.Kind.IMPORTED,
            created_by=actor,
        )
    if judge.kind != Judge.Kind.IMPORTED or judge.guideline_id != into.guideline.pk:
        raise Conflict(
            N_("The judge {name} is there already, for {guideline} ({kind}); choose another name."),
            name=judge.name,
            guideline=judge.guideline,
            kind=judge.get_kind_display(),
        )
    return judge


class _JudgedResponses:
    """The responses that the records name. ``keys`` are filled as the records are resolved, in their order."""

    def __init__(self, into: JudgeLabelTarget, records: Sequence[JudgeRecord], model: str | None) -> None:
        self._into, self._model = into, model
        self.keys: list[tuple[int, str]] = []
        self._responses: dict[tuple[str, str], Response] = {}
        prompts = list({record.prompt for record in records})
        models = {record.model or model for record in records} - {None}
        responses = Response.objects.filter(prompt__dataset=into.dataset, collection=into.collection)
        if len(models) <= CHUNK:  # every database takes so many
            responses = responses.filter(model__name__in=models)
        responses = responses.select_related("prompt", "model").defer("text", "turns", "prompt__text")
        for start in range(0, len(prompts), CHUNK):
            for response in responses.filter(prompt__key__in=prompts[start : start + CHUNK]):
                self._responses[response.prompt.key, response.model.name] = response

    def name_places(self, judge_record: JudgeRecord) -> JudgeRecord:
        """The record with the place of a slate's entry where it names a model, ``tie`` or ``none``."""
        if self._into.guideline.document.unit != "slate" or not judge_record.answer:
            return judge_record
        place = place_label(judge_record.answer, self._sources[self.response(judge_record).pk])
        return replace(judge_record, value=place) if isinstance(place, int) else judge_record

    @cached_property
    def _sources(self) -> dict[int, list[tuple[str, str]]]:
        return read_sources([response.pk for response in self._responses.values()])

    def response(self, judge_record: JudgeRecord) -> Response:
        if judge_record.collection not in {None, self._into.collection.name}:
            raise judge_record.error(
                N_("this is of another collection than {collection}; import it by itself."),
                field="collection",
                collection=repr(self._into.collection.name),
            )
        model = judge_record.model or self._model
        if model is None:
            raise judge_record.error(
                N_("whose response is this? Give the model's name, or --model."), field="model"
            )
        response = self._responses.get((judge_record.prompt, model))
        if response is None:
            raise judge_record.error(
                N_(
                    "{dataset} has no response of {model} to the prompt {prompt} in the collection {collection}."
                ),
                field="id" if judge_record.model is None else "prompt_id",
                dataset=self._into.dataset.name,
                model=model,
                prompt=judge_record.prompt[:60],
                collection=repr(self._into.collection.name),
            )
        if judge_record.sha256 and judge_record.sha256 != response.sha256:
            raise judge_record.error(
                N_(
                    "the response that was judged differs from the stored one; import that as another collection."
                ),
                field="response",
            )
        return response


def _build_label(
    judge: Judge, judge_record: JudgeRecord, known: _JudgedResponses, document: GuidelineDocument
) -> JudgeLabel:
    response = known.response(judge_record)
    criterion = _get_criterion(judge_record, response, document)
    known.keys.append((response.pk, criterion.name))
    probabilities = _parse_probabilities(judge_record, criterion)
    return JudgeLabel(
        judge=judge,
        response=response,
        criterion=criterion.name,
        value=_parse_value(judge_record, criterion, probabilities),
        probabilities={level_name(value): share for value, share in probabilities.items()},
        said=judge_record.answer,
    )


def _get_criterion(judge_record: JudgeRecord, response: Response, document: GuidelineDocument) -> Criterion:
    """The one that the row names, or the only one that is asked of its prompt."""
    prompt = response.prompt
    applicable = document.countable_at(prompt.dimension or None, prompt.subcomponent)
    matching = [criterion for criterion in applicable if judge_record.criterion in {None, criterion.name}]
    if len(matching) != 1:
        raise judge_record.error(
            N_("which criterion is this? Asked of this prompt: {known}."),
            field="criterion",
            known=", ".join(criterion.name for criterion in applicable) or "-",
        )
    return matching[0]


def _parse_probabilities(judge_record: JudgeRecord, criterion: Criterion) -> Mapping[float, float]:
    if not judge_record.probabilities:
        return {}
    probabilities = parse_probabilities(judge_record.probabilities, criterion)
    if probabilities is None:
        raise build_probabilities_error(judge_record)
    return probabilities


def _parse_value(
    judge_record: JudgeRecord, criterion: Criterion, probabilities: Mapping[float, float]
) -> float | None:
    """The level that was meant; None off the scale. Probabilities alone mean the likeliest level."""
    if judge_record.value is not None:
        return find_scale_value(judge_record.value, criterion)
    if judge_record.answer:
        return find_level(judge_record.answer, criterion) if judge_record.is_readable else None
    return find_most_likely(probabilities) if probabilities else None


def _list_new(
    judge: Judge, labels: Mapping[tuple[int, str], JudgeLabel], lines: Mapping[tuple[int, str], JudgeRecord]
) -> list[JudgeLabel]:
    """Those that are not stored; a stored one that is another is an error."""
    stored: dict[tuple[int, str], JudgeLabel] = {}
    ids = sorted({response for response, _criterion in labels})
    for start in range(0, len(ids), CHUNK):
        for label in judge.labels.filter(response__in=ids[start : start + CHUNK]):
            stored[label.response_id, label.criterion] = label
    for key, label in labels.items():
        if key in stored and not _is_same(stored[key], label):
            raise lines[key].error(
                N_("the judge {judge} has another label of this response; a label is never changed."),
                judge=judge.name,
            )
    return [label for key, label in labels.items() if key not in stored]


def _is_same(label: JudgeLabel, other: JudgeLabel) -> bool:
    """The same level with the same probabilities; off the scale, the same words."""
    if label.value != other.value or label.probabilities != other.probabilities:
        return False
    return label.value is not None or label.said == other.said


def _add_source(judge: Judge, file: str, sha256: str) -> None:
    line = f"{sha256}  {file}"
    if line not in judge.source.splitlines():
        judge.source = "\n".join([*judge.source.splitlines(), line])
        judge.save(update_fields=["source"])
