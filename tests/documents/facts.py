"""The stored facts of some batches, read from the tables alone: not through anything that a document is made by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    GoldLabel,
    GoldRelease,
    Import,
    ImportedLabel,
    Person,
    Qualification,
    Task,
)


@dataclass(frozen=True)
class StoredFacts:
    """``given`` and ``imported`` count annotations; ``words`` are those of importers, ``carried`` those of bundles."""

    given: int
    decided: int
    people_given: int
    people_decided: int
    channels: frozenset[str]
    imported: int
    imported_decisions: int
    sources: Mapping[str, int]
    states: Mapping[str, int]
    batches: int
    overlap: int
    tolerance: float
    gold_checks: int
    waived: int
    qualifying: bool
    check_share: float
    repeat_share: float
    second_share: float
    languages: bool
    reasons: bool
    verdicts: int
    words: frozenset[str]
    files_without_words: int
    given_there: frozenset[int]
    is_release: bool
    knows_imports: bool = True

    @property
    def is_complete(self) -> bool:
        return not self.states.get("open") and not self.states.get("withdrawn")

    @property
    def unsettled(self) -> int:
        return self.states.get("open", 0) + self.states.get("disputed", 0)

    @property
    def is_given_whole(self) -> bool:
        return self.knows_imports and self.given > 0 and not self.imported and not self.imported_decisions


def read_facts(
    batches: Sequence[Batch], release: GoldRelease | None = None, *, knows_imports: bool = True
) -> StoredFacts:
    ids = [batch.pk for batch in batches]
    work = Assignment.objects.filter(batch__in=ids, state="submitted", task__kind=Task.Kind.WORK)
    from_files = set(ImportedLabel.objects.filter(assignment__in=work).values_list("assignment", flat=True))
    corrected = set(
        Annotation.objects.filter(assignment__in=from_files, revision__gt=1).values_list(
            "assignment", flat=True
        )
    )
    from_files -= corrected
    rows = list(work.values_list("pk", "slot", "person"))
    own_rows = [row for row in rows if row[0] not in from_files]
    labels = (
        release.items if release else GoldLabel.objects.filter(task__batch__in=ids, task__kind=Task.Kind.WORK)
    )
    if release is None:
        labels = labels.exclude(task__state=Task.State.WITHDRAWN)
    uploads = Import.objects.filter(labels__assignment__in=from_files).distinct()
    carried = [
        entry for upload in uploads for entry in (getattr(upload, "carried_protocols", None) or {}).values()
    ]
    checks = Task.objects.filter(batch__in=ids, kind__in=[Task.Kind.CHECK, Task.Kind.QUALIFICATION])
    words = {getattr(upload, "protocol", None) for upload in uploads} | set(_carried_words(carried))
    channels = {
        *Annotation.objects.filter(assignment__in=[row[0] for row in own_rows], current=True).values_list(
            "channel", flat=True
        ),
        *Adjudication.objects.filter(assignment__in=[row[0] for row in own_rows]).values_list(
            "channel", flat=True
        ),
    }
    return StoredFacts(
        given=sum(slot != ADJUDICATION_SLOT for _pk, slot, _person in own_rows),
        decided=sum(slot == ADJUDICATION_SLOT for _pk, slot, _person in own_rows),
        people_given=len({person for _pk, slot, person in own_rows if slot != ADJUDICATION_SLOT}),
        people_decided=len({person for _pk, slot, person in own_rows if slot == ADJUDICATION_SLOT}),
        channels=frozenset(channels),
        imported=sum(row[0] in from_files and row[1] != ADJUDICATION_SLOT for row in rows),
        imported_decisions=sum(row[0] in from_files and row[1] == ADJUDICATION_SLOT for row in rows),
        sources=Counter(labels.values_list("source", flat=True)),
        states=Counter(
            Task.objects.filter(batch__in=ids, kind=Task.Kind.WORK).values_list("state", flat=True)
        ),
        batches=len(ids),
        overlap=min(batch.overlap for batch in batches),
        tolerance=max(batch.tolerance for batch in batches),
        gold_checks=checks.filter(assignments__state="submitted").distinct().count(),
        waived=Qualification.objects.filter(batch__in=ids, state="waived")
        .values("person")
        .distinct()
        .count(),
        qualifying=any(batch.qualifying for batch in batches),
        check_share=max(batch.check_share for batch in batches),
        repeat_share=max(batch.second_reading_share for batch in batches),
        second_share=max(getattr(batch, "second_adjudicator_share", 0) for batch in batches),
        languages=any(
            Person.objects.filter(assignments__in=work.exclude(slot=ADJUDICATION_SLOT)).values_list(
                "languages", flat=True
            )
        ),
        reasons=Adjudication.objects.filter(assignment__in=work).exclude(reason=None).exists(),
        verdicts=Adjudication.objects.filter(assignment__in=work).exclude(assignment__verdict=None).count(),
        words=frozenset(" ".join(text.split()) for text in words if text),
        files_without_words=sum(not getattr(upload, "protocol", None) for upload in uploads)
        + sum(1 for entry in carried for file in entry["files"] if not file["protocol"]),
        given_there=frozenset(_carried_numbers(carried)),
        is_release=release is not None,
        knows_imports=knows_imports,
    )


def _carried_words(carried: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        text
        for entry in carried
        for file in entry["files"]
        for text in (file["protocol"], *_carried_words([file["carried"]] if file["carried"] else []))
        if text
    ]


def _carried_numbers(carried: Sequence[Mapping[str, Any]]) -> list[int]:
    return [
        number
        for entry in carried
        for number in (
            entry["given"],
            *(
                inner
                for file in entry["files"]
                for inner in _carried_numbers([file["carried"]] if file["carried"] else [])
            ),
        )
        if number
    ]
