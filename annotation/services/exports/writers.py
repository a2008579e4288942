"""Every export format by name. A new one is a module with a ``WRITER`` and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from annotation.errors import N_, AssayError
from annotation.services.exports import bundle, gold_text, hf, label_studio, labels, parquet
from annotation.services.exports.shape import Writer

WRITERS: Mapping[str, Writer] = {
    writer.name: writer
    for writer in (
        gold_text.JSONL,
        gold_text.CSV,
        parquet.PARQUET,
        hf.HF,
        labels.LABELS,
        label_studio.LABEL_STUDIO,
        bundle.BUNDLE,
    )
}


def writer_named(name: str) -> Writer:
    if name not in WRITERS:
        raise AssayError(
            N_("There is no format {name}; choose one of: {known}."), name=name, known=", ".join(WRITERS)
        )
    return WRITERS[name]
