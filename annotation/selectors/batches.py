from __future__ import annotations

from annotation.errors import N_, NotFound
from annotation.models import Batch


def batch_named(name: str) -> Batch:
    found = Batch.objects.select_related("guideline").filter(name=name).first()
    if found is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return found
