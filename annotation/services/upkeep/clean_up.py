"""The nightly clean-up: what is not needed any more, or is made anew when somebody asks for it.

Each app registers what it leaves behind. A release, a scorer, the audit trail and what people did rest on nothing of
it. How long each kind is kept is set in config/settings.py, 0 days for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Remains:
    """What may go of a kind: how many, and the bytes of their files; ``error`` says why they could not go."""

    number: int
    bytes: int = 0
    error: str = ""


Cleaner = Callable[[bool], Remains]
"""Says what may go, and with True removes it."""
CLEANERS: dict[str, Cleaner] = {}


def register_cleaner(kind: str) -> Callable[[Cleaner], Cleaner]:
    """Register the function that finds and removes remains of this kind."""

    def register(cleaner: Cleaner) -> Cleaner:
        CLEANERS[kind] = cleaner
        return cleaner

    return register


def clean_up(*, remove: bool) -> dict[str, Remains]:
    """What may go, by kind, or what went. A kind that fails holds up no other."""
    autodiscover_modules("tasks")
    outcome = {}
    for kind, cleaner in sorted(CLEANERS.items()):
        try:
            outcome[kind] = cleaner(remove)
        except AssayError as error:
            outcome[kind] = Remains(0, error=error_text(error))
        except OSError as error:
            outcome[kind] = Remains(0, error=str(error))
        if outcome[kind].error:
            logger.error("cleaning up %s: %s", kind, outcome[kind].error)
        elif remove and outcome[kind].number:
            logger.info("cleaned up %s: %s, %s bytes", kind, outcome[kind].number, outcome[kind].bytes)
    return outcome


def find_cutoff(days: int) -> datetime | None:
    """What is older than this may go; None where it is kept for ever."""
    return timezone.now() - timedelta(days=days) if days else None


def list_old(folder: Path, days: int, pattern: str = "*") -> list[Path]:
    """What lies there and was not written to for so long; with 0 days nothing."""
    cutoff = find_cutoff(days)
    return [] if cutoff is None else sorted(path for path in folder.glob(pattern) if _is_older(path, cutoff))


def _is_older(path: Path, cutoff: datetime) -> bool:
    """Of a folder, all that is in it."""
    return all(file.lstat().st_mtime < cutoff.timestamp() for file in _walk(path))


def measure(paths: Iterable[Path]) -> int:
    """The bytes of these files, and of those in these folders."""
    return sum(file.lstat().st_size for path in paths for file in _walk(path) if not file.is_dir())


def _walk(path: Path) -> Iterator[Path]:
    """It, and all that is in it; nothing where it is gone."""
    if path.is_symlink() or path.exists():
        yield path
    if path.is_dir() and not path.is_symlink():
        yield from path.rglob("*")
