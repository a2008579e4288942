from __future__ import annotations

from annotation.errors import N_, NotFound
from annotation.models import Batch
from annotation.statements import first, loaded


def batch_at_work(name: str) -> Batch:
    """The batch with what handing out and submitting ask of it; the rest is read when it is asked for."""
    columns = ("id", "name", "state", "pairing", "overlap", "tolerance", "lease_seconds", "guideline_id")
    found = first(f"SELECT {', '.join(columns)} FROM annotation_batch WHERE name = %s", [name])
    if found is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return loaded(Batch, **dict(zip(columns, found, strict=True)))


def batch_named(name: str) -> Batch:
    batches = Batch.objects.select_related("guideline").defer("guideline__content", "guideline__source")
    found = batches.filter(name=name).first()
    if found is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return found
