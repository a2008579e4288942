"""The names that people give to things: they stand in addresses, files and commands. Pure."""

from __future__ import annotations

import re

from annotation.errors import N_, AssayError

LONGEST = 100
_FORBIDDEN = re.compile(r"[/\\?#%\x00-\x1f\x7f]|^\.|^\s|\s$")


def check_name(name: str) -> str:
    """The name, if it can stand in an address: any script, no slash, no control character, at most 100 characters."""
    if not name or len(name) > LONGEST or _FORBIDDEN.search(name):
        raise AssayError(
            N_(
                "{name} cannot be a name: use 1 to {longest} characters,"
                " without / \\ ? # % and no dot or blank in front."
            ),
            name=repr(name),
            longest=LONGEST,
        )
    return name
