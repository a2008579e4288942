"""Labels of judges from files: XSTest's own, generic JSON lines and CSV, and the scores in logs of harnesses. Pure.

XSTest's ``*_gpteval.csv`` and ``*_streval.csv`` hold the labels of GPT-4 and of a string match beside people's; the
model whose completions these are stands in the file's name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from annotation.core.errors import N_, InputError, NotFound
from annotation.domain.datasets import response_sha256
from annotation.domain.formats import esc_eval, get_format, inspect_ai, lm_eval
from annotation.domain.formats.base import ScoreRecord
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.generic import is_na, read_prompt_ref
from annotation.domain.formats.rows import (
    MAX_ID_CHARACTERS,
    FileRow,
    Rows,
    Source,
    as_number,
    json_members,
    json_rows,
)
from annotation.domain.formats.xstest import CRITERION, LEVELS
from annotation.domain.releases.gold_file import LABELS_BY_LEVEL

LOGS: Mapping[str, Callable[[FileRow], Iterator[ScoreRecord]]] = {
    inspect_ai.NAME: inspect_ai.read_scores,
    lm_eval.NAME: lm_eval.read_scores,
}
FORMATS = ("xstest", "jsonl", "csv", esc_eval.NAME, *LOGS)
ESC_EVAL_CRITERIA: Mapping[str, str] = {
    "fluency": "fluency",
    "diversity": "expression",
    "empathic": "empathy",
    "suggestion": "information",
    "human": "humanoid",
    "tech": "skill",
    "overall": "overall",
}
"""What the scores of ESC-RANK are called, and the criteria of the guideline ``esc_eval``."""
SCORES = "scores"
PROBABILITIES = "probabilities"
XSTEST_COLUMNS = ("gpt4_label", "strmatch_label")
MAX_ANSWER_CHARACTERS = 10_000
_FILE = re.compile(r"^xstest_v2_completions_(.+?)_(?:gpteval|streval)\.csv$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """A label as the file has it. ``answer`` is in its words; ``value`` is what these mean where the format knows it.

    ``is_readable``: ``answer`` may be read as a level of the guideline. ``sha256`` is of the response that was judged,
    where the file has its text. ``error`` makes an error of this line. ``judge`` is who said it, where the file says.
    ``distribution`` is the field that the probabilities come from.
    """

    line: int
    prompt: str
    answer: str
    error: Callable[..., InputError]
    model: str | None = None
    collection: str | None = None
    criterion: str | None = None
    value: float | None = None
    probabilities: Mapping[str, Any] = field(default_factory=dict)
    is_readable: bool = True
    sha256: str = ""
    judge: str = ""
    distribution: str = PROBABILITIES


def read_scores(source: Source, format_name: str, levels: Mapping[str, float]) -> Iterator[JudgeRecord]:
    """The scores in the log of a harness. ``levels`` says which level of the guideline each score means; without it
    a number means the level of that value.
    """
    known = {_name_score(score): level for score, level in levels.items()}
    for row in get_format(format_name).response_reader().rows(source):
        if isinstance(row, InputError):
            raise row
        for score in LOGS[format_name](row):
            name = _name_score(score.value)
            words = {"value": score.value, "target": score.target, "answer": score.answer}
            yield JudgeRecord(
                line=row.line,
                prompt=score.prompt,
                answer=json.dumps(words, ensure_ascii=False)[:MAX_ANSWER_CHARACTERS],
                error=row.error,
                model=score.model,
                collection=score.collection,
                value=known.get(name) if known else as_number(score.value),
                is_readable=False,
                judge=score.judge,
            )


def _name_score(value: object) -> str:
    """A score as it is written after ``--levels``: 1, 1.0 and "1" are one."""
    number = as_number(value)
    return json.dumps(value).strip('"') if number is None else f"{number:g}"


def read_judge_labels(source: Source, format_name: str) -> Iterator[JudgeRecord]:
    """The records of one file; the first thing that is wrong is raised."""
    if format_name not in _READERS:
        raise NotFound(
            N_("There is no format {name} of judges' labels; the formats are {known}."),
            name=format_name,
            known=", ".join(FORMATS),
        )
    rows, parse = _READERS[format_name]
    is_empty = True
    for row in rows(source):
        if isinstance(row, InputError):
            raise row
        is_empty = False
        yield from parse(row)
    if is_empty:
        raise InputError(N_("there are no rows in this file."), path=source.name)


def find_model(file_name: str) -> str | None:
    """``xstest_v2_completions_gpt4_gpteval.csv`` holds judgements of gpt4."""
    match = _FILE.match(file_name.replace("\\", "/").rpartition("/")[2])
    return match[1] if match else None


def _read_xstest_rows(source: Source) -> Rows:
    return csv_rows(source, required=[("id",), ("completion",), XSTEST_COLUMNS])


def _parse_xstest(row: FileRow) -> Iterator[JudgeRecord]:
    """What is none of the three labels, such as the judge's own refusal, is kept as it stands."""
    columns = [name for name in XSTEST_COLUMNS if name in row.fields]
    if len(columns) > 1:
        raise row.error(
            N_("two judges stand in this file ({columns}); leave one column."),
            field=columns[1],
            columns=", ".join(columns),
        )
    answer = row.raw_text(columns[0])
    yield JudgeRecord(
        line=row.line,
        prompt=row.text("id", longest=MAX_ID_CHARACTERS).strip().removeprefix("v2-"),
        answer=answer[:MAX_ANSWER_CHARACTERS],
        error=row.error,
        criterion=CRITERION,
        value=LEVELS.get(answer.strip()),
        is_readable=False,  # its "1" is full compliance, the guideline's is full refusal
        sha256=response_sha256(row.raw_text("completion"), []),
    )


_WRONG_DISTRIBUTIONS: Mapping[str, str] = {
    PROBABILITIES: N_(
        'write the probabilities as {{"1": 0.2, "2": 0.8}}: levels of the scale that add up to 1.'
    ),
    LABELS_BY_LEVEL: N_(
        'write the labels by level as {{"1": 1, "3": 2}}: how many, or which share, gave each level of the scale.'
    ),
}


def _parse_jsonl(row: FileRow) -> Iterator[JudgeRecord]:
    return _parse_generic(row, {name: row.fields.get(name) for name in _WRONG_DISTRIBUTIONS})


def _parse_csv(row: FileRow) -> Iterator[JudgeRecord]:
    """A distribution is a JSON object in one cell."""
    stated: dict[str, Any] = {}
    for name, template in _WRONG_DISTRIBUTIONS.items():
        try:
            stated[name] = json.loads(row.text(name)) if row.has(name) else None
        except (ValueError, RecursionError) as error:
            raise row.error(template, field=name) from error
    return _parse_generic(row, stated)


def _parse_generic(row: FileRow, stated: Mapping[str, object]) -> Iterator[JudgeRecord]:
    """One label, or where the row has the labels by level of several criteria, as a gold file has, one of each."""
    probabilities, counts = stated[PROBABILITIES], stated[LABELS_BY_LEVEL]
    if counts is None:
        yield _build_record(row, probabilities, PROBABILITIES)
        return
    if probabilities is not None:
        raise row.error(N_("give probabilities or labels_by_level, not both."), field=LABELS_BY_LEVEL)
    is_nested = isinstance(counts, dict) and any(isinstance(levels, dict) for levels in counts.values())
    if not is_nested:
        yield _build_record(row, _parse_shares(row, counts), LABELS_BY_LEVEL)
        return
    assert isinstance(counts, dict)
    criterion = row.optional("criterion")
    filled = {name: levels for name, levels in counts.items() if levels and criterion in {"", name}}
    if len(filled) != 1 and (row.has("value") or row.has("label")):
        raise row.error(
            N_("of which criterion is this label? Give a row for each criterion."), field=LABELS_BY_LEVEL
        )
    if not filled:
        raise row.error(_NO_LABEL, field=LABELS_BY_LEVEL)
    for name, levels in filled.items():
        yield replace(_build_record(row, _parse_shares(row, levels), LABELS_BY_LEVEL), criterion=name)


def _parse_shares(row: FileRow, counts: object) -> dict[str, float]:
    """How many of all gave each level; what is a level, the guideline says."""
    numbers = {str(level): as_number(n) for level, n in counts.items()} if isinstance(counts, dict) else {}
    shares = {level: n for level, n in numbers.items() if n is not None and n >= 0}
    total = sum(shares.values())
    if len(shares) < len(numbers) or not 0 < total < math.inf:
        raise row.error(_WRONG_DISTRIBUTIONS[LABELS_BY_LEVEL], field=LABELS_BY_LEVEL)
    if any(shares[level] and is_na(level) for level in shares):
        raise row.error(
            N_("“na” is no level, so it has no place in a judge's distribution; leave the row out."),
            field=LABELS_BY_LEVEL,
        )
    return {level: n / total for level, n in shares.items() if not is_na(level)}


_NO_LABEL = N_("there is no label; give value, label, probabilities or labels_by_level.")


def _build_record(row: FileRow, probabilities: object, distribution: str) -> JudgeRecord:
    if probabilities is not None and not isinstance(probabilities, dict):
        raise row.error(_WRONG_DISTRIBUTIONS[distribution], field=distribution)
    value = _parse_number(row)
    answer = (
        row.text("label", longest=MAX_ANSWER_CHARACTERS)
        if row.has("label")
        else _format_value(row.fields.get("value"))
    )
    if not answer and not probabilities:
        raise row.error(_NO_LABEL, field="value")
    response = row.fields.get("response")
    return JudgeRecord(
        line=row.line,
        prompt=read_prompt_ref(row).key,
        answer=answer,
        error=row.error,
        model=row.optional_name("model"),
        collection=row.optional_name("collection"),
        criterion=row.optional("criterion") or None,
        value=value,
        probabilities=probabilities or {},
        sha256=response_sha256(response, []) if isinstance(response, str) and response else "",
        distribution=distribution,
    )


def _parse_number(row: FileRow) -> float | None:
    if not row.has("value"):
        return None
    number = as_number(row.fields["value"])
    if number is None:
        raise row.error(N_("this is no number; write a level's value, or its name as label."), field="value")
    return number


def _format_value(value: object) -> str:
    return "" if value is None else str(value).strip()[:MAX_ANSWER_CHARACTERS]


def build_probabilities_error(record: JudgeRecord) -> InputError:
    return record.error(_WRONG_DISTRIBUTIONS[record.distribution], field=record.distribution)


def _read_esc_eval_rows(source: Source) -> Rows:
    return json_members(source, SCORES)


def _parse_esc_eval(row: FileRow) -> Iterator[JudgeRecord]:
    """A score that is none, such as -1, is kept as it stands: off the scale."""
    scores = row.fields[SCORES]
    if not isinstance(scores, dict) or not scores:
        raise row.error(N_('write the scores as {{"fluency": 3}}.'), field=SCORES)
    for name, score in scores.items():
        if name not in ESC_EVAL_CRITERIA:
            raise row.error(
                N_("there is no score {name}; the scores are {known}."),
                field=SCORES,
                name=name,
                known=", ".join(ESC_EVAL_CRITERIA),
            )
        yield JudgeRecord(
            line=row.line,
            prompt=esc_eval.read_place(row).id,
            answer=str(score)[:MAX_ANSWER_CHARACTERS],
            error=row.error,
            criterion=ESC_EVAL_CRITERIA[name],
            value=as_number(score),
            is_readable=False,
        )


def _read_csv_rows(source: Source) -> Rows:
    return csv_rows(source, required=[("prompt_id", "prompt"), ("value", "label", *_WRONG_DISTRIBUTIONS)])


_READERS: Mapping[str, tuple[Callable[[Source], Rows], Callable[[FileRow], Iterator[JudgeRecord]]]] = {
    "xstest": (_read_xstest_rows, _parse_xstest),
    "jsonl": (json_rows, _parse_jsonl),
    "csv": (_read_csv_rows, _parse_csv),
    esc_eval.NAME: (_read_esc_eval_rows, _parse_esc_eval),
}
