"""Cutting a release that a page or a command asks for: at once, or by a job where there are many labels.

The job cuts it in one transaction, so that a failed, cancelled or killed one leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from annotation.errors import N_, Conflict, NotFound
from annotation.models import Batch, GoldRelease, Job, Person
from annotation.selectors.freezing import settled_labels
from annotation.selectors.gold import RELEASE_JOB
from annotation.services import jobs
from annotation.services.gold import check_release, cut_release
from annotation.services.telling import Teller

# So many labels are frozen while the page waits: a few seconds.
AT_ONCE = 20_000
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


@dataclass(frozen=True)
class Wish:
    """What ``cut_release`` is asked for, in the form of its arguments; ``kept`` is what a job's row keeps of it."""

    name: str
    batches: Sequence[Batch]
    about: str = ""
    supersedes: GoldRelease | None = None

    def kept(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "batches": [batch.pk for batch in self.batches],
            "about": self.about,
            "supersedes": self.supersedes and self.supersedes.pk,
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Wish:
        return cls(
            name=kept["name"],
            batches=list(Batch.objects.filter(pk__in=kept["batches"]).select_related("guideline")),
            about=kept["about"],
            supersedes=GoldRelease.objects.filter(pk=kept["supersedes"]).first(),
        )


def make(wish: Wish, *, actor: Person) -> GoldRelease | Job:
    """The release, or the job that cuts it. What is wrong with the wish is said at once (AssayError)."""
    if settled_labels(wish.batches)[: AT_ONCE + 1].count() <= AT_ONCE:
        return cut_release(**vars(wish), actor=actor)
    return enqueue(wish, actor=actor)


def enqueue(wish: Wish, *, actor: Person | None = None, send: bool = True) -> Job:
    """The job that cuts the release. With ``send`` False the caller runs it in its own process."""
    check_release(**vars(wish), actor=actor)
    if Job.objects.filter(kind=RELEASE_JOB, state__in=UNDER_WAY, payload__name=wish.name).exists():
        raise Conflict(N_("A release named {name} is being cut now."), name=wish.name)
    return jobs.enqueue(kind=RELEASE_JOB, payload=wish.kept(), title=wish.name, actor=actor, send=send)


def run_releasing(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it finds the release cut, or nothing of it."""
    if "release" in context.job.result:
        return dict(context.job.result)
    wish = Wish.of(context.payload)
    if not wish.batches:
        raise NotFound(N_("Its batches are not there any more."))
    context.report(0, N_("freezing the labels"))
    with Teller(context) as teller, transaction.atomic():
        release = cut_release(**vars(wish), actor=context.job.created_by, report=teller.tell)
        result = {"release": release.name, "labels": release.labels, "sha256": release.sha256}
        context.keep(result)
    return result
