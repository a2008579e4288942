"""The data folder: which of its files a backup takes, which are made anew, and which are secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import connection

from annotation.core.storage import bucket, file_cache
from annotation.models import WithFiles

STAGING = "restoring"
"""Where a restore puts files until their rows are stored; what a killed one left there is thrown away."""
SECRETS = ("secret_key", "demo_password")
MADE_ANEW = ("charts", "static", file_cache.FOLDER, STAGING)
IN_BUCKET = ("uploads", "exports", "scorers")
"""Where there is a bucket it has them, and a host only what it works on."""


def list_models_with_files() -> list[type[WithFiles]]:
    return [model for model in apps.get_models() if issubclass(model, WithFiles)]


def list_data_files(*, with_secrets: bool = False) -> Iterator[Path]:
    """What there is to back up, relative to the folder: all but the database, messages to workers, what is made anew
    when it is missed, and what is not finished. A file of a kind that nobody thought of is taken along.
    """
    root = Path(settings.ASSAY_DATA_DIR)
    left_out = (*_list_left_out(root), *(() if with_secrets else SECRETS))
    for folder, folders, files in os.walk(root, followlinks=True):
        place = Path(folder).relative_to(root)
        folders[:] = sorted(name for name in folders if not _matches(place / name, left_out))
        for name in sorted(files):
            if not _matches(place / name, left_out) and (Path(folder) / name).is_file():
                yield place / name


def _list_left_out(root: Path) -> list[str]:
    patterns = [*MADE_ANEW, *(IN_BUCKET if bucket.is_used() else ())]
    patterns += [pattern for model in list_models_with_files() for pattern in model.unfinished_files]
    ours = [Path(settings.BROKER_FOLDER), Path(settings.CELERY_BEAT_SCHEDULE_FILENAME)]
    if connection.vendor == "sqlite":
        ours.append(Path(connection.settings_dict["NAME"]))
    for path in ours:
        if path.is_relative_to(root):  # and what is named after it: SQLite's log, beat's shelf
            patterns += [str(path.relative_to(root)), f"{path.relative_to(root)}[-.]*"]
    return patterns


def _matches(path: Path, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern is the path, part by part."""
    return any(
        len(parts) == len(path.parts) and all(map(fnmatch, path.parts, parts))
        for parts in (Path(pattern).parts for pattern in patterns)
    )
