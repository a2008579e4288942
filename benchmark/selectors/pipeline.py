"""How far a study has come from its data to its board: what the first page shows as a strip.

It opens no results: it counts, names and says what is measured, and reads no label and no statistic of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from annotation.models import Batch, Dataset, GoldRelease, Person, Prompt, Response
from annotation.selectors.batches.monitoring import list_alarmed, list_batch_stats
from annotation.selectors.releases.releases import BatchChoice, list_batch_choices, list_releases
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.freshness import find_stale_kinds
from benchmark.selectors.leaderboards.runs import list_run_rows
from scoring.models import Promotion, Scorer
from scoring.selectors.scorers import list_scorer_rows, select_scorers

NEWEST = 5
"""Of releases, scorers and boards, among which the newest that is open to the person is looked for."""
OF_SCORER = ("card", "evaluation", "guideline__content", "guideline__source", "release__manifest")
LARGE = ("board", "cost", *(f"scorer__{column}" for column in OF_SCORER))
"""Columns of a board that nothing here reads, and that take most of the time."""


@dataclass(frozen=True)
class Labelling:
    """The batches of a study. ``settled``, ``open`` and ``disputed`` count the tasks of those whose counts the person
    may read; ``n_sealed`` is the number of the others.
    """

    batches: int
    n_sealed: int
    settled: int
    open: int
    disputed: int
    draft: Batch | None
    complete: Batch | None
    """An open batch in which nothing is left to be done."""


@dataclass(frozen=True)
class Pipeline:
    """The state of each stage. ``unreleased`` is a closed batch of which no release has a label; ``unpromoted`` the
    newest scorer of a guideline that has no current one.
    """

    prompts: int
    responses: int
    labelling: Labelling
    measured: int
    alarmed: int
    releases: int
    newest_release: GoldRelease | None
    unreleased: Batch | None
    has_scorers: bool
    current: Scorer | None
    unpromoted: Scorer | None
    untrained: GoldRelease | None
    newest_run: BenchmarkRun | None
    is_stale: bool

    @property
    def next_stage(self) -> str:
        """The first stage that waits for somebody."""
        labelling = self.labelling
        waiting = {
            "data": not self.responses,
            "labelling": not labelling.batches or labelling.draft is not None or bool(labelling.open),
            "disputes": bool(labelling.disputed),
            "closing": labelling.complete is not None,
            "gold": self.unreleased is not None,
            "scorer": self.untrained is not None or self.unpromoted is not None,
            "board": bool(self.current) and (self.newest_run is None or self.is_stale),
        }
        return next((stage for stage, waits in waiting.items() if waits), "")


def read_pipeline(person: Person) -> Pipeline:
    """Of the study that the work under way is about; some thirty queries, whatever there is."""
    choices = list_batch_choices(person)
    readable = [choice.batch for choice in choices if choice.may_read_agreement]
    newest_releases = GoldRelease.objects.defer("manifest").order_by("-created_at", "-pk")[:NEWEST]
    releases = [listed.release for listed in list_releases(person, newest_releases) if not listed.sealed]
    newest_scorers = select_scorers().exclude(ready_at=None).defer(*OF_SCORER).order_by("-created_at", "-pk")
    rows = list_scorer_rows(person, newest_scorers[:NEWEST])
    scorers = [row.scorer for row in rows if not row.sealed]
    promotions = Promotion.objects.order_by("guideline_name", "-number").select_related("scorer__guideline")
    current: dict[str, Scorer] = {}
    for promotion in promotions.defer(*LARGE[2:]):
        current.setdefault(promotion.guideline_name, promotion.scorer)
    runs = BenchmarkRun.objects.select_related("scorer__guideline", "scorer__release").defer(*LARGE)
    finished = runs.exclude(finished_at=None).order_by("-created_at", "-pk")
    newest_run = next((row.run for row in list_run_rows(person, finished[:NEWEST]) if not row.sealed), None)
    newest_release = releases[0] if releases else None
    is_trained = Scorer.objects.filter(release=newest_release).exists()
    return Pipeline(
        prompts=Prompt.objects.filter(dataset__in=Dataset.objects.all()).count(),
        responses=Response.objects.filter(prompt__dataset__in=Dataset.objects.all()).count(),
        labelling=_read_labelling(choices),
        measured=sum(bool(stats.agreement) for stats in list_batch_stats(readable).values()),
        alarmed=len(list_alarmed(readable)),
        releases=GoldRelease.objects.count(),
        newest_release=newest_release,
        unreleased=_find_unreleased(choices),
        has_scorers=bool(scorers),
        current=next(iter(current.values()), None),
        unpromoted=next((scorer for scorer in scorers if scorer.guideline.name not in current), None),
        untrained=None if is_trained else newest_release,
        newest_run=newest_run,
        is_stale=newest_run is not None and newest_run.pk in find_stale_kinds([newest_run]),
    )


def _read_labelling(choices: Sequence[BatchChoice]) -> Labelling:
    readable = [choice for choice in choices if not choice.sealed]
    complete = (
        choice.batch
        for choice in readable
        if choice.batch.state == Batch.State.OPEN
        and choice.settled
        and not choice.open
        and not choice.disputed
    )
    drafts = (choice.batch for choice in choices if choice.batch.state == Batch.State.DRAFT)
    started = [choice for choice in readable if choice.batch.state != Batch.State.DRAFT]
    return Labelling(
        batches=len(choices),
        n_sealed=len(choices) - len(readable),
        settled=sum(choice.settled or 0 for choice in started),
        open=sum(choice.open or 0 for choice in started if choice.batch.state != Batch.State.CLOSED),
        disputed=sum(choice.disputed or 0 for choice in started if choice.batch.state != Batch.State.CLOSED),
        draft=next(drafts, None),
        complete=next(complete, None),
    )


def _find_unreleased(choices: Sequence[BatchChoice]) -> Batch | None:
    closed = [
        choice.batch.pk
        for choice in choices
        if choice.batch.state == Batch.State.CLOSED and not choice.sealed and choice.settled
    ]
    return Batch.objects.filter(pk__in=closed, releases=None).order_by("-pk").first()
