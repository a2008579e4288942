"""Putting files in. One transaction a file: all of it is taken, or nothing.

Idempotent by id: what is stored already is counted and left as it is; a contradiction is an error with its line.
"""

from __future__ import annotations

from annotation.services.imports.annotations import import_annotations
from annotation.services.imports.batches import import_batch
from annotation.services.imports.bundle import BundleNames, import_bundle
from annotation.services.imports.datasets import import_prompts, import_responses
from annotation.services.imports.run import ImportNote, ImportRefused, ImportReport, Run, rehearse
from annotation.services.imports.targets import (
    COLLECTION_TERMS,
    ImportRequest,
    build_collection_policy,
    plan_label_files,
)

__all__ = [
    "COLLECTION_TERMS",
    "BundleNames",
    "ImportNote",
    "ImportRefused",
    "ImportReport",
    "ImportRequest",
    "Run",
    "build_collection_policy",
    "import_annotations",
    "import_batch",
    "import_bundle",
    "import_prompts",
    "import_responses",
    "plan_label_files",
    "rehearse",
]
