"""What the generic formats ``jsonl`` and ``csv`` have in common: the same fields, taken the same way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from annotation.core.errors import N_
from annotation.domain.annotations import FLAGS
from annotation.domain.datasets import EXPLICIT, IMPLICIT, find_malice
from annotation.domain.formats.base import (
    AdjudicationRecord,
    AnnotationRecord,
    Judgement,
    PromptRecord,
    PromptRef,
)
from annotation.domain.formats.rows import (
    MAX_LANGUAGE_CHARACTERS,
    MAX_SOURCE_CHARACTERS,
    FileRow,
    as_number,
)
from annotation.domain.guidelines import NA, Label
from annotation.domain.releases.gold_file import LABELS_BY_LEVEL

PROMPT_FIELDS = frozenset(
    {"id", "prompt", "dimension", "subcomponent", "language", "attack_method", "malice", "source"},
)
RESPONSE_FIELDS = frozenset({"prompt_id", "prompt", "model", "collection", "response"})
JUDGEMENT_FIELDS = frozenset(
    {
        "prompt_id",
        "prompt",
        "model",
        "collection",
        "annotator",
        "adjudicator",
        "rationale",
        "flags",
        "seconds",
        "at",
        "round",
    }
)
TEXTS = "texts"
_TIMES = ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%Y/%m/%d")
# At the ends of time no time zone can be reckoned with.
_YEARS = range(1970, 9000)


def read_prompt(row: FileRow, ref: PromptRef | None = None) -> PromptRecord:
    """The prompt of a row; ``ref`` where its id and its text do not stand in fields of those names."""
    return PromptRecord(
        line=row.line,
        ref=ref or PromptRef(id=row.identifier("id"), text=row.text("prompt")),
        dimension=row.optional("dimension"),
        subcomponent=row.optional("subcomponent"),
        language=row.optional("language", longest=MAX_LANGUAGE_CHARACTERS),
        attack_method=row.optional("attack_method") or None,
        malice=read_malice(row),
        source=row.optional("source", longest=MAX_SOURCE_CHARACTERS).strip(),
    )


def read_malice(row: FileRow) -> str:
    """How the prompt of a row carries its malice, "" where the row does not say; InputError for another word."""
    text = row.optional("malice")
    malice = find_malice(text)
    if malice is None:
        raise row.error(
            N_("{found} is no malice; write {explicit} or {implicit}, or leave it empty."),
            field="malice",
            found=repr(text[:60]),
            explicit=EXPLICIT,
            implicit=IMPLICIT,
        )
    return malice


def read_prompt_ref(row: FileRow) -> PromptRef:
    """The prompt that a response or a label belongs to: ``prompt_id``, or ``prompt`` with its text."""
    prompt_ref = PromptRef(
        id=row.identifier("prompt_id"), text=row.text("prompt") if row.has("prompt") else ""
    )
    if not prompt_ref.id and not prompt_ref.text:
        raise row.error(
            N_("whose is this? Give the prompt's id, or its text in the field prompt."), field="prompt_id"
        )
    return prompt_ref


# How people write "not applicable", without capitals and outer blanks.
NA_WORDS = frozenset({NA, "n/a", "n.a.", "not applicable", "不适用"})


def is_na(raw: object) -> bool:
    return isinstance(raw, str) and raw.strip().casefold() in NA_WORDS


NO_DISTRIBUTION = N_(
    "an annotation is what one person said, so how many gave each level has no place in it; give a row for each"
    " annotator, or take the file as a judge's (import_judge_labels)."
)


def is_distribution(field: str) -> bool:
    """Whether a field has how many people, or which share of them, gave each level."""
    return field == LABELS_BY_LEVEL or field.startswith(f"{LABELS_BY_LEVEL}.")


def refuse_distribution(row: FileRow) -> None:
    """Raise where a row without a label has that."""
    for field in row.fields:
        if is_distribution(field) and row.has(field):
            raise row.error(NO_DISTRIBUTION, field=field)


def read_value(row: FileRow, field: str, raw: object) -> Label:
    """A label's value as a number, or ``NA``; whether it is an answer here is the guideline's to say."""
    if isinstance(raw, dict):
        raise row.error(NO_DISTRIBUTION, field=field)
    if is_na(raw):
        return NA
    number = as_number(raw)
    if number is None or isinstance(raw, bool):
        raise row.error(
            N_("{found} is no number; write a level's value."), field=field, found=repr(str(raw)[:60])
        )
    return number


def take_answer(raw: object) -> Any:
    """What a file answers a criterion by, as a record has it: a number that is written as one is one; of anything else
    only the guideline knows what it may be (``answers.py``).
    """
    if not isinstance(raw, str):
        return raw
    number = as_number(raw)
    return number if number is not None and str(number) == raw else raw


def read_texts(row: FileRow) -> dict[str, Any]:
    """What people wrote, by criterion, where the file has it beside the labels."""
    texts = row.fields.get(TEXTS)
    if texts is None:
        return {}
    if not isinstance(texts, dict):
        raise row.error(N_('write the texts as {{"criterion": "text"}}.'), field=TEXTS)
    return {name: text for name, text in texts.items() if text is not None}


def check_flags(row: FileRow, flags: list[str]) -> None:
    for flag in flags:
        if flag not in FLAGS:
            raise row.error(
                N_("{found} is no flag; the flags are {known}."),
                field="flags",
                found=repr(flag[:60]),
                known=", ".join(FLAGS),
            )


def read_judgement(
    row: FileRow,
    labels: Mapping[str, Any],
    *,
    evidence: list[Mapping[str, Any]],
    flags: list[str],
) -> Judgement:
    """An annotation if the row names an annotator, an adjudication if it names an adjudicator."""
    if row.has("annotator") == row.has("adjudicator"):
        raise row.error(N_("name either the annotator or the adjudicator."), field="annotator")
    check_flags(row, flags)
    prompt_ref, model, collection = (
        read_prompt_ref(row),
        row.optional_name("model"),
        row.optional_name("collection"),
    )
    rationale = row.raw_text("rationale") if row.has("rationale") else ""
    if row.has("annotator"):
        return AnnotationRecord(
            line=row.line,
            ref=prompt_ref,
            annotator=row.name("annotator"),
            labels=labels,
            model=model,
            collection=collection,
            rationale=rationale,
            evidence=evidence,
            flags=flags,
            seconds=row.seconds(),
            at=read_time(row),
            round=row.identifier("round"),
        )
    return AdjudicationRecord(
        line=row.line,
        ref=prompt_ref,
        adjudicator=row.name("adjudicator"),
        labels=labels,
        model=model,
        collection=collection,
        rationale=rationale,
        seconds=row.seconds(),
        at=read_time(row),
        round=row.identifier("round"),
    )


def read_time(row: FileRow, field: str = "at") -> datetime | None:
    """A moment as it is usually written, or None where there is none; without a zone it is taken for UTC."""
    if not row.has(field):
        return None
    stated_time = row.fields[field]
    number = as_number(stated_time)
    try:
        if number is not None:
            moment = datetime.fromtimestamp(number / 1000 if number > 10**11 else number, UTC)
        else:
            moment = _parse_time(row.text(field).strip())
        if moment.year not in _YEARS:
            raise ValueError("no year of labels")
    except (ValueError, OverflowError, OSError) as error:
        raise row.error(
            N_("{found} is no moment; write it as 2026-05-31 14:05:00."),
            field=field,
            found=repr(str(stated_time)[:60]),
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_time(text: str) -> datetime:
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return datetime.fromisoformat(text)
