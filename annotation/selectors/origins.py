"""Which labels were imported, and from where: from which file, with its hash, and from which line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    GoldRelease,
    Import,
    ImportedLabel,
    Task,
)

ORIGIN = "assignment__imported__source"
"""What a query of annotations or adjudications selects for ``origin_of``."""


def find_origin(label: Annotation | Adjudication) -> ImportedLabel | None:
    """Where it was imported from; None for what was submitted here, as every correction was."""
    if isinstance(label, Annotation) and label.revision > 1:
        return None
    return getattr(label.assignment, "imported", None)


def list_imported(assignments: Iterable[UUID]) -> frozenset[UUID]:
    """Those whose label was imported, and not corrected here."""
    labels = _list_uncorrected().filter(pk__in=list(assignments))
    return frozenset(labels.values_list("pk", flat=True))


def list_imported_labels(source: Import) -> QuerySet[ImportedLabel]:
    """The labels that a file brought, in the order of its lines, each with its task."""
    labels = ImportedLabel.objects.filter(source=source).select_related(
        "source",
        "assignment__person",
        "assignment__task__response__prompt",
        "assignment__task__response__model",
    )
    return labels.order_by("line", "assignment__slot")


def has_imported(task: str) -> Exists:
    """Whether the task that a query calls so has an imported label which nobody corrected here."""
    return Exists(_list_uncorrected().filter(assignment__task=OuterRef(task)))


def count_imported_work(batches: Sequence[Batch], *, until: datetime | None = None) -> dict[str, Any]:
    """How many of the annotations and decisions of the batches were imported, in all and from each file; with
    ``until`` as it was then.
    """
    submitted = _list_uncorrected(until).filter(
        assignment__batch__in=[batch.pk for batch in batches],
        assignment__state=Assignment.State.SUBMITTED,
        assignment__task__kind=Task.Kind.WORK,
    )
    decided = Q(assignment__slot=ADJUDICATION_SLOT)
    rows = submitted.values(
        file=F("source__file_name"),
        format=F("source__format"),
        sha256=F("source__sha256"),
        batch=F("assignment__batch__name"),
    ).annotate(annotations=Count("pk", filter=~decided), adjudications=Count("pk", filter=decided))
    files = sorted(rows.order_by(), key=lambda row: (row["batch"], row["file"], row["sha256"]))
    totals = {name: sum(file[name] for file in files) for name in ("annotations", "adjudications")}
    return {**totals, "files": files}


def add_origins(release: GoldRelease) -> dict[str, Any]:
    """The manifest; one of before, which says nothing of imported labels, with what is stored of them."""
    manifest: dict[str, Any] = release.manifest
    if "imported" in manifest:
        return manifest
    return {
        **manifest,
        "imported": count_imported_work(list(release.batches.all()), until=release.created_at),
    }


def _list_uncorrected(until: datetime | None = None) -> QuerySet[ImportedLabel]:
    labels = ImportedLabel.objects.order_by()
    if until is None:
        return labels.exclude(assignment__annotations__revision__gt=1)
    corrections = Annotation.objects.filter(assignment=OuterRef("assignment"), revision__gt=1)
    return labels.filter(~Exists(corrections.filter(created_at__lte=until)), source__created_at__lte=until)
