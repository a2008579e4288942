"""ESC-Eval: its role cards, dialogues and scores.

Cards are a JSON array of ``id, base, res, language, source``; a card is a prompt, ``res`` its dimension. Dialogues and
scores are a JSON object each, whose names are the places of the cards in their file, from 0. A dialogue is a list of
lines with the speaker before the first colon; the model's name stands before ``_en`` or ``_zh`` in the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from annotation.core.errors import N_
from annotation.domain.annotations import MARKABLE, OPENING
from annotation.domain.formats.base import (
    PROMPTS,
    Format,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.rows import (
    MAX_SOURCE_CHARACTERS,
    FileRow,
    Rows,
    Source,
    json_items,
    json_members,
)

LANGUAGES = {"english": "en", "chinese": "zh"}
# The same card in the other language.
LEFT_OUT = frozenset({"base_biaozhu"})
FIELDS = frozenset({"id", "base", "res", "language", "source"})
NAME = "esc_eval"
LINES = "dialogue"
# As the published files spell the model, and as it would be spelt.
SPEAKERS = {"ai assitant": MARKABLE, "ai assistant": MARKABLE, "esc-role": "user"}
_SPEAKER = re.compile(r"([^：:]{1,40})[：:]", re.DOTALL)
_FILE = re.compile(r"(.+)_(?:en|zh)\.json", re.IGNORECASE)


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield PromptRecord(
        line=row.line,
        ref=PromptRef(id=row.identifier("id"), text=row.text("base")),
        dimension=row.text("res", longest=100).strip(),
        language=_read_language(row),
        source=row.optional("source", longest=MAX_SOURCE_CHARACTERS).strip(),
    )


def _read_language(row: FileRow) -> str:
    word = row.text("language").strip()
    if word.lower() not in LANGUAGES:
        raise row.error(
            N_("there is no language {found} here; write one of {known}."),
            field="language",
            found=repr(word),
            known=", ".join(LANGUAGES),
        )
    return LANGUAGES[word.lower()]


def read_place(row: FileRow) -> PromptRef:
    """The place of the card, from 0."""
    place = row.fields["id"]
    if not place.isascii() or not place.isdecimal() or len(place) > 9:
        raise row.error(N_("this is no place of a role card, 0, 1, 2 and so on."), field="id")
    return PromptRef(id=str(int(place)))


def _read_dialogues(source: Source) -> Rows:
    return json_members(source, LINES)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    lines = row.fields[LINES]
    if not isinstance(lines, list) or len(lines) < 2 or not all(isinstance(line, str) for line in lines):
        raise row.error(N_("write a dialogue as a list of lines, each with its speaker."), field=LINES)
    turns = [_read_turn(row, line) for line in lines]
    if turns[0]["role"] == MARKABLE:
        turns[0]["role"] = OPENING
    yield ResponseRecord(line=row.line, ref=read_place(row), turns=turns)


def _read_turn(row: FileRow, line: str) -> dict[str, str]:
    match = _SPEAKER.match(line)
    role = SPEAKERS.get(match[1].strip().casefold()) if match else None
    if match is None or role is None:
        raise row.error(
            N_("this line begins with none of the speakers {known}: {text}"),
            field=LINES,
            known=", ".join(SPEAKERS),
            text=repr(line[:60]),
        )
    return {"role": role, "text": line[match.end() :]}


def find_model(file_name: str) -> str | None:
    """``Qwen_7B_en.json`` holds what Qwen_7B said."""
    match = _FILE.fullmatch(file_name.replace("\\", "/").rpartition("/")[2])
    return match[1] if match else None


def _guess_kind(fields: frozenset[str]) -> str | None:
    return PROMPTS if fields >= {"id", "base", "res"} else None


FORMAT = Format(
    name=NAME,
    is_json=True,
    is_array=True,
    guess=_guess_kind,
    prompts=Reader(rows=json_items, parse=_read_prompts, known=FIELDS | LEFT_OUT),
    responses=Reader(rows=_read_dialogues, parse=_read_responses, known=frozenset({"id", LINES})),
    names_places=True,
    model_of=find_model,
)
