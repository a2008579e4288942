"""ESC-Eval: its role cards, a JSON array of ``id, base, res, language``. A card is a prompt, ``res`` its dimension."""

from __future__ import annotations

from collections.abc import Iterator

from annotation.core.errors import N_
from annotation.domain.formats.base import PROMPTS, Format, PromptRecord, PromptRef, Reader
from annotation.domain.formats.rows import FileRow, json_items

LANGUAGES = {"english": "en", "chinese": "zh"}
# Where the card was made from, and the same card in the other language.
LEFT_OUT = frozenset({"source", "base_biaozhu"})
FIELDS = frozenset({"id", "base", "res", "language"})


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield PromptRecord(
        line=row.line,
        ref=PromptRef(id=row.identifier("id"), text=row.text("base")),
        dimension=row.text("res", longest=100).strip(),
        language=_read_language(row),
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


def _guess_kind(fields: frozenset[str]) -> str | None:
    return PROMPTS if fields >= {"id", "base", "res"} else None


FORMAT = Format(
    name="esc_eval",
    is_json=True,
    is_array=True,
    guess=_guess_kind,
    prompts=Reader(rows=json_items, parse=_read_prompts, known=FIELDS | LEFT_OUT),
)
