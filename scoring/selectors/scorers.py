"""Which scorers there are, and who may open them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from annotation.errors import N_, Conflict, NotFound
from annotation.models import GoldRelease, Person
from annotation.selectors.blindness import sealed_batches, sealed_datasets
from annotation.selectors.gold import refuse_sealed_gold, releases_for
from scoring.models import Scorer


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
