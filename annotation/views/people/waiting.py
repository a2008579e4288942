"""What waits for a person, as the first page lists it: of one study, or of all that they see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import get_language

from annotation.core.http import build_study_url
from annotation.domain.permissions import CUT_RELEASE
from annotation.models import Job, Person
from annotation.selectors.access import list_studies_to
from annotation.selectors.overview import PendingWork, list_own_jobs, list_pending_work
from annotation.views.releases.verdicts import list_unreliable

MAX_ROWS = 30


@dataclass(frozen=True)
class StudyLabel:
    """How a page over several studies names one, and the address of its first page."""

    name: str
    title: str
    url: str

    @property
    def prefix(self) -> str:
        """What comes before an address within the study."""
        return self.url.removesuffix("/")


def build_label(name: str, title: str) -> StudyLabel:
    return StudyLabel(name, title, build_study_url(name))


@dataclass(frozen=True)
class WaitingRow:
    """``study`` is None on a page that is within one."""

    line: PendingWork
    study: StudyLabel | None


def list_waiting(person: Person) -> list[PendingWork]:
    """Work and batches that need the person, then the current releases whose own agreement does not bear them: who is
    told of those opens the results of their batches.
    """
    unreliable = list_unreliable(person, get_language() or "en", list_studies_to(person, CUT_RELEASE))
    releases = [PendingWork(row.release.study_id, "unreliable", row.release.name) for row in unreliable]
    return [*list_pending_work(person), *releases]


def describe_waiting(
    lines: Sequence[PendingWork], person: Person, labels: Mapping[int, StudyLabel] | None = None
) -> dict[str, Any]:
    """For ``annotation/people/_waiting.html`` and ``_jobs.html``; with ``labels`` of the studies each row names its
    own, and no more than ``MAX_ROWS`` are listed.
    """
    listed = lines if labels is None else lines[:MAX_ROWS]
    own_jobs: list[Job] = list_own_jobs(person)
    return {
        "waiting": [WaitingRow(line, labels[line.study] if labels else None) for line in listed],
        "n_more": len(lines) - len(listed),
        "jobs": [(job, labels.get(job.study_id or 0) if labels else None) for job in own_jobs],
        "names_studies": labels is not None,
    }
