"""Which scorers there are, and who may open them.

What was found of models beside the training data of a scorer.

What a scorer's pages tell beside its figures: its standing, its jobs, and the people behind it.

Which scorer is a guideline's current one, and which were before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from annotation.core.errors import N_, Conflict, NotFound
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    GoldRelease,
    Guideline,
    Job,
    Membership,
    Person,
)
from annotation.selectors.access import (
    refuse_sealed_gold,
    sealed_batches,
    sealed_datasets,
    unsealed_models,
)
from annotation.selectors.guidelines import guideline_named
from annotation.selectors.releases.releases import releases_for
from scoring.models import MustFail, Promotion, Scorer


def scorer_named(name: str) -> Scorer:
    found = scorers_with_all().filter(name=name).first()
    if found is None:
        known = ", ".join(Scorer.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No scorer is named {name}; known are: {known}."), name=name, known=known)
    return found


def ready_scorer(name: str) -> Scorer:
    """The scorer, if it has been trained to its end."""
    scorer = scorer_named(name)
    if scorer.ready_at is None:
        raise Conflict(N_("The scorer {name} is not ready: it has not been trained to its end."), name=name)
    return scorer


def scorers_with_all() -> QuerySet[Scorer]:
    return Scorer.objects.select_related("release", "guideline", "job", "created_by")


def scorer_for(person: Person, name: str) -> Scorer:
    """The scorer, if the person may open the results of its release."""
    scorer = scorer_named(name)
    refuse_sealed_gold(person, scorer.release.batches.all())
    return scorer


@dataclass(frozen=True)
class Listed:
    """A scorer as its list shows it; of a ``sealed`` one nothing but its name is shown."""

    scorer: Scorer
    sealed: bool


def scorers_for(person: Person) -> list[Listed]:
    batches = set(sealed_batches(person).values_list("pk", flat=True))
    datasets = set(sealed_datasets(person).values_list("name", flat=True))
    return [
        Listed(
            scorer,
            sealed=any(batch.pk in batches for batch in scorer.release.batches.all())
            or not datasets.isdisjoint(scorer.release.manifest.get("datasets", ())),
        )
        for scorer in scorers_with_all().defer("evaluation").prefetch_related("release__batches")
    ]


def releases_open_to(person: Person) -> list[GoldRelease]:
    """The releases that the person may train on, the newest first."""
    return [listed.release for listed in releases_for(person) if not listed.sealed]


DRIFT = "check_drift"
"""The kind of the job that compares a model's responses with a scorer's training data."""


def drift_checks_for(person: Person, scorer: Scorer) -> list[Job]:
    """The newest first, of models that the person does not judge blind now.

    The results of those done have ``model``, ``dataset``, ``labelled`` and ``drift``.
    """
    open_ = set(unsealed_models(person).values_list("pk", flat=True))
    found = Job.objects.filter(kind=DRIFT, payload__scorer=scorer.pk).order_by("-pk")
    return [job for job in found if job.payload["model"] in open_]


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
