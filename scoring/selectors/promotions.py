"""Which scorer is a guideline's current one, and which were before it."""

from __future__ import annotations

from annotation.errors import N_, Conflict
from annotation.models import Guideline, Job
from annotation.selectors.guidelines import guideline_named
from scoring.models import Promotion, Scorer

JUDGE = "promote_scorer"
"""The kind of the job that judges a scorer."""


def promotions_of(guideline_name: str) -> list[Promotion]:
    """The newest first. Guidelines of one name share them."""
    found = Promotion.objects.filter(guideline_name=guideline_name)
    return list(found.select_related("scorer__release", "replaced", "created_by").order_by("-number"))


def last_promotion(guideline_name: str) -> Promotion | None:
    found = Promotion.objects.filter(guideline_name=guideline_name).order_by("-number")
    return found.select_related("scorer__release", "scorer__guideline").first()


def current_scorer(guideline_name: str) -> Scorer | None:
    """The scorer that was promoted or gone back to last; None until one was."""
    last = last_promotion(guideline_name)
    return None if last is None else last.scorer


def current_scorer_named(guideline_name: str) -> Scorer:
    """The current scorer, or what to do where there is none."""
    name = latest_version(guideline_name).name
    found = current_scorer(name)
    if found is None:
        raise Conflict(N_("The guideline {name} has no current scorer yet: promote one."), name=name)
    return found


def latest_version(guideline_name: str) -> Guideline:
    """The version published last; a name with a version is no name of all of them."""
    return guideline_named(guideline_name.partition("@")[0])


def scorer_before(guideline_name: str) -> Scorer | None:
    """The one to go back to.

    Who passed the gate stands on those before it; going back takes the top one off. So that a scorer which was gone
    back from is current again only if it passes once more.
    """
    stack: list[Scorer] = []
    for one in reversed(promotions_of(guideline_name)):
        if one.kind == Promotion.Kind.PASSED:
            stack.append(one.scorer)
        else:
            stack.pop()
    return stack[-2] if len(stack) > 1 else None


def judgements_of(scorer: Scorer) -> list[Job]:
    """The jobs in which the gate judged the scorer, the newest first; the results of those done have verdicts."""
    return list(Job.objects.filter(kind=JUDGE, payload__scorer=scorer.pk).order_by("-pk"))


def judging(scorer: Scorer) -> Job | None:
    """The job that judges the scorer now, or is to."""
    found = Job.objects.filter(kind=JUDGE, payload__scorer=scorer.pk)
    return found.filter(state__in=[Job.State.QUEUED, Job.State.RUNNING]).first()
