"""XSTest: a CSV file of prompts, and one of completions for each model, with two labels and a final one.

Completion ids are ``v2-1`` where the prompt file says ``1``, and one prompt is worded differently in the two: so
prompts are joined on their number. The dimension is ``safe`` or ``unsafe`` (types that begin with ``contrast_``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from annotation.core.errors import N_
from annotation.domain.formats.base import (
    ANNOTATIONS,
    PROMPTS,
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
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.rows import MAX_ID_CHARACTERS, FileRow

CRITERION = "compliance"
LEVELS = {"1_full_compliance": 3, "3_partial_refusal": 2, "2_full_refusal": 1}
ANNOTATORS = ("xstest-annotator-1", "xstest-annotator-2")
ADJUDICATOR = "xstest-adjudicator"
_JUDGED = N_("these are an automatic judge's labels, not people's; take the file without this column.")
REFUSED = {"gpt4_label": _JUDGED, "strmatch_label": _JUDGED}
_FILE = re.compile(r"^xstest_v2_completions_(.+)\.csv$", re.IGNORECASE)
_PROMPT_COLUMNS = ("id", "prompt", "type", "label")
_RESPONSE_COLUMNS = ("id", "type", "prompt", "completion")
_LABEL_COLUMNS = ("annotation_1", "annotation_2", "final_label")
_COMPLETION_FIELDS = frozenset({*_RESPONSE_COLUMNS, *_LABEL_COLUMNS, "agreement"})


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    label = row.text("label").strip()
    if label not in {"safe", "unsafe"}:
        raise row.error(N_("this is {found}; write safe or unsafe."), field="label", found=repr(label))
    yield _read_prompt(row, dimension=label)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    prompt = _read_prompt(row, dimension=_read_dimension(row))
    yield ResponseRecord(line=row.line, ref=prompt.ref, text=row.raw_text("completion"), prompt=prompt)


def _read_judgements(row: FileRow) -> Iterator[Judgement]:
    """Two people's labels; where they differ, the final one as the third's decision, if there is one yet."""
    ref = PromptRef(id=_read_number(row))
    first, second = (_read_level(row, f"annotation_{place}") for place in (1, 2))
    final = _read_level(row, "final_label") if row.has("final_label") else None
    if first == second and final not in {first, None}:
        raise row.error(
            N_("both people said {both} and the final label is {final}: nobody may overrule an agreement."),
            field="final_label",
            both=row.fields["annotation_1"],
            final=row.fields["final_label"],
        )
    for person, level in zip(ANNOTATORS, (first, second), strict=True):
        yield AnnotationRecord(line=row.line, ref=ref, annotator=person, labels={CRITERION: level})
    if first != second and final is not None:
        yield AdjudicationRecord(line=row.line, ref=ref, adjudicator=ADJUDICATOR, labels={CRITERION: final})


def _read_prompt(row: FileRow, *, dimension: str) -> PromptRecord:
    return PromptRecord(
        line=row.line,
        ref=PromptRef(id=_read_number(row), text=row.text("prompt")),
        dimension=dimension,
        subcomponent=row.text("type", longest=100).strip(),
        language="en",
    )


def _read_number(row: FileRow) -> str:
    return row.text("id", longest=MAX_ID_CHARACTERS).strip().removeprefix("v2-")


def _read_dimension(row: FileRow) -> str:
    return "unsafe" if row.text("type").strip().startswith("contrast_") else "safe"


def _read_level(row: FileRow, field: str) -> int:
    label = row.text(field).strip()
    if label not in LEVELS:
        raise row.error(
            N_("{found} is no label; use one of {allowed}."),
            field=field,
            found=repr(label[:60]),
            allowed=", ".join(LEVELS),
        )
    return LEVELS[label]


def _guess_model(file_name: str) -> str | None:
    """``xstest_v2_completions_gpt4.csv`` holds the completions of gpt4."""
    match = _FILE.match(file_name.replace("\\", "/").rpartition("/")[2])
    return match[1] if match else None


def _guess_kind(fields: frozenset[str]) -> str | None:
    if {"annotation_1", "annotation_2"} <= fields:
        return ANNOTATIONS
    if set(_RESPONSE_COLUMNS) <= fields:
        return RESPONSES
    return PROMPTS if set(_PROMPT_COLUMNS) <= fields else None


def _require_columns(*names: str) -> list[tuple[str]]:
    return [(name,) for name in names]


FORMAT = Format(
    name="xstest",
    is_json=False,
    guess=_guess_kind,
    prompts=Reader(
        rows=partial(csv_rows, required=_require_columns(*_PROMPT_COLUMNS)),
        parse=_read_prompts,
        known=frozenset({*_PROMPT_COLUMNS, "focus", "note"}),
    ),
    responses=Reader(
        rows=partial(csv_rows, required=_require_columns(*_RESPONSE_COLUMNS), refused=REFUSED),
        parse=_read_responses,
        known=_COMPLETION_FIELDS,
    ),
    annotations=Reader(
        rows=partial(
            csv_rows, required=_require_columns(*_RESPONSE_COLUMNS, *_LABEL_COLUMNS), refused=REFUSED
        ),
        parse=_read_judgements,
        known=_COMPLETION_FIELDS,
    ),
    joins_on_id=True,
    complete=True,
    model_of=_guess_model,
)
