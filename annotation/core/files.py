"""Opening what people hand in: a missing, wrong, empty or binary file is refused in words. Pure."""

from __future__ import annotations

from pathlib import Path

from annotation.core.errors import N_, InputError


def check_file(path: str | Path) -> Path:
    """The path, if it is a readable, non-empty file."""
    file_path = Path(path)
    name = str(path)
    try:
        if file_path.is_dir():
            raise InputError(N_("this is a folder; name a file."), path=name)
        if not file_path.exists():
            raise InputError(N_("there is no such file."), path=name)
        with file_path.open("rb") as file:
            if not file.read(1):
                raise InputError(N_("the file is empty."), path=name)
    except OSError as error:
        raise InputError(N_("the file cannot be read: {why}."), path=name, why=error.strerror) from error
    return file_path


def read_text(path: str | Path) -> str:
    """The whole file as text: UTF-8, with or without a byte-order mark."""
    content = check_file(path).read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(N_("this is not text in UTF-8."), path=str(path), line=line) from error
    if "\0" in text:
        raise InputError(N_("this is a binary file; give a text file in UTF-8."), path=str(path))
    return text
