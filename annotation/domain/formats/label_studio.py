"""Label Studio: the JSON and the JSON-MIN of its exports, this site's own (docs/gold.md) and foreign ones.

A task is one response, its ``data`` hold the prompt and the response under names that are tried in turn. Labels
come by the controls' names and in words; ``labels.py`` finds what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from annotation.core.errors import N_
from annotation.domain.annotations import MARKABLE
from annotation.domain.formats import generic
from annotation.domain.formats.answers import fold_word
from annotation.domain.formats.base import (
    ANNOTATIONS,
    RESPONSES,
    AdjudicationRecord,
    AnnotationRecord,
    Format,
    Judgement,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.rows import MAX_LANGUAGE_CHARACTERS, FileRow, as_number, json_items

PROMPT_FIELDS = ("prompt", "question", "instruction", "input")
RESPONSE_FIELDS = ("response", "answer", "output", "completion", "text")
DIALOGUE_FIELDS = ("dialogue", "turns", "messages", "conversation")
ROLE_FIELDS, TEXT_FIELDS = ("role", "author", "speaker"), ("text", "content")
ROLES = {"bot": MARKABLE, "model": MARKABLE, "human": "user"}
# The controls of this site's own configuration; no criterion can be called so, for a criterion's name has no hyphen.
PERSON, ROLE, RATIONALE, FLAGS = "assay-person", "assay-role", "assay-rationale", "assay-flags"
# After a criterion's name, of the choice beside its stars or its number: that it is not applicable.
NA_SUFFIX = "-na"
DIMENSION, EVIDENCE, SPANS = "assay-dimension", "assay-evidence", "assay-spans"
ANNOTATOR, ADJUDICATOR, GOLD = "annotator", "adjudicator", "gold"
RATIONALE_FIELDS = (RATIONALE, "rationale", "comment", "comments", "explanation", "reason")
OWN_CONTROLS = frozenset({PERSON, ROLE, RATIONALE, FLAGS, DIMENSION})
ANONYMOUS_NAME = "label-studio-{id}"
SPAN_KINDS = {"labels": "text", "paragraphlabels": "dialogue"}
VALUE_KINDS = {"choices", "rating", "number"}
# Answers that no level is: they are read, so that a guideline may say what it thinks of them.
OTHER_VALUE_KINDS = {"textarea", "taxonomy", "datetime", "pairwise", "ranker"}
# Of JSON-MIN: what stands beside the data and the controls.
ANNOTATION_FIELDS = frozenset(
    {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement"}
)
DATA_FIELDS = frozenset(
    {
        *PROMPT_FIELDS,
        *RESPONSE_FIELDS,
        *DIALOGUE_FIELDS,
        "prompt_id",
        "dimension",
        "subcomponent",
        "language",
        "attack_method",
        "malice",
        "model",
    }
    | {"collection", "dataset", "split"}
)
TASK_FIELDS = frozenset(
    {"id", "data", "annotations", "completions", "predictions", "drafts", "meta", "project", "overlap"}
)
TASK_FIELDS |= {
    "created_at",
    "updated_at",
    "inner_id",
    "file_upload",
    "total_annotations",
    "cancelled_annotations",
}
TASK_FIELDS |= {
    "total_predictions",
    "comment_count",
    "unresolved_comment_count",
    "last_comment_updated_at",
    "updated_by",
}
TASK_FIELDS |= {"comment_authors", "is_labeled", "allow_skip", "annotators", "state"}
CANCELLED = N_("{number} cancelled annotations were passed over.")
WORKED_OUT = N_("{number} gold labels were passed over: gold is worked out from the annotations.")
UNREAD = N_(
    "{number} results were passed over: they are about a single span or another result, or mark what is no text."
)
ELSEWHERE = N_("{number} marked spans were passed over: they do not lie in one turn of the response.")
MIN_OTHERS = 2
"""With so many annotations by others, a ground truth is the decision on what they differ in."""


@dataclass(frozen=True)
class ForeignAnnotation:
    """One annotation of Label Studio; ``place`` is where it stands in the file, for errors."""

    place: str
    person: str
    role: str
    labels: Mapping[str, Any]
    rationale: str
    flags: list[str]
    spans: Sequence[Mapping[str, Any]]
    seconds: float | None
    at: datetime | None
    is_truth: bool
    unread: int


@dataclass
class ForeignResults:
    """The results of one annotation, gathered by what they are."""

    labels: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    spans: list[Mapping[str, Any]] = field(default_factory=list)
    unread: int = 0


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield _read_prompt(_read_data(row))


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    data = _read_data(row)
    prompt, turns = _read_prompt(data), _read_turns(data)
    yield ResponseRecord(
        line=row.line,
        ref=prompt.ref,
        text="" if turns else data.raw_text(_get_response_field(data)),
        turns=turns,
        model=data.optional_name("model"),
        collection=data.optional_name("collection"),
        prompt=prompt,
    )


def _read_judgements(row: FileRow) -> Iterator[Judgement]:
    """The annotations, and after them the decisions."""
    annotations = [annotation for annotation in _read_annotations(row) if annotation.role != GOLD]
    decisions = _select_decisions(annotations)
    for annotation in annotations:
        if annotation not in decisions:
            yield _make_annotation_record(row, annotation)
    for annotation in decisions:
        yield _make_adjudication_record(row, annotation)


def _list_passed_over(row: FileRow) -> Iterator[str]:
    for annotation in _list_annotations(row):
        if annotation.get("was_cancelled"):
            yield CANCELLED
    for read_annotation in _read_annotations(row):
        if read_annotation.role == GOLD:
            yield WORKED_OUT
        yield from [UNREAD] * read_annotation.unread
        data = _read_data(row)
        yield from [ELSEWHERE] * sum(
            _place_span(data, _read_turns(data), span) is None for span in read_annotation.spans
        )


def _select_decisions(annotations: Sequence[ForeignAnnotation]) -> list[ForeignAnnotation]:
    """What adjudicators say; of a site that knows none, the ground truth beside what several others say."""
    decisions = [annotation for annotation in annotations if annotation.role == ADJUDICATOR]
    truths = [annotation for annotation in annotations if annotation.is_truth and not annotation.role]
    other_people = {annotation.person for annotation in annotations} - {
        annotation.person for annotation in truths
    }
    return decisions or (truths if len(other_people) >= MIN_OTHERS else [])


def _make_annotation_record(row: FileRow, annotation: ForeignAnnotation) -> AnnotationRecord:
    data = _read_data(row)
    turns = _read_turns(data)
    spans = (_place_span(data, turns, span) for span in annotation.spans)
    return AnnotationRecord(
        line=row.line,
        ref=_read_prompt_ref(data),
        annotator=_read_name(row, annotation),
        labels=annotation.labels,
        model=data.optional_name("model"),
        collection=data.optional_name("collection"),
        rationale=annotation.rationale,
        evidence=[span for span in spans if span is not None],
        flags=annotation.flags,
        seconds=annotation.seconds,
        at=annotation.at,
    )


def _make_adjudication_record(row: FileRow, annotation: ForeignAnnotation) -> AdjudicationRecord:
    data = _read_data(row)
    return AdjudicationRecord(
        line=row.line,
        ref=_read_prompt_ref(data),
        adjudicator=_read_name(row, annotation),
        labels=annotation.labels,
        model=data.optional_name("model"),
        collection=data.optional_name("collection"),
        rationale=annotation.rationale,
        seconds=annotation.seconds,
        at=annotation.at,
        is_whole=annotation.role != ADJUDICATOR,
    )


def _read_name(row: FileRow, annotation: ForeignAnnotation) -> str:
    return FileRow(row.file, row.line, {"completed_by": annotation.person}, f"{annotation.place}.").name(
        "completed_by"
    )


def _read_data(row: FileRow) -> FileRow:
    """The task's data: under ``data``, or beside everything else in JSON-MIN and in plain lists of tasks."""
    data = row.fields.get("data")
    if data is None:
        return row
    if not isinstance(data, dict):
        raise row.error(
            N_("this is no JSON object; the task's prompt and response stand in it."), field="data"
        )
    return FileRow(row.file, row.line, data, "data.")


def _read_prompt(data: FileRow) -> PromptRecord:
    ref = _read_prompt_ref(data)
    if not ref.text:
        raise data.error(
            N_("there is no prompt; give it in one of: {known}."),
            field="prompt",
            known=", ".join(PROMPT_FIELDS),
        )
    return PromptRecord(
        line=data.line,
        ref=ref,
        dimension=data.optional("dimension"),
        subcomponent=data.optional("subcomponent"),
        language=data.optional("language", longest=MAX_LANGUAGE_CHARACTERS),
        attack_method=data.optional("attack_method") or None,
        malice=generic.read_malice(data),
    )


def _read_prompt_ref(data: FileRow) -> PromptRef:
    named = next((name for name in PROMPT_FIELDS if data.has(name)), None)
    ref = PromptRef(id=data.identifier("prompt_id"), text=data.text(named) if named else "")
    if not (ref.id or ref.text):
        raise data.error(
            N_("there is no prompt; give it in one of: {known}."),
            field="prompt",
            known=", ".join(PROMPT_FIELDS),
        )
    return ref


def _get_response_field(data: FileRow) -> str:
    for name in RESPONSE_FIELDS:
        if data.fields.get(name) is not None:
            return name
    raise data.error(
        N_("there is no response; give it in one of: {known}."),
        field="response",
        known=", ".join((*RESPONSE_FIELDS, *DIALOGUE_FIELDS)),
    )


def _read_turns(data: FileRow) -> list[dict[str, str]]:
    """The dialogue, or nothing where the response is one text."""
    name = next(
        (name for name in DIALOGUE_FIELDS if isinstance(data.fields.get(name), list) and data.fields[name]),
        None,
    )
    return (
        []
        if name is None
        else [_read_turn(data, turn, f"{name}[{n}]") for n, turn in enumerate(data.fields[name])]
    )


def _read_turn(data: FileRow, turn: object, place: str) -> dict[str, str]:
    fields = turn if isinstance(turn, dict) else {}
    role = next((fields[name] for name in ROLE_FIELDS if isinstance(fields.get(name), str)), None)
    text = next((fields[name] for name in TEXT_FIELDS if isinstance(fields.get(name), str)), None)
    if role is None or text is None:
        raise data.error(N_('write a turn as {{"role": "user", "text": "…"}}, with both.'), field=place)
    return {"role": ROLES.get(role.lower(), role.lower()), "text": text}


def _list_annotations(row: FileRow) -> list[dict[str, Any]]:
    """Label Studio's annotations, which old versions call completions."""
    name = "annotations" if row.fields.get("annotations") is not None else "completions"
    annotations = row.fields.get(name)
    if annotations is None:
        return []
    if not isinstance(annotations, list) or not all(
        isinstance(annotation, dict) for annotation in annotations
    ):
        raise row.error(N_('write the annotations as [{{"result": […]}}, …].'), field=name)
    return annotations


def _read_annotations(row: FileRow) -> list[ForeignAnnotation]:
    if "data" not in row.fields and "annotator" in row.fields:
        return [_read_flat_annotation(row)]
    annotations = enumerate(_list_annotations(row))
    return [
        _read_annotation(row, annotation, f"annotations[{n}]")
        for n, annotation in annotations
        if not annotation.get("was_cancelled")
    ]


def _read_annotation(row: FileRow, annotation: Mapping[str, Any], place: str) -> ForeignAnnotation:
    result = annotation.get("result")
    if not isinstance(result, list):
        raise row.error(N_("an annotation has its labels in a list; give one."), field=f"{place}.result")
    results = ForeignResults()
    for number, item in enumerate(result):
        _add_result(
            results,
            replace(row, fields=item if isinstance(item, dict) else {}, within=f"{place}.result[{number}]."),
        )
    person = results.words.get(PERSON, "")
    if not person and results.words.get(ROLE) != GOLD:
        person = _read_person(row, annotation.get("completed_by"), place)
    return _build_annotation(row, results, annotation, person, place)


def _build_annotation(
    row: FileRow, results: ForeignResults, annotation: Mapping[str, Any], person: str, place: str
) -> ForeignAnnotation:
    role = results.words.get(ROLE, "")
    if role not in {"", ANNOTATOR, ADJUDICATOR, GOLD}:
        raise row.error(
            N_("{found} is no role; the roles are {known}."),
            field=f"{place}.result",
            found=repr(role[:60]),
            known=", ".join((ANNOTATOR, ADJUDICATOR, GOLD)),
        )
    generic.check_flags(row, results.flags)
    facts = FileRow(row.file, row.line, annotation, f"{place}.")
    return ForeignAnnotation(
        place=place,
        person=person,
        role=role,
        labels=results.labels,
        rationale="\n".join(results.words[name] for name in RATIONALE_FIELDS if name in results.words),
        flags=results.flags,
        spans=results.spans,
        seconds=facts.seconds("lead_time"),
        at=generic.read_time(facts, "created_at"),
        is_truth=bool(annotation.get("ground_truth")),
        unread=results.unread,
    )


def _add_result(results: ForeignResults, item: FileRow) -> None:
    """One result: a label, a text, or a marked span. Others are counted: relations, boxes, questions about a span."""
    kind, value = item.fields.get("type"), item.fields.get("value")
    if not isinstance(value, dict):
        if kind in VALUE_KINDS | OTHER_VALUE_KINDS | SPAN_KINDS.keys():
            raise item.error(N_("a result says what was chosen in an object; give one."), field="value")
        results.unread += 1
    elif kind in SPAN_KINDS and isinstance(value.get(kind), list) and value[kind]:
        results.spans += [value | {"label": label, "kind": SPAN_KINDS[kind]} for label in value[kind]]
    elif "start" not in value and kind in VALUE_KINDS | OTHER_VALUE_KINDS:
        known = "text" if kind == "textarea" else str(kind)
        stated_value = value.get(known, None if kind in VALUE_KINDS else value)
        _add_value(results, item, item.text("from_name"), stated_value)
    else:
        results.unread += 1


def _add_value(results: ForeignResults, item: FileRow, name: str, stated_value: Any) -> None:
    choices = stated_value if isinstance(stated_value, list) else [stated_value]
    if name == FLAGS:
        results.flags += [str(choice) for choice in choices]
    elif name == ROLE:
        results.words[ROLE] = str(choices[0]) if choices else ""
    elif name == PERSON or _is_rationale(item, name):
        results.words[name] = "\n".join(str(choice) for choice in choices)
    elif name not in OWN_CONTROLS:
        name = name.removesuffix(NA_SUFFIX)
        if stated_value is None:
            raise item.error(N_("nothing is chosen here; choose, or take the result out."), field="value")
        results.labels[name] = choices[0] if len(choices) == 1 else choices


def _is_rationale(item: FileRow, name: str) -> bool:
    """Whether the control holds the reason for the labels: a criterion of the guideline may be called the same."""
    return name in RATIONALE_FIELDS and name not in map(fold_word, item.criteria)


def _read_flat_annotation(row: FileRow) -> ForeignAnnotation:
    """JSON-MIN: an annotation is a record of its own, the results are its fields."""
    results = ForeignResults()
    for name, stated_value in row.fields.items():
        if name in ANNOTATION_FIELDS or name in DATA_FIELDS:
            continue
        if (
            isinstance(stated_value, list)
            and stated_value
            and all(isinstance(span, dict) and "start" in span for span in stated_value)
        ):
            for span in stated_value:
                kind = next((kind for kind in SPAN_KINDS if isinstance(span.get(kind), list)), None)
                results.spans += (
                    [span | {"label": label, "kind": SPAN_KINDS[kind]} for label in span[kind]]
                    if kind
                    else []
                )
        elif stated_value is not None:
            _add_value(results, row, name, _unwrap_value(stated_value))
    person = results.words.get(PERSON) or _read_person(row, row.fields["annotator"], "")
    return _build_annotation(row, results, row.fields, person, "")


def _unwrap_value(stated_value: Any) -> Any:
    """``{"choices": [..]}``, ``[{"rating": 4}]`` and ``[{"number": 4}]`` as what is in them."""
    entry = stated_value[0] if isinstance(stated_value, list) and len(stated_value) == 1 else stated_value
    if isinstance(entry, dict):
        return next((entry[name] for name in (*sorted(VALUE_KINDS), "text") if name in entry), stated_value)
    return stated_value


def _read_person(row: FileRow, person: object, place: str) -> str:
    """The e-mail address, or ``label-studio-7`` for the person with the number 7."""
    if isinstance(person, dict):
        person = person.get("email") or person.get("id")
    if isinstance(person, int) and not isinstance(person, bool):
        return ANONYMOUS_NAME.format(id=person)
    if isinstance(person, str) and person.strip():
        return ANONYMOUS_NAME.format(id=person.strip()) if person.strip().isdigit() else person.strip()
    raise row.error(
        N_("whose annotation is this? Give the number or the e-mail address of the person."),
        field=f"{place}.completed_by".removeprefix("."),
    )


def _place_span(
    data: FileRow, turns: Sequence[Mapping[str, str]], span: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The span as evidence, with its label in words; None for what is not in one turn of the response."""
    of_dialogue = span["kind"] == SPAN_KINDS["paragraphlabels"]
    if of_dialogue != bool(turns):
        return None
    if of_dialogue:
        turn, last = _parse_whole_number(span.get("start")), _parse_whole_number(span.get("end"))
        start, end = _parse_whole_number(span.get("startOffset")), _parse_whole_number(span.get("endOffset"))
        if turn is None or turn != last or not 0 <= turn < len(turns):
            return None
        text = turns[turn]["text"]
    else:
        turn, start, end = 0, _parse_whole_number(span.get("start")), _parse_whole_number(span.get("end"))
        text = data.raw_text(_get_response_field(data))
    place = _find_offsets(text, start, end, span.get("text"))
    return (
        None if place is None else {"turn": turn, "start": place[0], "end": place[1], "label": span["label"]}
    )


def _parse_whole_number(value: object) -> int | None:
    number = as_number(value)
    return number if isinstance(number, int) else None


def _find_offsets(text: str, start: int | None, end: int | None, words: object) -> tuple[int, int] | None:
    """Offsets count code points, as Label Studio does since 2021; those that fit the marked ``words`` only when
    counted in UTF-16, as before that, are counted anew.
    """
    if start is None or end is None or not 0 <= start < end:
        return None
    if not isinstance(words, str) or text[start:end] == words:
        return (start, end) if end <= len(text) else None
    units = text.encode("utf-16-le")
    in_units = units[2 * start : 2 * end].decode("utf-16-le", "replace")
    if in_units == words:
        first = len(units[: 2 * start].decode("utf-16-le", "replace"))
        return first, first + len(in_units)
    return (start, end) if end <= len(text) and _is_same_text(text[start:end], words) else None


def _is_same_text(text: str, words: str) -> bool:
    r"""Label Studio may write a line end within a span as the two characters ``\n``."""
    return text == words or text.split() == words.replace("\\n", " ").split()


def _guess_kind(fields: frozenset[str]) -> str | None:
    if "data" in fields:
        return ANNOTATIONS if fields & {"annotations", "completions"} else RESPONSES
    return ANNOTATIONS if {"annotator", "lead_time"} <= fields else None


FORMAT = Format(
    name="label_studio",
    is_json=True,
    is_array=True,
    is_worded=True,
    guess=_guess_kind,
    prompts=Reader(rows=json_items, parse=_read_prompts, known=TASK_FIELDS | DATA_FIELDS | ANNOTATION_FIELDS),
    responses=Reader(
        rows=json_items, parse=_read_responses, known=TASK_FIELDS | DATA_FIELDS | ANNOTATION_FIELDS
    ),
    annotations=Reader(rows=json_items, parse=_read_judgements, known=None, passes_over=_list_passed_over),
)
