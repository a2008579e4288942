"""The requests to correct what was submitted, as the batch's manager reads them."""

from __future__ import annotations

from django.db.models import F, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.models import Batch, CorrectionRequest


def list_open_corrections(batch: Batch) -> QuerySet[CorrectionRequest]:
    return CorrectionRequest.objects.filter(assignment__batch=batch, handled_at=None)


def list_corrections(batch: Batch) -> QuerySet[CorrectionRequest]:
    """The requests of a batch with all that their page shows, the unhandled first."""
    return (
        CorrectionRequest.objects.filter(assignment__batch=batch)
        .select_related(
            "assignment__person",
            "assignment__task__response__prompt",
            "assignment__adjudication",
            "handled_by",
        )
        .prefetch_related("assignment__annotations", "assignment__task__gold_labels")
        .order_by(F("handled_at").asc(nulls_first=True), "-created_at")
    )


def get_correction(batch: Batch, request_id: int) -> CorrectionRequest:
    request = CorrectionRequest.objects.filter(assignment__batch=batch, pk=request_id).first()
    if request is None:
        raise NotFound(N_("There is no such request in the batch {name}."), name=batch.name)
    return request
