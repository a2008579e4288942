"""The names that people give to things: they stand in addresses, files and commands. Pure.

What is made here is named by ``check_name``. What comes from elsewhere, models and whoever labelled there, has its
name already, which may be any printable text: ``check_printable_name``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

from annotation.core.errors import N_, AssayError

MAX_NAME_CHARACTERS = 100
_FORBIDDEN = re.compile(r"[/\\?#%\x00-\x1f\x7f]|^\.|^\s|\s$")


def check_name(name: str) -> str:
    """The name, if it can stand in an address: any script, no slash, no control character, at most 100 characters."""
    if not name or len(name) > MAX_NAME_CHARACTERS or _FORBIDDEN.search(name):
        raise AssayError(
            N_(
                "{name} cannot be a name: use 1 to {longest} characters,"
                " without / \\ ? # % and no dot or blank in front."
            ),
            name=repr(name),
            longest=MAX_NAME_CHARACTERS,
        )
    return name


def check_printable_name(name: str) -> str:
    """The name, if it can be read: of any printable characters, none of them a blank at an end, at most 100."""
    is_readable = name.isprintable() and name == name.strip() and name not in {"", ".", ".."}
    if not is_readable or len(name) > MAX_NAME_CHARACTERS:
        raise AssayError(
            N_(
                "{name} cannot be a name: use 1 to {longest} printable characters, without a blank at either end;"
                " a dot or two alone are no name."
            ),
            name=repr(name),
            longest=MAX_NAME_CHARACTERS,
        )
    return name


_UNSAFE = re.compile(r"[/\\?#%~]|^\.")
_QUOTED = re.compile(r"~([0-9A-F]{2})")
_LISTED = re.compile(r'\s*(?:"((?:[^"]|"")+)"\s*(?=,|$)|([^,]*))(?:,|$)')


def quote_name(name: str) -> str:
    """The name as one step of an address. No server and no proxy on the way takes a letter of it for its own."""
    return _UNSAFE.sub(lambda match: f"~{ord(match[0]):02X}", name)


def unquote_name(step: str) -> str:
    return _QUOTED.sub(lambda match: chr(int(match[1], 16)), step)


def join_names(names: Iterable[str]) -> str:
    """``a, b``; a name that holds a comma or begins with a quotation mark stands in quotation marks, as in CSV."""
    return ", ".join(_quote_in_list(name) for name in names)


def split_names(text: str) -> list[str]:
    """The names of ``a,b``, of which each may be quoted as in CSV: ``"a, b",c`` are two."""
    names = (
        quoted.replace('""', '"') if quoted else plain.strip() for quoted, plain in _LISTED.findall(text)
    )
    return [name for name in names if name]


def split_name_lists(texts: Iterable[str]) -> list[str]:
    """The names of several such lists, each once."""
    return list(dict.fromkeys(name for text in texts for name in split_names(text)))


def _quote_in_list(name: str) -> str:
    if "," not in name and not name.startswith('"'):
        return name
    return '"' + name.replace('"', '""') + '"'


# Scripts that are written together in one language, and whose letters nobody takes for each other's.
_WRITTEN_TOGETHER = (
    {"LATIN", "HAN", "HIRAGANA", "KATAKANA"},
    {"LATIN", "HAN", "BOPOMOFO"},
    {"LATIN", "HAN", "HANGUL"},
)
_ANY_SCRIPT = {"COMMON", "INHERITED"}


ERASED_PREFIX = "erased-"
"""The first letters of the pseudonym of everybody who was erased."""


def refuse_reserved_name(name: str) -> None:
    """Nobody signs in by a name that is taken for the pseudonym of somebody who was erased."""
    if name.casefold().startswith(ERASED_PREFIX):
        raise AssayError(
            N_("Names that begin with {prefix} are those of people who were erased."), prefix=ERASED_PREFIX
        )


def check_person_name(name: str) -> None:
    """A name to sign in with is of one script, or of Chinese characters and Latin letters; in whichever normal form."""
    from confusable_homoglyphs.categories import unique_aliases

    scripts = set(unique_aliases(unicodedata.normalize("NFKC", name))) - _ANY_SCRIPT
    if len(scripts) > 1 and not any(scripts <= together for together in _WRITTEN_TOGETHER):
        raise AssayError(
            N_(
                "{name} mixes letters of several scripts ({scripts}), of which some look alike: use one script."
            ),
            name=repr(name),
            scripts=", ".join(sorted(script.capitalize() for script in scripts)),
        )


def look_alike_key(name: str) -> str:
    """Equal for two names that readers take for each other: in another case, in letters of another script, with 0 for
    o, 1 for l or rn for m. The skeleton of Unicode's Technical Standard 39, of the name without its case.
    """
    return _skeleton(_fold(name))


def look_alike_keys(name: str) -> set[str]:
    """The key of the name, and that of what it looks like as it is written: a capital I is taken for an l."""
    return {look_alike_key(name), look_alike_key(_skeleton(unicodedata.normalize("NFKC", name)))}


def _fold(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _skeleton(text: str) -> str:
    prototypes = _prototypes()
    letters = unicodedata.normalize("NFD", text)
    return _fold("".join(prototypes.get(letter, letter) for letter in letters))


@cache
def _prototypes() -> dict[str, str]:
    """What stands for each letter that looks like another one. The library lists for a letter its one prototype, and
    for a prototype all that look like it; of two that have only each other the plainer one stands.
    """
    from confusable_homoglyphs.confusables import confusables_data

    prototypes = {}
    for letter, look_alikes in confusables_data.items():
        other = look_alikes[0]["c"].strip(_MARKS)
        is_prototype = len(confusables_data.get(other, ())) > 1 or _plainness(other) < _plainness(letter)
        if len(look_alikes) == 1 and is_prototype:
            prototypes[letter] = other
    return prototypes


_MARKS = "\u200e\u200f"  # the library puts them around letters that are written from right to left


def _plainness(text: str) -> tuple[bool, str]:
    return not text.isascii(), text


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, whatever its case; None where none is near."""
    by_key = {candidate.casefold(): candidate for candidate in known}
    nearest = get_close_matches(name.casefold(), by_key, n=1, cutoff=0.6)
    return by_key[nearest[0]] if nearest else None
