"""How far labels can be relied on, by the agreement of those who gave them: of batches, and of releases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from annotation.domain.releases.datasheet import GuidelineTexts, Manifest, list_headline_agreement
from annotation.models import GoldRelease, Person
from annotation.selectors.access import record_openings
from annotation.selectors.batches.monitoring import list_agreement_rows, list_batch_stats
from annotation.selectors.releases.releases import ReleaseRow, list_batch_choices, list_releases
from annotation.services.exports.datasheet import format_statistic
from annotation.views.agreement.wording import find_reading

UNRELIABLE = "error"


@dataclass(frozen=True)
class ReleaseVerdict:
    """How the labels of one guideline read by alpha, as measured when the release was cut; ``reading`` is a badge's
    state and word, None where alpha has no interval. ``n`` counts tasks.
    """

    guideline: str
    reading: tuple[str, str] | None
    alpha: str
    n: int


def list_verdicts(manifest: Manifest, texts: GuidelineTexts) -> list[ReleaseVerdict]:
    """Of each guideline; none of a release that was cut before manifests had agreement."""
    verdicts = []
    for figures in list_headline_agreement(manifest, texts):
        _percent, alpha, _ac1 = figures.statistics
        reading = find_reading(alpha["low"] if alpha else None)
        verdicts.append(ReleaseVerdict(figures.guideline, reading, format_statistic(alpha), figures.tasks))
    return verdicts


def list_unreliable(
    person: Person, language: str, studies: Collection[int] | None = None
) -> list[ReleaseRow]:
    """The current releases of these studies, or of all in question, whose own agreement says that their labels cannot
    be relied on, without those in the archive. Whoever reads that has opened the results of their batches.
    """
    superseded = GoldRelease.objects.exclude(supersedes=None).values("supersedes")
    releases = GoldRelease.objects.filter(archived_at=None).exclude(pk__in=superseded)
    if studies is not None:
        releases = releases.filter(study__in=studies)
    # Of all of them the agreement alone is read: there are hundreds where somebody is in many studies.
    unreliable = [
        pk
        for pk, agreement, guidelines in releases.values_list(
            "pk", "manifest__agreement", "manifest__guidelines"
        )
        if _is_unreliable({"agreement": agreement, "guidelines": guidelines}, language)
    ]
    if not unreliable:
        return []
    listed = list_releases(person, GoldRelease.objects.filter(pk__in=unreliable).defer("manifest", "about"))
    rows = [row for row in listed if not (row.sealed or row.release.is_borrowed)]
    record_openings(person, {batch.pk for row in rows for batch in row.release.batches.all()})
    return rows


def _is_unreliable(manifest: Manifest, language: str) -> bool:
    verdicts = list_verdicts(manifest, GuidelineTexts(manifest, language))
    return any(verdict.reading is not None and verdict.reading[0] == UNRELIABLE for verdict in verdicts)


def list_choice_rows(person: Person) -> list[dict[str, Any]]:
    """Each batch with how its labels read by alpha, as a worker measured it last; None where that is not known, or not
    for this person. They open the results of the batches whose agreement stands here."""
    choices = list_batch_choices(person)
    stats = list_batch_stats([choice.batch for choice in choices if choice.may_read_agreement])
    rows: list[dict[str, Any]] = []
    for choice in choices:
        measured = next(iter(list_agreement_rows(stats.get(choice.batch.pk))), None)
        reading = find_reading(measured.alpha.low) if measured else None
        rows.append({"choice": choice, "alpha": measured.alpha if measured else None, "reading": reading})
    record_openings(person, [row["choice"].batch.pk for row in rows if row["reading"]])
    return rows
