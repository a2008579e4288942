"""Logs of Inspect: ``.eval`` (a zip of JSON files, compressed by zstandard since 2026) and ``.json``.

A sample of a log is a row; its number in the log stands for the line. What the model was given is the prompt, what
it wrote from there on the response: a text, or turns where it called tools or spoke more than once.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import zstandard

from annotation.core.errors import N_, InputError
from annotation.domain.formats.base import (
    Format,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
    ScoreRecord,
    format_epoch,
    format_options,
)
from annotation.domain.formats.rows import BEGINNING, FileRow, Rows, Source, is_storable

NAME = "inspect"
MAX_JSON_BYTES = 256 * 1024 * 1024
MAX_MEMBER_BYTES = 64 * 1024 * 1024
ZSTANDARD = 93
_LOCAL_HEADER = struct.Struct("<26xHH")
_SAMPLE = re.compile(r"samples/.+\.json")
_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{32})")
STOPPED_BY_LIMIT = frozenset({"max_tokens", "model_length"})
SETTINGS = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "seed",
    "stop_seqs",
    "system_message",
    "num_choices",
)


def is_log(source: Source) -> bool:
    """Whether the file is a zip that holds a log's header, or JSON that begins as a log does."""
    try:
        with source.path.open("rb") as file:
            beginning = file.read(BEGINNING)
        if beginning.lstrip().startswith(b"{") and b'"eval_id"' in beginning:
            return True
        with zipfile.ZipFile(source.path) as log:
            return "header.json" in log.namelist() or "_journal/start.json" in log.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _read_rows(source: Source) -> Rows:
    source.check()
    is_zip = zipfile.is_zipfile(source.path)
    samples = _read_members(source) if is_zip else _read_json(source)
    for number, (log, sample) in enumerate(samples, start=1):
        fields = _build_fields(log, sample)
        if is_storable(fields):
            yield FileRow(file=source.name, line=number, fields=fields)
        else:
            yield InputError(
                N_("a text holds \\u0000 or half of a surrogate pair; remove it."),
                path=source.name,
                line=number,
            )


def _read_members(source: Source) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    try:
        with zipfile.ZipFile(source.path) as log:
            names = log.namelist()
            header = "header.json" if "header.json" in names else "_journal/start.json"
            if header not in names:
                raise InputError(
                    N_("this zip holds no header.json; it is no log of Inspect."), path=source.name
                )
            head = _parse(_read_member(log, header, source), source)
            members = sorted((name for name in names if _SAMPLE.fullmatch(name)), key=_sort_key)
            for number, name in enumerate(members, start=1):
                yield head, _parse(_read_member(log, name, source), source)
                source.bytes_read = number * source.path.stat().st_size // len(members)
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(N_("this zip is broken ({why})."), path=source.name, why=str(error)[:200]) from error


def _sort_key(name: str) -> list[tuple[int, str]]:
    """By number where there are numbers: 2 before 10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _read_member(log: zipfile.ZipFile, name: str, source: Source) -> bytes:
    """A file of the zip. Python's own reader has no zstandard before 3.14."""
    member = log.getinfo(name)
    if member.file_size > MAX_MEMBER_BYTES:
        raise InputError(N_("{name} is longer than 64 MiB."), path=source.name, name=name)
    if member.compress_type != ZSTANDARD:
        with log.open(member) as file:
            return file.read(MAX_MEMBER_BYTES)
    with source.path.open("rb") as file:
        file.seek(member.header_offset)
        name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        file.seek(name_length + extra_length, 1)
        try:
            with zstandard.ZstdDecompressor().stream_reader(file.read(member.compress_size)) as reader:
                content = reader.read(member.file_size + 1)
        except zstandard.ZstdError as error:
            raise zipfile.BadZipFile(f"{name}: {error}") from error
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"{name}: CRC")
    return content


def _read_json(source: Source) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    if source.path.stat().st_size > MAX_JSON_BYTES:
        raise InputError(
            N_("this log has more than 256 MiB of JSON; write it as .eval (inspect log convert --to eval)."),
            path=source.name,
        )
    log = _parse(source.path.read_bytes(), source)
    samples = log.get("samples")
    if "eval" not in log or not isinstance(samples, list):
        raise InputError(
            N_("this is no log of Inspect, or one without samples (a log has eval and samples)."),
            path=source.name,
        )
    for number, sample in enumerate(samples, start=1):
        yield log, sample if isinstance(sample, dict) else {}
        source.bytes_read = number * source.path.stat().st_size // len(samples)


def _parse(content: bytes, source: Source) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(N_("this cannot be read: {why}."), path=source.name, why=str(error)[:200]) from error
    return value if isinstance(value, dict) else {}


def _build_fields(log: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """What is read of a sample; its events, usage and times are not."""
    evaluation = log.get("eval") or {}
    config = {
        **(evaluation.get("model_generate_config") or {}),
        **((log.get("plan") or {}).get("config") or {}),
    }
    attachments, output = sample.get("attachments") or {}, sample.get("output") or {}
    received, written = _split_messages(sample.get("messages") or [])
    return {
        "model": evaluation.get("model"),
        "settings": {name: config[name] for name in SETTINGS if config.get(name) is not None},
        "epochs": (evaluation.get("config") or {}).get("epochs") or 1,
        "id": sample.get("id"),
        "epoch": sample.get("epoch") or 1,
        "prompt": _resolve(_format_input(sample.get("input")), attachments),
        "choices": sample.get("choices") or [],
        "target": sample.get("target"),
        "systems": sum(message.get("role") == "system" for message in received),
        "turns": [
            {"role": turn["role"], "text": _resolve(turn["text"], attachments)}
            for turn in _build_turns(written)
        ],
        "is_cut": any(
            choice.get("stop_reason") in STOPPED_BY_LIMIT for choice in output.get("choices") or []
        ),
        "completion": _resolve(str(output.get("completion") or ""), attachments),
        "other_parts": sum(_count_other_parts(message.get("content")) for message in written),
        "error": (sample.get("error") or {}).get("message") if sample.get("error") else None,
        "scores": sample.get("scores") or {},
        "metadata": sample.get("metadata") or {},
    }


def _split_messages(messages: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What the model was given, with examples that the task put in, and what followed from its first answer on."""
    messages = [message for message in messages if isinstance(message, dict)]
    for place, message in enumerate(messages):
        if message.get("role") == "assistant" and message.get("source") != "input":
            return messages[:place], messages[place:]
    return messages, []


def _build_turns(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """A call and what the tool answered are one turn of the role ``tool``."""
    calls: dict[str, str] = {}
    for message in messages:
        role, text = str(message.get("role")), _format_content(message.get("content"))
        if role == "tool":
            call = calls.pop(str(message.get("tool_call_id")), str(message.get("function") or ""))
            failure = (message.get("error") or {}).get("message")
            yield {"role": "tool", "text": "\n".join(filter(None, (call, text, failure)))}
        elif text or not message.get("tool_calls"):
            yield {"role": role, "text": text}
        for call in message.get("tool_calls") or []:
            arguments = json.dumps(call.get("arguments") or {}, ensure_ascii=False)
            calls[str(call.get("id"))] = f"{call.get('function')}({arguments})"
    for call in calls.values():
        yield {"role": "tool", "text": call}


def _format_input(value: Any) -> str:
    """The text of a question; of several messages each with its role."""
    if not isinstance(value, list):
        return str(value or "")
    messages = [message for message in value if isinstance(message, dict) and message.get("role") != "system"]
    if len(messages) == 1:
        return _format_content(messages[0].get("content"))
    return "\n\n".join(
        f"{message.get('role')}: {_format_content(message.get('content'))}" for message in messages
    )


def _format_content(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and part.get("text"))
    return str(content or "")


def _count_other_parts(content: Any) -> int:
    """Pictures, sounds and reasoning, which no turn holds."""
    return (
        sum(not part.get("text") for part in content if isinstance(part, dict))
        if isinstance(content, list)
        else 0
    )


def _resolve(text: str, attachments: Mapping[str, Any]) -> str:
    return _ATTACHMENT.sub(lambda match: str(attachments.get(match[1], match[0])), text)


def _build_prompt(row: FileRow) -> PromptRecord:
    text = row.text("prompt")
    ref = PromptRef(
        id=row.identifier("id"), text="\n\n".join(filter(None, (text, format_options(row.fields["choices"]))))
    )
    return PromptRecord(line=row.line, ref=ref)


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield _build_prompt(row)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    prompt = _build_prompt(row)
    if row.fields["error"]:
        return
    turns = row.fields["turns"]
    is_text = len(turns) <= 1 and all(turn["role"] == "assistant" for turn in turns)
    yield ResponseRecord(
        line=row.line,
        ref=prompt.ref,
        text=(turns[0]["text"] if turns else row.fields["completion"]) if is_text else "",
        turns=() if is_text else turns,
        model=row.optional_name("model"),
        collection=_get_collection(row),
        prompt=prompt,
        is_cut=row.fields["is_cut"],
    )


def _get_collection(row: FileRow) -> str | None:
    return format_epoch(row.fields["epoch"]) if row.fields["epochs"] > 1 else None


def read_scores(row: FileRow) -> Iterator[ScoreRecord]:
    """Every scorer's value for a sample; one that has several values is a judge for each of them."""
    if row.fields["error"]:
        return
    for scorer, score in row.fields["scores"].items():
        value = score.get("value")
        for name, part in value.items() if isinstance(value, dict) else [("", value)]:
            yield ScoreRecord(
                row=row,
                prompt=_build_prompt(row).ref.key,
                judge="/".join(filter(None, (NAME, scorer, name))),
                value=part,
                target=row.fields["target"],
                answer=score.get("answer"),
                model=row.optional_name("model"),
                collection=_get_collection(row),
            )


def _list_left_out(row: FileRow) -> Iterator[str]:
    if row.fields["error"]:
        yield N_("{number} samples failed, so that the log has no response of them: left out.")
        return
    if row.fields["systems"]:
        yield N_("{number} samples were asked with a system message; prompts and responses do not hold it.")
    if row.fields["other_parts"]:
        yield N_("{number} responses hold reasoning, pictures or other parts that are no text: left out.")
    if row.fields["metadata"]:
        yield N_("{number} samples have metadata of their own: left out.")
    if row.fields["target"]:
        yield N_("{number} samples have a target: it comes in with the scores (import_judge_labels).")
    if row.fields["scores"]:
        yield N_("{number} samples have scores of the harness: import_judge_labels takes them as judges.")


FORMAT = Format(
    name=NAME,
    is_json=False,
    guess=lambda _fields: None,
    prompts=Reader(rows=_read_rows, parse=_read_prompts, known=None),
    responses=Reader(rows=_read_rows, parse=_read_responses, known=None, passes_over=_list_left_out),
    is_log=True,
)
