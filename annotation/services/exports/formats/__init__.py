"""Every export format by name. A new one is a module with a writer, and a line in ``WRITERS``."""

from __future__ import annotations

from collections.abc import Mapping

from annotation.core.errors import N_, AssayError
from annotation.services.exports.base import Writer
from annotation.services.exports.formats import (
    bundle,
    hugging_face,
    label_studio,
    parquet,
    preferences,
    raw_labels,
    spreadsheet,
    text,
)

WRITERS: Mapping[str, Writer] = {
    writer.name: writer
    for writer in (
        text.JSONL,
        text.CSV,
        spreadsheet.SPREADSHEET,
        parquet.PARQUET,
        hugging_face.HF,
        raw_labels.LABELS,
        label_studio.LABEL_STUDIO,
        preferences.PREFERENCES,
        preferences.BEST_ANSWERS,
        bundle.BUNDLE,
    )
}


def get_writer(name: str) -> Writer:
    if name not in WRITERS:
        raise AssayError(
            N_("There is no format {name}; choose one of: {known}."), name=name, known=", ".join(WRITERS)
        )
    return WRITERS[name]
