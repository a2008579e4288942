"""Which scorers there are, and who may open them.

What was found of models beside the training data of a scorer.

What a scorer's pages tell beside its figures: its standing, its jobs, and the people behind it.

Which scorer is a guideline's current one, and which were before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from annotation.core.errors import N_, Conflict, NotFound
from annotation.core.study_scope import choose_study_id
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
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.releases.releases import list_releases
from annotation.selectors.studies import find_study_id
from scoring.models import Promotion, RegressionCase, Scorer


def get_scorer(name: str) -> Scorer:
    scorer = select_scorers().filter(name=name).first()
    if scorer is None:
        known = ", ".join(Scorer.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No scorer is named {name}; known are: {known}."), name=name, known=known)
    return scorer


def get_ready_scorer(name: str) -> Scorer:
    """The scorer, if it has been trained to its end."""
    scorer = get_scorer(name)
    if scorer.ready_at is None:
        raise Conflict(N_("The scorer {name} is not ready: it has not been trained to its end."), name=name)
    return scorer


def select_scorers() -> QuerySet[Scorer]:
    return Scorer.objects.select_related("release", "guideline", "job", "created_by")


def get_scorer_for(person: Person, name: str) -> Scorer:
    """The scorer, if the person may open the results of its release."""
    scorer = get_scorer(name)
    refuse_sealed_gold(person, scorer.release.batches.all())
    return scorer


@dataclass(frozen=True)
class ScorerRow:
    """A scorer as its list shows it; of a ``sealed`` one nothing but its name is shown."""

    scorer: Scorer
    sealed: bool


def list_scorer_rows(person: Person, scorers: QuerySet[Scorer] | None = None) -> list[ScorerRow]:
    """These scorers, or all of them, the newest first."""
    listed = select_scorers() if scorers is None else scorers
    batches = set(sealed_batches(person).values_list("pk", flat=True))
    datasets = set(sealed_datasets(person).values_list("name", flat=True))
    return [
        ScorerRow(
            scorer,
            sealed=any(batch.pk in batches for batch in scorer.release.batches.all())
            or (bool(datasets) and not datasets.isdisjoint(scorer.release.manifest.get("datasets", ()))),
        )
        for scorer in listed.defer("evaluation").prefetch_related("release__batches")
    ]


def list_sealed_scorers(person: Person) -> frozenset[str]:
    """The names of the scorers whose gold this person may not open now."""
    return frozenset(row.scorer.name for row in list_scorer_rows(person) if row.sealed)


def list_open_releases(person: Person) -> list[GoldRelease]:
    """The releases that the person may train on, the newest first."""
    return [listed.release for listed in list_releases(person) if not listed.sealed]


DRIFT = "check_drift"
"""The kind of the job that compares a model's responses with a scorer's training data."""


def list_drift_checks(person: Person, scorer: Scorer) -> list[Job]:
    """The newest first, of models that the person does not judge blind now.

    The results of those done have ``model``, ``dataset``, ``labelled`` and ``drift``.
    """
    open_ = set(unsealed_models(person).values_list("pk", flat=True))
    drift_jobs = Job.objects.filter(kind=DRIFT, payload__scorer=scorer.pk).order_by("-pk")
    return [job for job in drift_jobs if job.payload["model"] in open_]


CURRENT, FORMER, NEVER = "current", "former", "never"


@dataclass(frozen=True)
class ScorerStatus:
    """``state`` is ``current``, ``former`` or ``never``; ``last`` the guideline's last promotion, if there is one."""

    state: str
    last: Promotion | None

    @property
    def is_current(self) -> bool:
        return self.state == CURRENT


def list_scorer_statuses(scorers: list[Scorer]) -> dict[int, ScorerStatus]:
    """By the scorer's id; two queries for all of them."""
    names = {scorer.guideline.name for scorer in scorers}
    promotions = Promotion.objects.filter(guideline_name__in=names).order_by("guideline_name", "number")
    last: dict[tuple[int, str], Promotion] = {}
    ever: set[int] = set()
    for promotion in promotions.select_related("scorer", "created_by"):
        last[promotion.study_id, promotion.guideline_name] = promotion
        ever.add(promotion.scorer_id)
    return {
        scorer.pk: _build_status(
            scorer, last.get((choose_study_id(scorer.study_id), scorer.guideline.name)), ever
        )
        for scorer in scorers
    }


def _build_status(scorer: Scorer, last: Promotion | None, ever: set[int]) -> ScorerStatus:
    if last is not None and last.scorer_id == scorer.pk:
        return ScorerStatus(CURRENT, last)
    return ScorerStatus(FORMER if scorer.pk in ever else NEVER, last)


def list_scorer_jobs(scorer: Scorer, kind: str, limit: int = 5) -> list[Job]:
    """The jobs of a kind that concern the scorer, the newest first."""
    return list(Job.objects.filter(kind=kind, payload__scorer=scorer.pk).order_by("-pk")[:limit])


def list_release_people(scorer: Scorer, role: str) -> QuerySet[Person]:
    """Who annotated, or adjudicated, what it learned from: those who are there to be asked again."""
    assert role in {ANNOTATOR, ADJUDICATOR}
    memberships = Membership.objects.filter(batch__in=scorer.release.batches.all(), role=role)
    return Person.objects.filter(pk__in=memberships.values("person"), is_active=True)


def count_must_fail_items(guideline_name: str) -> int:
    cases = RegressionCase.objects.filter(study=find_study_id(), guideline_name=guideline_name)
    return cases.filter(removed_at=None).count()


JUDGE = "promote_scorer"
"""The kind of the job that judges a scorer."""


def list_promotions(guideline_name: str) -> list[Promotion]:
    """Those of the study, the newest first. Guidelines of one name share them."""
    return list(
        _select_promotions(guideline_name)
        .select_related("scorer__release", "replaced", "created_by")
        .order_by("-number")
    )


def find_last_promotion(guideline_name: str) -> Promotion | None:
    promotions = _select_promotions(guideline_name).order_by("-number")
    return promotions.select_related("scorer__release", "scorer__guideline").first()


def _select_promotions(guideline_name: str) -> QuerySet[Promotion]:
    return Promotion.objects.filter(study=find_study_id(), guideline_name=guideline_name)


def find_current_scorer(guideline_name: str) -> Scorer | None:
    """The scorer that was promoted or gone back to last; None until one was."""
    last = find_last_promotion(guideline_name)
    return None if last is None else last.scorer


def get_current_scorer(guideline_name: str) -> Scorer:
    """The current scorer, or what to do where there is none."""
    name = get_latest_guideline(guideline_name).name
    scorer = find_current_scorer(name)
    if scorer is None:
        raise Conflict(N_("The guideline {name} has no current scorer yet: promote one."), name=name)
    return scorer


def get_latest_guideline(guideline_name: str) -> Guideline:
    """The version published last; a name with a version is no name of all of them."""
    return get_guideline(guideline_name.partition("@")[0])


def find_previous_scorer(guideline_name: str) -> Scorer | None:
    """The one to go back to.

    Who was promoted stands on those before it; going back takes the top one off. So that a scorer which was gone
    back from is current again only if the gate judges it once more.
    """
    stack: list[Scorer] = []
    for promotion in reversed(list_promotions(guideline_name)):
        if promotion.kind == Promotion.Kind.BACK:
            stack.pop()
        else:
            stack.append(promotion.scorer)
    return stack[-2] if len(stack) > 1 else None


def list_judge_jobs(scorer: Scorer) -> list[Job]:
    """The jobs in which the gate judged the scorer, the newest first; the results of those done have verdicts."""
    return list(Job.objects.filter(kind=JUDGE, payload__scorer=scorer.pk).order_by("-pk"))


def find_running_judge_job(scorer: Scorer) -> Job | None:
    """The job that judges the scorer now, or is to."""
    judge_jobs = Job.objects.filter(kind=JUDGE, payload__scorer=scorer.pk)
    return judge_jobs.filter(state__in=[Job.State.QUEUED, Job.State.RUNNING]).first()


@dataclass(frozen=True)
class CutExamples:
    """``n`` of the ``of`` examples that a tuned encoder learned from are longer than its ``max_tokens``."""

    n: int
    of: int
    max_tokens: int


MAX_CUT_SHARE = 0.05
"""From this share on it is worth a warning."""


def find_cut_examples(card: Mapping[str, Any]) -> CutExamples | None:
    """Of the scorer or a member of it, where more than a twentieth of what it learned from was cut."""
    details = card.get("details", {})
    for part in (details, *details.get("members", {}).values()):
        cut = part.get("cut")
        if cut and cut["n"] > MAX_CUT_SHARE * cut["of"]:
            return CutExamples(**cut)
    return None
