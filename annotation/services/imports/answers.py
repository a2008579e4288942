"""The answers of records as the guideline takes them, and their evidence; what it does not take is refused in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from annotation.core.errors import N_, AssayError, InputError
from annotation.domain.annotations import check_evidence, list_judged_turns
from annotation.domain.formats import AdjudicationRecord, AnnotationRecord
from annotation.domain.formats.answers import AnswerReader, FieldFault, name_at_turn
from annotation.domain.formats.base import Judgement
from annotation.domain.guidelines import GuidelineDocument, Label
from annotation.domain.quotations import IN_QUOTATION_MARKS, QUOTE, find_quotation, is_no_quotation
from annotation.services.imports.places import TaskSlot
from annotation.services.imports.run import Intake

# Of labels that a file gives together; of a guideline whose scales are longer the others are checked each time.
MAX_CHECKED = 10_000
NO_WORDS = N_("{number} quotations say that there is nothing to quote.")
WORDS_IN_RATIONALE = N_(
    "{number} quotations stand nowhere in what is judged; they are kept in the rationale."
)
LabelsKey: TypeAlias = tuple[object, ...]


class AnswerChecker:
    def __init__(self, intake: Intake, document: GuidelineDocument) -> None:
        self._intake, self._document = intake, document
        self._reader = AnswerReader(document)
        self._checked: dict[LabelsKey, dict[str, Label]] = {}
        self._keys: dict[int, LabelsKey] = {}  # of the labels that were checked, by their identity
        self._asked_of_turns = {c.name: c for c in document.criteria if c.per_turn is not None}

    def check_labels(self, place: TaskSlot, record: AnnotationRecord) -> dict[str, Label]:
        """What was checked before is known: there are few labels, and many who gave them."""
        dimension, turns = place.dimension, self._list_turns(place)
        subcomponent = place.subcomponent if self._document.asks_by_subcomponent else ""
        stated, _texts = self._document.split_answers(record.labels)
        key = build_labels_key((dimension, subcomponent, *turns), stated)
        known = self._checked.get(key)
        if known is not None:
            return known
        try:
            answers = self._reader.read(stated, turns)
            labels = self._document.check_labels(dimension, answers, turns, subcomponent=subcomponent)
        except AssayError as error:
            raise self._add_place(error, record) from error
        if key and len(self._checked) < MAX_CHECKED:
            self._checked[key], self._keys[id(labels)] = labels, key
        return labels

    def get_key(self, labels: Mapping[str, Any]) -> LabelsKey:
        """By which equal labels of any tasks are known; empty where they are not."""
        return self._keys.get(id(labels)) or build_labels_key((), labels)

    def check_texts(
        self, place: TaskSlot, record: AnnotationRecord, labels: Mapping[str, Label]
    ) -> Mapping[str, str]:
        if not self._document.has_texts:
            return {}
        _labels, texts = self._document.split_answers(record.labels)
        try:
            return self._document.check_texts(
                place.dimension, self._reader.read(texts), labels, subcomponent=place.subcomponent
            )
        except AssayError as error:
            raise self._add_place(error, record) from error

    def read_decision(self, place: TaskSlot, record: AdjudicationRecord) -> dict[str, Any]:
        """What was decided; texts, which somebody who answered every criterion has too, nobody decides."""
        stated: Mapping[str, Any] = record.labels
        if record.is_whole:
            stated, _texts = self._document.split_answers(stated)
        try:
            return self._reader.read(stated, self._list_turns(place))
        except AssayError as error:
            raise self._add_place(error, record) from error

    def check_evidence(
        self, place: TaskSlot, record: AnnotationRecord, labels: Mapping[str, Label]
    ) -> list[dict[str, Any]]:
        """What a level requires is asked of people who label here, not of labels made elsewhere."""
        if not record.evidence:
            return []
        try:
            return check_evidence(
                [self._name_turn(span) for span in record.evidence],
                texts=place.texts,
                criteria=self._document.list_questions(
                    place.dimension, self._list_turns(place), subcomponent=place.subcomponent
                ),
                labels=labels,
            )
        except AssayError as error:
            raise self._intake.add_place(error, record.line, "evidence") from error

    def place_quotations(self, place: TaskSlot, record: AnnotationRecord) -> AnnotationRecord:
        """The record with spans in place of what its evidence quotes: the first place at which the words stand."""
        if not any(QUOTE in span for span in record.evidence):
            return record
        spans: list[Mapping[str, Any]] = []
        words = []
        for span in record.evidence:
            if QUOTE not in span:
                spans.append(span)
            elif is_no_quotation(span[QUOTE]):
                self._intake.report.left_out[NO_WORDS] += 1
            elif places := list(find_quotation(span[QUOTE], place.texts)):
                spans.append(_place_span(span, places[0]))
                self._note_places(record.line, len(places))
            else:
                words.append(self._keep_quotation(record, span))
        return replace(record, evidence=spans, rationale="\n".join(filter(None, [record.rationale, *words])))

    def _note_places(self, line: int, number: int) -> None:
        if number > 1:
            self._intake.report.note(
                N_("The words quoted on line {line} stand at {n} places; the first is marked."),
                line=line,
                n=number,
            )

    def _keep_quotation(self, record: AnnotationRecord, span: Mapping[str, Any]) -> str:
        """The words as a part of the rationale; InputError where they are not to be kept."""
        if not self._intake.source.options.keeps_quotations:
            error = AssayError(
                N_("these words stand nowhere in what is judged: {words}"),
                words=repr(span[QUOTE].strip()[:80]),
            )
            raise self._intake.add_place(error, record.line, "evidence")
        self._intake.report.left_out[WORDS_IN_RATIONALE] += 1
        criterion = str(span.get("criterion", ""))
        return f"{criterion}: {IN_QUOTATION_MARKS.format(quote=span[QUOTE].strip())}".removeprefix(": ")

    def _name_turn(self, span: Mapping[str, Any]) -> Mapping[str, Any]:
        """A span of what is asked of each turn, under the criterion's name alone, is of the turn in which it lies."""
        criterion = self._asked_of_turns.get(span.get("criterion", ""))
        return span if criterion is None else {**span, "criterion": name_at_turn(criterion, span["turn"])}

    def _list_turns(self, place: TaskSlot) -> Sequence[int]:
        """The turns that are judged, where something is asked of each."""
        return list_judged_turns(place.texts) if self._document.asks_of_turns else ()

    def _add_place(self, error: AssayError, record: Judgement) -> InputError:
        """A refusal of labels, with the field that it is about where the file has one for each criterion."""
        prefix = self._intake.form.label_field
        field = f"{prefix}{error.field}" if prefix and isinstance(error, FieldFault) else "labels"
        return self._intake.add_place(error, record.line, field)


def _place_span(span: Mapping[str, Any], at: tuple[int, int, int]) -> dict[str, Any]:
    target = {name: value for name, value in span.items() if name != QUOTE}
    return dict(zip(("turn", "start", "end"), at, strict=True)) | target


def build_labels_key(place: tuple[object, ...], labels: Mapping[str, Any]) -> LabelsKey:
    """Told apart by their types too: 1, 1.0 and true are not one label. Empty where a label is a list."""
    key = [*place]
    for name, value in labels.items():
        if isinstance(value, list | dict):
            return ()
        key += (name, value, type(value))
    return tuple(key)
