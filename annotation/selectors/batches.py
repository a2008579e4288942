from __future__ import annotations

from annotation.errors import N_, NotFound
from annotation.models import Batch


def batch_named(name: str) -> Batch:
    batches = Batch.objects.select_related("guideline").defer("guideline__content", "guideline__source")
    found = batches.filter(name=name).first()
    if found is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return found
