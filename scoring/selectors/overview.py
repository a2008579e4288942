"""What a scorer's pages tell beside its figures: its standing, its jobs, and the people behind it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from annotation.models import ADJUDICATOR, ANNOTATOR, Job, Membership, Person
from scoring.models import MustFail, Promotion, Scorer

CURRENT, FORMER, NEVER = "current", "former", "never"


@dataclass(frozen=True)
class Standing:
    """``state`` is ``current``, ``former`` or ``never``; ``last`` the guideline's last promotion, if there is one."""

    state: str
    last: Promotion | None

    @property
    def is_current(self) -> bool:
        return self.state == CURRENT


def standings(scorers: list[Scorer]) -> dict[int, Standing]:
    """By the scorer's id; two queries for all of them."""
    names = {scorer.guideline.name for scorer in scorers}
    found = Promotion.objects.filter(guideline_name__in=names).order_by("guideline_name", "number")
    last: dict[str, Promotion] = {}
    ever: set[int] = set()
    for one in found.select_related("scorer", "created_by"):
        last[one.guideline_name] = one
        ever.add(one.scorer_id)
    return {scorer.pk: _standing(scorer, last.get(scorer.guideline.name), ever) for scorer in scorers}


def _standing(scorer: Scorer, last: Promotion | None, ever: set[int]) -> Standing:
    if last is not None and last.scorer_id == scorer.pk:
        return Standing(CURRENT, last)
    return Standing(FORMER if scorer.pk in ever else NEVER, last)


def jobs_of(scorer: Scorer, kind: str, most: int = 5) -> list[Job]:
    """The jobs of a kind that concern the scorer, the newest first."""
    return list(Job.objects.filter(kind=kind, payload__scorer=scorer.pk).order_by("-pk")[:most])


def people_behind(scorer: Scorer, role: str) -> QuerySet[Person]:
    """Who annotated, or adjudicated, what it learned from: those who are there to be asked again."""
    assert role in {ANNOTATOR, ADJUDICATOR}
    theirs = Membership.objects.filter(batch__in=scorer.release.batches.all(), role=role)
    return Person.objects.filter(pk__in=theirs.values("person"), is_active=True)


def must_fail_count(guideline_name: str) -> int:
    return MustFail.objects.filter(guideline_name=guideline_name, removed_at=None).count()
