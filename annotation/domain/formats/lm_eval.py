"""Logs of the Language Model Evaluation Harness: ``samples_TASK_TIME.jsonl``, as ``lm_eval --log_samples`` writes them.

The model and its settings stand in ``results_TIME.json`` beside it; without that file the model is named for the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from annotation.core.errors import N_, InputError
from annotation.domain.formats.base import (
    RESPONSES,
    Format,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
    ScoreRecord,
    format_epoch,
    format_options,
)
from annotation.domain.formats.rows import FileRow, Rows, Source, as_number, json_rows

NAME = "lm_eval"
MAX_RESULTS_BYTES = 64 * 1024 * 1024
NO_FILTER = "none"
_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_FIELDS = frozenset({"doc_id", "arguments", "resps"})


def _read_rows(source: Source) -> Rows:
    """The lines; a sample that stands there once more under another filter is marked as ``repeated``."""
    match = _FILE.fullmatch(source.name.replace("\\", "/").rpartition("/")[2])
    task = match["task"] if match else ""
    about = _read_results(source, match["time"]) if match else {}
    seen: set[Any] = set()
    for row in json_rows(source):
        if isinstance(row, InputError):
            yield row
            continue
        number = row.fields.get("doc_id")
        yield FileRow(
            file=row.file,
            line=row.line,
            fields={**row.fields, **about, "task": task, "repeated": number in seen},
        )
        seen.add(number if isinstance(number, int | str) else None)


def _read_results(source: Source, time: str) -> dict[str, Any]:
    """The model and what it was asked with, where the file of the results lies beside that of the samples."""
    path = source.path.parent / f"results_{time}.json"
    if not path.is_file() or path.stat().st_size > MAX_RESULTS_BYTES:
        return {}
    try:
        results = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(N_("this cannot be read: {why}."), path=str(path), why=str(error)[:200]) from error
    config = results.get("config") or {}
    arguments = config.get("model_args") or {}
    if isinstance(arguments, str):
        arguments = dict(part.split("=", 1) for part in arguments.split(",") if "=" in part)
    model = arguments.get("pretrained") or arguments.get("model") or config.get("model")
    generation = config.get("gen_kwargs")
    settings = {name: config[name] for name in ("random_seed", "limit") if config.get(name) is not None}
    settings |= generation if isinstance(generation, dict) else {}
    return {"model": model, "settings": settings}


def _get_contexts(row: FileRow) -> list[tuple[Any, Any]]:
    """What the model was given, and either settings of its generation or a text whose likelihood it was to tell."""
    arguments = row.fields.get("arguments")
    if isinstance(arguments, dict):
        pairs = [
            (part.get("arg_0"), part.get("arg_1")) for part in arguments.values() if isinstance(part, dict)
        ]
    elif isinstance(arguments, list):  # before 0.4.3
        pairs = [
            (part[0], part[1] if len(part) > 1 else None)
            for part in arguments
            if isinstance(part, list) and part
        ]
    else:
        pairs = []
    return [(text[0] if isinstance(text, list) and text else text, more) for text, more in pairs]


def _get_options(row: FileRow) -> list[str]:
    """The choices of a multiple-choice task, whose likelihoods the model told; nothing where it wrote a text."""
    contexts = _get_contexts(row)
    if len(contexts) < 2 or len({context for context, _option in contexts}) > 1:
        return []
    return [option.strip() for _context, option in contexts if isinstance(option, str)]


def _list_texts(row: FileRow) -> list[str]:
    """What the model wrote, once for each repeat; of choices the likeliest."""
    replies = row.fields["resps"]
    if not isinstance(replies, list) or not replies:
        return []
    options = _get_options(row)
    if options:
        likelihoods = [_parse_likelihood(reply) for reply in replies]
        if len(likelihoods) != len(options) or None in likelihoods:
            return []
        return [options[max(range(len(options)), key=lambda place: likelihoods[place] or 0.0)]]
    texts = replies[0] if isinstance(replies[0], list) else replies
    return texts if len(replies) == 1 and all(isinstance(text, str) for text in texts) else []


def _parse_likelihood(reply: Any) -> float | None:
    while isinstance(reply, list) and reply:
        reply = reply[0]
    return as_number(reply)


def _build_prompt(row: FileRow) -> PromptRecord:
    contexts = _get_contexts(row)
    context = contexts[0][0] if contexts else None
    if not isinstance(context, str) or not context.strip():
        raise row.error(N_("there is no text that the model was given (arg_0)."), field="arguments")
    number = row.fields.get("doc_id")
    task = row.fields["task"]
    key = f"{task}-{number}" if task else str(number)
    text = "\n\n".join(filter(None, (context, format_options(_get_options(row)))))
    return PromptRecord(line=row.line, ref=PromptRef(id=key, text=text))


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield _build_prompt(row)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    _check_fields(row)
    if row.fields["repeated"]:
        return
    texts = _list_texts(row)
    if not texts:
        return
    prompt = _build_prompt(row)
    for number, text in enumerate(texts, start=1):
        yield ResponseRecord(
            line=row.line,
            ref=prompt.ref,
            text=text,
            model=row.optional_name("model"),
            collection=format_epoch(number) if len(texts) > 1 else None,
            prompt=prompt,
        )


def _check_fields(row: FileRow) -> None:
    missing = sorted(_FIELDS - row.fields.keys())
    if missing:
        raise row.error(
            N_("this is no line of samples_*.jsonl (lm_eval --log_samples): there is no such field."),
            field=missing[0],
        )


def read_scores(row: FileRow) -> Iterator[ScoreRecord]:
    """Every metric of a sample under its filter; of several repeats the filter has taken the first."""
    _check_fields(row)
    texts = _list_texts(row)
    if not texts:
        return
    suffix = "" if row.fields.get("filter") in {None, NO_FILTER} else f"/{row.fields['filter']}"
    for metric in row.fields.get("metrics") or []:
        yield ScoreRecord(
            row=row,
            prompt=_build_prompt(row).ref.key,
            judge=f"{NAME}/{metric}{suffix}",
            value=row.fields.get(metric),
            target=row.fields.get("target"),
            answer=_get_answer(row.fields.get("filtered_resps")),
            model=row.optional_name("model"),
            collection=format_epoch(1) if len(texts) > 1 else None,
        )


def _get_answer(replies: Any) -> str | None:
    first = replies[0] if isinstance(replies, list) and replies else None
    return first if isinstance(first, str) else None


def _list_left_out(row: FileRow) -> Iterator[str]:
    if row.fields["repeated"]:
        yield N_(
            "{number} lines are of a sample that came before, under another filter: its response is in already."
        )
        return
    if not _list_texts(row):
        yield N_("{number} samples measure how likely a given text is and have no response: left out.")
        return
    if _get_options(row):
        yield N_("{number} responses are the choice that the model found likeliest: it wrote no text.")
    if row.fields.get("target") not in {None, ""}:
        yield N_("{number} samples have a target: it comes in with the scores (import_judge_labels).")
    if row.fields.get("metrics"):
        yield N_("{number} samples have scores of the harness: import_judge_labels takes them as judges.")


def _guess_kind(fields: frozenset[str]) -> str | None:
    return RESPONSES if fields >= _FIELDS else None


FORMAT = Format(
    name=NAME,
    is_json=True,
    guess=_guess_kind,
    prompts=Reader(rows=_read_rows, parse=_read_prompts, known=None),
    responses=Reader(rows=_read_rows, parse=_read_responses, known=None, passes_over=_list_left_out),
    is_log=True,
)
