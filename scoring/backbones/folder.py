"""A scorer's folder: a card that says what the weights beside it are, and the hash of it all.

Pure: no Django, no learning library.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from annotation.core.errors import N_, AssayError
from scoring.domain.training_data import Head

CARD = "scorer.json"
FORMAT = 1
ARRAYS = ".npz"


def write_card(folder: Path, *, kind: str, backbone: str, heads: Sequence[Head], **details: object) -> None:
    """The file that says what the saved weights beside it are."""
    card = {"format": FORMAT, "kind": kind, "backbone": backbone, "heads": [h.to_json() for h in heads]}
    text = json.dumps({**card, **details}, ensure_ascii=False, indent=1, sort_keys=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


def read_card(folder: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AssayError(
            N_("No scorer can be read from {folder}: {reason}"), folder=str(folder), reason=str(error)
        ) from error
    if card.get("format") != FORMAT:
        raise AssayError(N_("The scorer in {folder} is of another version."), folder=str(folder))
    return card


def card_heads(card: dict[str, Any]) -> tuple[Head, ...]:
    return tuple(Head.from_json(head) for head in card["heads"])


def fingerprint(folder: Path) -> str:
    """The sha256 (hex) of everything in a scorer's folder: what a run records of the scorer it used.

    Of arrays their values count and not the zip around them, which each version of Python writes in its own way.
    """
    return _digest(folder, _content_digest)


def has_fingerprint(folder: Path, sha256: str) -> bool:
    """Whether the folder is as it was then. Scorers of earlier versions hold the sha256 of the zip itself."""
    return sha256 in {fingerprint(folder), _digest(folder, _file_digest)}


def _digest(folder: Path, digest: Callable[[Path], str]) -> str:
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        total.update(f"{digest(path)}  {path.relative_to(folder).as_posix()}\n".encode())
    return total.hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _content_digest(path: Path) -> str:
    if path.suffix != ARRAYS:
        return _file_digest(path)
    try:
        return _arrays_digest(path)
    except (OSError, ValueError, zipfile.BadZipFile):  # no arrays: then its bytes are all there is to compare
        return _file_digest(path)


def _arrays_digest(path: Path) -> str:
    total = hashlib.sha256()
    with np.load(path, allow_pickle=False) as arrays:
        for name in sorted(arrays.files):
            array = np.ascontiguousarray(arrays[name])
            total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            total.update(array.tobytes())
    return total.hexdigest()
