"""The messages of chats: of OpenAI (``role``, ``content``), ShareGPT (``from``, ``value``) and the like. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from annotation.core.errors import N_
from annotation.domain.annotations import MARKABLE
from annotation.domain.formats.rows import FileRow

ROLE_FIELDS, TEXT_FIELDS = ("role", "from", "author", "speaker"), ("content", "text", "value")
ROLES = {
    "bot": MARKABLE,
    "model": MARKABLE,
    "gpt": MARKABLE,
    "chatgpt": MARKABLE,
    "human": "user",
    "developer": "system",
}
USER, SYSTEM = "user", "system"


def read_messages(row: FileRow, field: str) -> list[dict[str, str]]:
    """The turns, each with its role and its text, or nothing where there is nothing."""
    value = row.fields.get(field)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise row.error(N_("this is no JSON: {why}."), field=field, why=error) from error
    if value is None or value in ("", []):
        return []
    if not isinstance(value, list):
        raise row.error(N_('write a turn as {{"role": "user", "text": "…"}}, with both.'), field=field)
    return [_read_message(row, message, field) for message in value]


def _read_message(row: FileRow, message: object, field: str) -> dict[str, str]:
    fields: Mapping[str, Any] = message if isinstance(message, dict) else {}
    role = next((fields[name] for name in ROLE_FIELDS if isinstance(fields.get(name), str)), None)
    text = next((fields[name] for name in TEXT_FIELDS if fields.get(name) is not None), None)
    if isinstance(text, list):
        text = _join_parts(row, text, field)
    if role is None or not isinstance(text, str):
        raise row.error(N_('write a turn as {{"role": "user", "text": "…"}}, with both.'), field=field)
    return {"role": ROLES.get(role.lower(), role.lower()), "text": text}


def _join_parts(row: FileRow, parts: list[Any], field: str) -> str:
    """Content in parts, of which each must be a text: a picture cannot be judged here."""
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise row.error(
            N_("a message holds something that is no text, such as a picture; only text can be judged."),
            field=field,
        )
    return "\n".join(map(str, texts))
