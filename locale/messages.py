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
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.frontend import parse_keywords, parse_mapping_cfg
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
PO = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
MO = PO.with_suffix(".mo")
# Beside those that Babel knows by itself.
KEYWORDS = DEFAULT_KEYWORDS | parse_keywords(
    [
        "_now",
        "gettext_lazy",
        "gettext_noop",
        "ngettext_lazy:1,2",
        "pgettext_lazy:1c,2",
        "npgettext_lazy:1c,2,3",
    ]
)
# Header lines that say nothing here or change by themselves.
HEADER_NOISE = (
    rb'(?:^#(?: .*)?\n)+|"(?:POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Language-Team'
    rb"|Report-Msgid-Bugs-To|Project-Id-Version):[^\n]*\n"
)
UNDATED = datetime(2000, 1, 1, tzinfo=UTC)
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}|%[sd]")


def gathered() -> Catalog:
    """Every message of what babel.cfg names, with the files where it stands."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.path.insert(0, str(ROOT))
    import django

    django.setup()
    with (ROOT / "babel.cfg").open() as file:
        methods, options = parse_mapping_cfg(file)
    catalog = Catalog(locale="zh_Hans", project="Assay", charset="utf-8", fuzzy=False)
    for path, line, message, _comments, context in extract_from_dir(ROOT, methods, options, KEYWORDS):
        catalog.add(message, locations=[(path, line)], context=context)
    return catalog


def stored() -> Catalog:
    if not PO.exists():
        return Catalog(locale="zh_Hans")
    with PO.open("rb") as file:
        return read_po(file, locale="zh_Hans")


def merged() -> Catalog:
    """What is gathered, with the translations that are stored."""
    old = stored()
    old.update(gathered(), no_fuzzy_matching=True)
    old.obsolete.clear()
    return old


def _form(catalog: Catalog) -> bytes:
    file = io.BytesIO()
    write_po(file, catalog, width=110, sort_output=True, include_lineno=False)
    return re.sub(HEADER_NOISE, b"", file.getvalue(), flags=re.MULTILINE).lstrip()


def _compiled(catalog: Catalog) -> bytes:
    catalog.creation_date = UNDATED  # the .po holds no date; today's would make every compilation another
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def faults() -> list[str]:
    old = stored()
    catalog = merged()
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
    catalog = merged()
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
