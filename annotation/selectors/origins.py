"""Which labels were imported, and from where: from which file, with its hash, and from which line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet

from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    Channel,
    GoldRelease,
    Import,
    ImportedLabel,
    Qualification,
    Task,
)

GOLD_QUESTION_KINDS = (Task.Kind.CHECK, Task.Kind.QUALIFICATION)
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
    """How many of the annotations and decisions of the batches were imported, in all and from each file, with what is
    recorded of how they were made; with ``until`` as it was then.
    """
    submitted = _list_uncorrected(until).filter(
        assignment__batch__in=[batch.pk for batch in batches],
        assignment__state=Assignment.State.SUBMITTED,
        assignment__task__kind=Task.Kind.WORK,
    )
    decided = Q(assignment__slot=ADJUDICATION_SLOT)
    rows = submitted.values("source", batch=F("assignment__batch__name")).annotate(
        annotations=Count("pk", filter=~decided), adjudications=Count("pk", filter=decided)
    )
    files = _list_files(list(rows.order_by()))
    totals = {name: sum(file[name] for file in files) for name in ("annotations", "adjudications")}
    return {**totals, "files": files}


def _list_files(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for a file that went into a batch several times, unless its importers wrote different words."""
    sources = Import.objects.in_bulk({row["source"] for row in rows})
    files: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        source = sources[row["source"]]
        carried = (source.carried_protocols or {}).get(row["batch"])
        key = (row["batch"], source.file_name, source.sha256, source.format, source.protocol or "")
        entry = files.setdefault(
            key,
            {
                "file": source.file_name,
                "format": source.format,
                "sha256": source.sha256,
                "batch": row["batch"],
                "protocol": source.protocol,
                "carried": carried,
                "annotations": 0,
                "adjudications": 0,
            },
        )
        for kind in ("annotations", "adjudications"):
            entry[kind] += row[kind]
    return [files[key] for key in sorted(files)]


def describe_given_here(batch: Batch) -> dict[str, Any]:
    """What was submitted on the page or with a token, and not imported: how much, by how many people, from when to when
    (dates in UTC). A correction of an imported label counts, with its own day left aside.
    """
    submitted_here = list_given_here([batch])
    decided = Q(slot=ADJUDICATION_SLOT)
    counts = submitted_here.aggregate(
        annotations=Count("pk", filter=~decided),
        annotators=Count("person", filter=~decided, distinct=True),
        adjudications=Count("pk", filter=decided),
        adjudicators=Count("person", filter=decided, distinct=True),
        first=Min("submitted_at", filter=Q(imported=None)),
        last=Max("submitted_at", filter=Q(imported=None)),
    )
    first, last = counts.pop("first"), counts.pop("last")
    channels = _count_channels(
        Annotation.objects.filter(current=True, assignment__in=submitted_here.filter(~decided))
    )
    channels += _count_channels(Adjudication.objects.filter(assignment__in=submitted_here.filter(decided)))
    checks = Task.objects.filter(batch=batch, kind__in=GOLD_QUESTION_KINDS).order_by()
    waived = Qualification.objects.filter(batch=batch, state=Qualification.State.WAIVED)
    return {
        **counts,
        "channels": {
            "page": channels[Channel.PAGE],
            "token": channels[Channel.TOKEN],
            "unknown": channels[""],
        },
        "first_submitted": first and first.date().isoformat(),
        "last_submitted": last and last.date().isoformat(),
        "gold_checks": checks.filter(assignments__state=Assignment.State.SUBMITTED).distinct().count(),
        "waived": waived.values("person").distinct().count(),
    }


def _count_channels(labels: QuerySet[Any]) -> Counter[str]:
    return Counter(dict(labels.order_by().values_list("channel").annotate(n=Count("pk"))))


def count_people_here(batches: Sequence[Batch]) -> dict[str, int]:
    """How many people annotated and adjudicated here, each counted once."""
    submitted_here = list_given_here(batches)
    return {
        "annotators": submitted_here.filter(slot__lt=ADJUDICATION_SLOT).values("person").distinct().count(),
        "adjudicators": submitted_here.filter(slot=ADJUDICATION_SLOT).values("person").distinct().count(),
    }


def list_given_here(batches: Sequence[Batch]) -> QuerySet[Assignment]:
    """What people submitted on the work of the batches here, imported labels left out unless they were corrected."""
    return Assignment.objects.filter(
        ~Exists(_list_uncorrected().filter(assignment=OuterRef("pk"))),
        batch__in=[batch.pk for batch in batches],
        state=Assignment.State.SUBMITTED,
        task__kind=Task.Kind.WORK,
    ).order_by()


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
