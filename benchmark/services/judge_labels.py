"""Taking in labels that judges gave elsewhere: a file whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import transaction

from annotation.errors import N_, Conflict
from annotation.formats import Source
from annotation.guidelines import Criterion, GuidelineDocument
from annotation.models import Collection, Dataset, Guideline, Person, Response
from annotation.names import check_name
from annotation.services.audit import record
from annotation.services.imports.run import sha256_of
from benchmark.models import Judge, JudgeLabel
from benchmark.services.judges import insert_judge
from scoring.dataset import level_name

from ..judges.files import JudgeRecord, model_of, read_judge_labels, refuse_probabilities
from ..judges.judging import (
    most_likely,
    on_scale,
    read_label,
    read_probabilities,
)

CHUNK = 500


@dataclass(frozen=True)
class FileReport:
    """What became of one file. ``off_scale`` are those of its labels that are no level of the scale."""

    file: str
    sha256: str
    taken: int
    already_there: int
    off_scale: int

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "sha256": self.sha256,
            "taken": self.taken,
            "already_there": self.already_there,
            "off_scale": self.off_scale,
        }


@dataclass(frozen=True)
class Into:
    """Where labels belong. ``model`` is whose responses were judged, where neither a row nor the file's name says."""

    judge: str
    guideline: Guideline
    dataset: Dataset
    collection: Collection
    model: str | None = None


@transaction.atomic
def import_judge_labels(
    *, source: Source, format_name: str, into: Into, actor: Person | None = None
) -> FileReport:
    """Take a file whole or not at all. The same file twice changes nothing; another label of the same is an error."""
    records = list(read_judge_labels(source, format_name))
    judge = _importing(into, actor)
    known = _Known(into, records, model_of(source.name) if into.model is None else into.model)
    wanted: dict[tuple[int, str], JudgeLabel] = {}
    for one in records:
        label = _label(judge, one, known, into.guideline.document)
        before = wanted.setdefault((label.response_id, label.criterion), label)
        if not _same(before, label):
            raise one.error(N_("this response has another label earlier in this file."), field=None)
    lines = {key: one for one, key in zip(records, known.keys, strict=True)}
    new = _new(judge, wanted, lines)
    for start in range(0, len(new), CHUNK):
        JudgeLabel.objects.bulk_create(new[start : start + CHUNK])
    sha256 = sha256_of(source)
    _add_source(judge, Path(source.name).name, sha256)
    report = FileReport(
        file=source.name,
        sha256=sha256,
        taken=len(new),
        already_there=len(wanted) - len(new),
        off_scale=sum(label.value is None for label in wanted.values()),
    )
    if new:
        record(actor=actor, verb="import_judge_labels", target=f"judge:{judge.name}", **report.as_json())
    return report


def _importing(into: Into, actor: Person | None) -> Judge:
    """The judge, locked; made where there is none."""
    found = Judge.objects.select_for_update(of=("self",)).filter(name=check_name(into.judge)).first()
    if found is None:
        return insert_judge(
            name=into.judge, guideline=into.guideline, kind=Judge.Kind.IMPORTED, created_by=actor
        )
    if found.kind != Judge.Kind.IMPORTED or found.guideline_id != into.guideline.pk:
        raise Conflict(
            N_("The judge {name} is there already, for {guideline} ({kind}); choose another name."),
            name=found.name,
            guideline=found.guideline,
            kind=found.get_kind_display(),
        )
    return found


class _Known:
    """The responses that the records name. ``keys`` are filled as the records are resolved, in their order."""

    def __init__(self, into: Into, records: Sequence[JudgeRecord], model: str | None) -> None:
        self._into, self._model = into, model
        self.keys: list[tuple[int, str]] = []
        self._responses: dict[tuple[str, str], Response] = {}
        prompts = list({record.prompt for record in records})
        models = {record.model or model for record in records} - {None}
        here = Response.objects.filter(prompt__dataset=into.dataset, collection=into.collection)
        if len(models) <= CHUNK:  # every database takes so many
            here = here.filter(model__name__in=models)
        here = here.select_related("prompt", "model").defer("text", "turns", "prompt__text")
        for start in range(0, len(prompts), CHUNK):
            for one in here.filter(prompt__key__in=prompts[start : start + CHUNK]):
                self._responses[one.prompt.key, one.model.name] = one

    def response(self, one: JudgeRecord) -> Response:
        if one.collection not in {None, self._into.collection.name}:
            raise one.error(
                N_("this is of another collection than {collection}; import it by itself."),
                field="collection",
                collection=repr(self._into.collection.name),
            )
        model = one.model or self._model
        if model is None:
            raise one.error(N_("whose response is this? Give the model's name, or --model."), field="model")
        found = self._responses.get((one.prompt, model))
        if found is None:
            raise one.error(
                N_(
                    "{dataset} has no response of {model} to the prompt {prompt} in the collection {collection}."
                ),
                field="id" if one.model is None else "prompt_id",
                dataset=self._into.dataset.name,
                model=model,
                prompt=one.prompt[:60],
                collection=repr(self._into.collection.name),
            )
        if one.sha256 and one.sha256 != found.sha256:
            raise one.error(
                N_(
                    "the response that was judged differs from the stored one; import that as another collection."
                ),
                field="response",
            )
        return found


def _label(judge: Judge, one: JudgeRecord, known: _Known, document: GuidelineDocument) -> JudgeLabel:
    response = known.response(one)
    criterion = _criterion(one, response, document)
    known.keys.append((response.pk, criterion.name))
    probabilities = _probabilities(one, criterion)
    return JudgeLabel(
        judge=judge,
        response=response,
        criterion=criterion.name,
        value=_value(one, criterion, probabilities),
        probabilities={level_name(value): share for value, share in probabilities.items()},
        said=one.said,
    )


def _criterion(one: JudgeRecord, response: Response, document: GuidelineDocument) -> Criterion:
    """The one that the row names, or the only one that is asked of its prompt."""
    asked = document.criteria_for(response.prompt.dimension or None)
    found = [each for each in asked if one.criterion in {None, each.name}]
    if len(found) != 1:
        raise one.error(
            N_("which criterion is this? Asked of this prompt: {known}."),
            field="criterion",
            known=", ".join(each.name for each in asked) or "-",
        )
    return found[0]


def _probabilities(one: JudgeRecord, criterion: Criterion) -> Mapping[float, float]:
    if not one.probabilities:
        return {}
    found = read_probabilities(one.probabilities, criterion)
    if found is None:
        raise refuse_probabilities(one)
    return found


def _value(one: JudgeRecord, criterion: Criterion, probabilities: Mapping[float, float]) -> float | None:
    """The level that was meant; None off the scale. Probabilities alone mean the likeliest level."""
    if one.value is not None:
        return on_scale(one.value, criterion)
    if one.said:
        return read_label(one.said, criterion) if one.is_readable else None
    return most_likely(probabilities) if probabilities else None


def _new(
    judge: Judge, wanted: Mapping[tuple[int, str], JudgeLabel], lines: Mapping[tuple[int, str], JudgeRecord]
) -> list[JudgeLabel]:
    """Those that are not stored; a stored one that is another is an error."""
    stored: dict[tuple[int, str], JudgeLabel] = {}
    ids = sorted({response for response, _criterion in wanted})
    for start in range(0, len(ids), CHUNK):
        for label in judge.labels.filter(response__in=ids[start : start + CHUNK]):
            stored[label.response_id, label.criterion] = label
    for key, label in wanted.items():
        if key in stored and not _same(stored[key], label):
            raise lines[key].error(
                N_("the judge {judge} has another label of this response; a label is never changed."),
                judge=judge.name,
            )
    return [label for key, label in wanted.items() if key not in stored]


def _same(one: JudgeLabel, other: JudgeLabel) -> bool:
    """The same level with the same probabilities; off the scale, the same words."""
    if one.value != other.value or one.probabilities != other.probabilities:
        return False
    return one.value is not None or one.said == other.said


def _add_source(judge: Judge, file: str, sha256: str) -> None:
    line = f"{sha256}  {file}"
    if line not in judge.source.splitlines():
        judge.source = "\n".join([*judge.source.splitlines(), line])
        judge.save(update_fields=["source"])
