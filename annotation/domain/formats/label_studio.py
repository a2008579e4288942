"""Label Studio: the JSON and the JSON-MIN of its exports, this site's own (docs/gold.md) and foreign ones.

A task is one response, its ``data`` hold the prompt and the response under names that are tried in turn. Labels are
told by the controls' names and in words; ``wording.py`` finds what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from annotation.core.errors import N_
from annotation.domain.annotations import MARKABLE
from annotation.domain.formats import generic
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
from annotation.domain.formats.rows import LONGEST_LANGUAGE, Row, as_number, json_items

PROMPT = ("prompt", "question", "instruction", "input")
RESPONSE = ("response", "answer", "output", "completion", "text")
DIALOGUE = ("dialogue", "turns", "messages", "conversation")
WHO, SAID = ("role", "author", "speaker"), ("text", "content")
ROLES = {"bot": MARKABLE, "model": MARKABLE, "human": "user"}
# The controls of this site's own configuration; no criterion can be called so, for a criterion's name has no hyphen.
PERSON, ROLE, RATIONALE, FLAGS = "assay-person", "assay-role", "assay-rationale", "assay-flags"
DIMENSION, EVIDENCE, SPANS = "assay-dimension", "assay-evidence", "assay-spans"
ANNOTATOR, ADJUDICATOR, GOLD = "annotator", "adjudicator", "gold"
WHY = (RATIONALE, "rationale", "comment", "comments", "explanation", "reason")
OWN = frozenset({PERSON, ROLE, RATIONALE, FLAGS, DIMENSION})
STRANGER = "label-studio-{id}"
LABELS = {"labels": "text", "paragraphlabels": "dialogue"}
VALUES = {"choices", "rating", "number"}
# Of JSON-MIN: what stands beside the data and the controls.
ABOUT = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement"})
DATA = frozenset(
    {
        *PROMPT,
        *RESPONSE,
        *DIALOGUE,
        "prompt_id",
        "dimension",
        "subcomponent",
        "language",
        "attack_method",
        "model",
    }
    | {"collection", "dataset", "split"}
)
TASK = frozenset(
    {"id", "data", "annotations", "completions", "predictions", "drafts", "meta", "project", "overlap"}
)
TASK |= {"created_at", "updated_at", "inner_id", "file_upload", "total_annotations", "cancelled_annotations"}
TASK |= {
    "total_predictions",
    "comment_count",
    "unresolved_comment_count",
    "last_comment_updated_at",
    "updated_by",
}
TASK |= {"comment_authors", "is_labeled", "allow_skip", "annotators", "state"}
CANCELLED = N_("{number} cancelled annotations were passed over.")
WORKED_OUT = N_("{number} gold labels were passed over: gold is worked out from the annotations.")
ELSEWHERE = N_("{number} marked spans were passed over: they do not lie in one turn of the response.")
FEWEST_OTHERS = 2
"""With so many annotations by others, a ground truth is the decision on what they differ in."""


@dataclass(frozen=True)
class Said:
    """What one annotation of Label Studio says; ``place`` is where it stands, for errors."""

    place: str
    who: str
    role: str
    labels: Mapping[str, Any]
    rationale: str
    flags: list[str]
    spans: Sequence[Mapping[str, Any]]
    seconds: float | None
    is_truth: bool


@dataclass
class Result:
    """The results of one annotation, gathered by what they are."""

    labels: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    spans: list[Mapping[str, Any]] = field(default_factory=list)


def _prompts(row: Row) -> Iterator[PromptRecord]:
    yield _prompt(_data(row))


def _responses(row: Row) -> Iterator[ResponseRecord]:
    data = _data(row)
    prompt, turns = _prompt(data), _turns(data)
    yield ResponseRecord(
        line=row.line,
        ref=prompt.ref,
        text="" if turns else data.whole(_response_field(data)),
        turns=turns,
        model=data.optional_name("model"),
        collection=data.optional_name("collection"),
        prompt=prompt,
    )


def _judgements(row: Row) -> Iterator[Judgement]:
    """The annotations, and after them the decisions."""
    annotations = [annotation for annotation in _said(row) if annotation.role != GOLD]
    decisions = _decisions(annotations)
    for annotation in annotations:
        if annotation not in decisions:
            yield _annotation(row, annotation)
    for annotation in decisions:
        yield _decision(row, annotation)


def _passed_over(row: Row) -> Iterator[str]:
    for annotation in _annotations(row):
        if annotation.get("was_cancelled"):
            yield CANCELLED
    for read_annotation in _said(row):
        if read_annotation.role == GOLD:
            yield WORKED_OUT
        data = _data(row)
        yield from [ELSEWHERE] * sum(
            _placed(data, _turns(data), span) is None for span in read_annotation.spans
        )


def _decisions(said: Sequence[Said]) -> list[Said]:
    """What adjudicators say; of a site that knows none, the ground truth beside what several others say."""
    decisions = [annotation for annotation in said if annotation.role == ADJUDICATOR]
    truths = [annotation for annotation in said if annotation.is_truth and not annotation.role]
    other_people = {annotation.who for annotation in said} - {annotation.who for annotation in truths}
    return decisions or (truths if len(other_people) >= FEWEST_OTHERS else [])


def _annotation(row: Row, one: Said) -> AnnotationRecord:
    data = _data(row)
    turns = _turns(data)
    spans = (_placed(data, turns, span) for span in one.spans)
    return AnnotationRecord(
        line=row.line,
        ref=_ref(data),
        annotator=_name(row, one),
        labels=one.labels,
        model=data.optional_name("model"),
        collection=data.optional_name("collection"),
        rationale=one.rationale,
        evidence=[span for span in spans if span is not None],
        flags=one.flags,
        seconds=one.seconds,
    )


def _decision(row: Row, one: Said) -> AdjudicationRecord:
    data = _data(row)
    return AdjudicationRecord(
        line=row.line,
        ref=_ref(data),
        adjudicator=_name(row, one),
        labels=one.labels,
        model=data.optional_name("model"),
        collection=data.optional_name("collection"),
        rationale=one.rationale,
        seconds=one.seconds,
        is_whole=one.role != ADJUDICATOR,
    )


def _name(row: Row, one: Said) -> str:
    return Row(row.file, row.line, {"completed_by": one.who}, f"{one.place}.").name("completed_by")


def _data(row: Row) -> Row:
    """The task's data: under ``data``, or beside everything else in JSON-MIN and in plain lists of tasks."""
    data = row.fields.get("data")
    if data is None:
        return row
    if not isinstance(data, dict):
        raise row.error(
            N_("this is no JSON object; the task's prompt and response stand in it."), field="data"
        )
    return Row(row.file, row.line, data, "data.")


def _prompt(data: Row) -> PromptRecord:
    ref = _ref(data)
    if not ref.text:
        raise data.error(
            N_("there is no prompt; give it in one of: {known}."), field="prompt", known=", ".join(PROMPT)
        )
    return PromptRecord(
        line=data.line,
        ref=ref,
        dimension=data.optional("dimension"),
        subcomponent=data.optional("subcomponent"),
        language=data.optional("language", longest=LONGEST_LANGUAGE),
        attack_method=data.optional("attack_method") or None,
    )


def _ref(data: Row) -> PromptRef:
    named = next((name for name in PROMPT if data.has(name)), None)
    ref = PromptRef(id=data.identifier("prompt_id"), text=data.text(named) if named else "")
    if not (ref.id or ref.text):
        raise data.error(
            N_("there is no prompt; give it in one of: {known}."), field="prompt", known=", ".join(PROMPT)
        )
    return ref


def _response_field(data: Row) -> str:
    for name in RESPONSE:
        if data.fields.get(name) is not None:
            return name
    raise data.error(
        N_("there is no response; give it in one of: {known}."),
        field="response",
        known=", ".join((*RESPONSE, *DIALOGUE)),
    )


def _turns(data: Row) -> list[dict[str, str]]:
    """The dialogue, or nothing where the response is one text."""
    name = next(
        (name for name in DIALOGUE if isinstance(data.fields.get(name), list) and data.fields[name]), None
    )
    return (
        []
        if name is None
        else [_turn(data, turn, f"{name}[{n}]") for n, turn in enumerate(data.fields[name])]
    )


def _turn(data: Row, turn: object, place: str) -> dict[str, str]:
    fields = turn if isinstance(turn, dict) else {}
    role = next((fields[name] for name in WHO if isinstance(fields.get(name), str)), None)
    text = next((fields[name] for name in SAID if isinstance(fields.get(name), str)), None)
    if role is None or text is None:
        raise data.error(N_('write a turn as {{"role": "user", "text": "…"}}, with both.'), field=place)
    return {"role": ROLES.get(role.lower(), role.lower()), "text": text}


def _annotations(row: Row) -> list[dict[str, Any]]:
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


def _said(row: Row) -> list[Said]:
    if "data" not in row.fields and "annotator" in row.fields:
        return [_said_flat(row)]
    annotations = enumerate(_annotations(row))
    return [
        _said_in(row, annotation, f"annotations[{n}]")
        for n, annotation in annotations
        if not annotation.get("was_cancelled")
    ]


def _said_in(row: Row, annotation: Mapping[str, Any], place: str) -> Said:
    result = annotation.get("result")
    if not isinstance(result, list):
        raise row.error(N_("an annotation has its labels in a list; give one."), field=f"{place}.result")
    results = Result()
    for number, item in enumerate(result):
        _take(
            results,
            Row(row.file, row.line, item if isinstance(item, dict) else {}, f"{place}.result[{number}]."),
        )
    person = results.words.get(PERSON, "")
    if not person and results.words.get(ROLE) != GOLD:
        person = _completed_by(row, annotation.get("completed_by"), place)
    return _whole(row, results, annotation, person, place)


def _whole(row: Row, found: Result, about: Mapping[str, Any], who: str, place: str) -> Said:
    role = found.words.get(ROLE, "")
    if role not in {"", ANNOTATOR, ADJUDICATOR, GOLD}:
        raise row.error(
            N_("{found} is no role; the roles are {known}."),
            field=f"{place}.result",
            found=repr(role[:60]),
            known=", ".join((ANNOTATOR, ADJUDICATOR, GOLD)),
        )
    generic.check_flags(row, found.flags)
    return Said(
        place=place,
        who=who,
        role=role,
        labels=found.labels,
        rationale="\n".join(found.words[name] for name in WHY if name in found.words),
        flags=found.flags,
        spans=found.spans,
        seconds=Row(row.file, row.line, about, f"{place}.").seconds("lead_time"),
        is_truth=bool(about.get("ground_truth")),
    )


def _take(found: Result, item: Row) -> None:
    """One result: a label, a text, or a marked span. Of other kinds (relations, boxes) nothing is taken."""
    kind, value = item.fields.get("type"), item.fields.get("value")
    if not isinstance(value, dict):
        if kind in VALUES | LABELS.keys() | {"textarea"}:
            raise item.error(N_("a result says what was chosen in an object; give one."), field="value")
        return
    if kind in LABELS and isinstance(value.get(kind), list) and value[kind]:
        found.spans += [value | {"label": label, "kind": LABELS[kind]} for label in value[kind]]
    elif "start" in value:  # a question about a span, not about the response
        return
    elif kind in VALUES or kind == "textarea":
        stated_value = value.get("text" if kind == "textarea" else str(kind))
        _put(found, item, item.text("from_name"), stated_value, is_text=kind == "textarea")


def _put(found: Result, item: Row, name: str, told: Any, *, is_text: bool) -> None:
    choices = told if isinstance(told, list) else [told]
    if name == FLAGS:
        found.flags += [str(choice) for choice in choices]
    elif name == ROLE:
        found.words[ROLE] = str(choices[0]) if choices else ""
    elif is_text or name in WHY:
        found.words[name] = "\n".join(str(choice) for choice in choices)
    elif name not in OWN:
        if told is None:
            raise item.error(N_("nothing is chosen here; choose, or take the result out."), field="value")
        found.labels[name] = choices[0] if len(choices) == 1 else choices


def _said_flat(row: Row) -> Said:
    """JSON-MIN: an annotation is a record of its own, the results are its fields."""
    results = Result()
    for name, stated_value in row.fields.items():
        if name in ABOUT or name in DATA:
            continue
        if (
            isinstance(stated_value, list)
            and stated_value
            and all(isinstance(span, dict) and "start" in span for span in stated_value)
        ):
            for span in stated_value:
                kind = next((kind for kind in LABELS if isinstance(span.get(kind), list)), None)
                results.spans += (
                    [span | {"label": label, "kind": LABELS[kind]} for label in span[kind]] if kind else []
                )
        elif stated_value is not None:
            _put(results, row, name, _unwrapped(stated_value), is_text=name in {PERSON, *WHY})
    person = results.words.get(PERSON) or _completed_by(row, row.fields["annotator"], "")
    return _whole(row, results, row.fields, person, "")


def _unwrapped(told: Any) -> Any:
    """``{"choices": [..]}``, ``[{"rating": 4}]`` and ``[{"number": 4}]`` as what is in them."""
    entry = told[0] if isinstance(told, list) and len(told) == 1 else told
    if isinstance(entry, dict):
        return next((entry[name] for name in (*sorted(VALUES), "text") if name in entry), told)
    return told


def _completed_by(row: Row, told: object, place: str) -> str:
    """The e-mail address, or ``label-studio-7`` for the person with the number 7."""
    if isinstance(told, dict):
        told = told.get("email") or told.get("id")
    if isinstance(told, int) and not isinstance(told, bool):
        return STRANGER.format(id=told)
    if isinstance(told, str) and told.strip():
        return STRANGER.format(id=told.strip()) if told.strip().isdigit() else told.strip()
    raise row.error(
        N_("whose annotation is this? Give the number or the e-mail address of the person."),
        field=f"{place}.completed_by".removeprefix("."),
    )


def _placed(data: Row, turns: Sequence[Mapping[str, str]], span: Mapping[str, Any]) -> dict[str, Any] | None:
    """The span as evidence, with its label in words; None for what is not in one turn of the response."""
    of_dialogue = span["kind"] == LABELS["paragraphlabels"]
    if of_dialogue != bool(turns):
        return None
    if of_dialogue:
        turn, last = _whole_number(span.get("start")), _whole_number(span.get("end"))
        start, end = _whole_number(span.get("startOffset")), _whole_number(span.get("endOffset"))
        if turn is None or turn != last or not 0 <= turn < len(turns):
            return None
        text = turns[turn]["text"]
    else:
        turn, start, end = 0, _whole_number(span.get("start")), _whole_number(span.get("end"))
        text = data.whole(_response_field(data))
    place = _offsets(text, start, end, span.get("text"))
    return (
        None if place is None else {"turn": turn, "start": place[0], "end": place[1], "label": span["label"]}
    )


def _whole_number(told: object) -> int | None:
    number = as_number(told)
    return number if isinstance(number, int) else None


def _offsets(text: str, start: int | None, end: int | None, words: object) -> tuple[int, int] | None:
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
    return (start, end) if end <= len(text) and _same(text[start:end], words) else None


def _same(text: str, words: str) -> bool:
    r"""Label Studio may write a line end within a span as the two characters ``\n``."""
    return text == words or text.split() == words.replace("\\n", " ").split()


def _guess(fields: frozenset[str]) -> str | None:
    if "data" in fields:
        return ANNOTATIONS if fields & {"annotations", "completions"} else RESPONSES
    return ANNOTATIONS if {"annotator", "lead_time"} <= fields else None


FORMAT = Format(
    name="label_studio",
    is_json=True,
    is_array=True,
    is_worded=True,
    guess=_guess,
    prompts=Reader(rows=json_items, parse=_prompts, known=TASK | DATA | ABOUT),
    responses=Reader(rows=json_items, parse=_responses, known=TASK | DATA | ABOUT),
    annotations=Reader(rows=json_items, parse=_judgements, known=None, passes_over=_passed_over),
)
