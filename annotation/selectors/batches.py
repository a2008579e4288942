from __future__ import annotations

from django.db.models import QuerySet

from annotation.errors import N_, NotFound
from annotation.models import Batch, sql


def batch_at_work(name: str) -> Batch:
    """The batch with what handing out and submitting ask of it; the rest is read when it is asked for."""
    batch = sql.find_batch(name)
    if batch is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return batch


def batches_named(name: str) -> QuerySet[Batch]:
    """The one of this name, if there is one, with its guideline but for the document."""
    batches = Batch.objects.select_related("guideline").defer("guideline__content", "guideline__source")
    return batches.filter(name=name)


def batch_named(name: str) -> Batch:
    found = batches_named(name).first()
    if found is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return found
