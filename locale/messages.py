"""Gathers every string that a person sees, and compiles the translations. Needs Babel, not GNU gettext.

  python locale/messages.py            gather into locale/zh_Hans/LC_MESSAGES/django.po and compile it
  python locale/messages.py --check    fail for a string that is not gathered, not translated, or not compiled
  python locale/messages.py --missing  print what is not translated yet

English is the source; Chinese is written into the .po file by people.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract, extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
PO = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
MO = PO.with_suffix(".mo")
KEYWORDS: dict[str, tuple[int | tuple[int, str], ...] | None] = {
    "_": None,
    "_now": None,
    "N_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
# Header lines that say nothing here or change by themselves.
HEADER_NOISE = (
    rb'(?:^#(?: .*)?\n)+|"(?:POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Language-Team'
    rb"|Report-Msgid-Bugs-To|Project-Id-Version):[^\n]*\n"
)
UNDATED = datetime(2000, 1, 1, tzinfo=UTC)
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}|%[sd]")


def gathered() -> Catalog:
    """Every message of the code and the templates, with where it stands (without line numbers: they only churn)."""
    catalog = Catalog(locale="zh_Hans", project="Assay", charset="utf-8", fuzzy=False)
    for path, message, context in [*_python(), *_templates()]:
        catalog.add(message, locations=[(str(path.relative_to(ROOT)), None)], context=context)  # type: ignore[list-item]
    return catalog


def _python() -> Iterator[tuple[Path, object, str | None]]:
    for app in ("config", "annotation", "scoring", "benchmark"):
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in path.parts:
                for _line, message, _comments, context in extract_from_file("python", str(path), KEYWORDS):
                    yield path, message, context


def _templates() -> Iterator[tuple[Path, object, str | None]]:
    """Django turns a template into something that reads like Python calls; those are gathered as above."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.path.insert(0, str(ROOT))
    import django

    django.setup()
    from django.utils.translation.template import templatize

    for path in sorted((ROOT / "templates").rglob("*")):
        if path.suffix in {".html", ".txt"}:
            calls = templatize(path.read_text(encoding="utf-8"), origin=str(path))
            lines = io.BytesIO("\n".join(_calls(calls)).encode())
            for _line, message, _comments, context in extract("python", lines, KEYWORDS):
                yield path, message, context


def _calls(templatized: str) -> Iterator[str]:
    """The gettext calls alone: what stands between them is the template's text, blotted out, and no Python."""
    text = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|'''.*?''')"""
    pattern = rf"(?:\bu?n?p?gettext|\b_)\((?:\s*u?(?:{text}|count)\s*,?)+\)"
    for found in re.finditer(pattern, templatized, re.DOTALL):
        yield found.group()


def stored() -> Catalog:
    if not PO.exists():
        return Catalog(locale="zh_Hans")
    with PO.open("rb") as file:
        return read_po(file, locale="zh_Hans")


def merged(old: Catalog) -> Catalog:
    """What is gathered, with the translations that are stored."""
    catalog = gathered()
    for message in catalog:
        known = old.get(message.id, message.context) if message.id else None
        if known is not None:
            message.string = known.string
    return catalog


def _form(catalog: Catalog) -> bytes:
    file = io.BytesIO()
    write_po(file, catalog, width=110, sort_output=True, omit_header=False, ignore_obsolete=True)
    return re.sub(HEADER_NOISE, b"", file.getvalue(), flags=re.MULTILINE)


def _compiled(catalog: Catalog) -> bytes:
    catalog.creation_date = UNDATED  # the .po holds no date; today's would make every compilation another
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def faults() -> list[str]:
    old = stored()
    catalog = merged(old)
    found = [f"not translated: {message.id!r}" for message in untranslated(catalog)]
    for message in old:
        found += [f"fuzzy: {message.id!r}"] if message.fuzzy and message.id else []
        for given in _strings(message):
            if given and set(PLACEHOLDER.findall(given)) != set(PLACEHOLDER.findall(_source(message))):
                found.append(f"placeholders differ: {message.id!r} -> {given!r}")
    if {(m.id, m.context) for m in catalog} != {(m.id, m.context) for m in old}:
        found.append("the .po file is behind the code: run ./run messages")
    with PO.open("rb") as file:
        if not MO.exists() or MO.read_bytes() != _compiled(read_po(file)):
            found.append("the .mo file is behind the .po file: run ./run messages")
    return found


def _source(message: Message) -> str:
    """The English text; of two forms the plural one, for which the only Chinese form stands."""
    if not message.id:
        return ""
    return str(message.id) if isinstance(message.id, str) else str(message.id[-1])


def _strings(message: Message) -> list[str]:
    if not message.id or not message.string:
        return []
    return [message.string] if isinstance(message.string, str) else [text or "" for text in message.string]


def untranslated(catalog: Catalog) -> list[object]:
    return [m for m in catalog if m.id and not (all(m.string) if isinstance(m.string, tuple) else m.string)]


def main() -> int:
    if "--check" in sys.argv:
        found = faults()
        print("\n".join(found) or "every string is translated")
        return 1 if found else 0
    catalog = merged(stored())
    if "--missing" in sys.argv:
        print("\n".join(repr(message.id) for message in untranslated(catalog)))
        return 0
    PO.write_bytes(_form(catalog))
    with PO.open("rb") as file:
        MO.write_bytes(_compiled(read_po(file)))
    print(f"{len(catalog)} strings, {len(untranslated(catalog))} not translated yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
