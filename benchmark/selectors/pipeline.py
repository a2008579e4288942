"""How far a study has come from its data to its board: what the first page shows as a strip.

It opens no results: it counts, names and says what is measured, and reads no label and no statistic of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from annotation.core.study_scope import build_study_filter
from annotation.models import Batch, Dataset, GoldRelease, Person, Prompt, Response
from annotation.selectors.access import blind_batches
from annotation.selectors.batches.monitoring import list_alarmed, list_batch_stats
from annotation.selectors.releases.releases import BatchChoice, list_batch_choices, list_releases
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.freshness import find_stale_kinds
from benchmark.selectors.leaderboards.runs import list_run_rows
from scoring.models import Scorer
from scoring.selectors.scorers import list_scorer_rows, list_scorer_statuses


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

    datasets: int
    prompts: int
    responses: int
    labelling: Labelling
    measured: int
    alarmed: int
    releases: int
    newest_release: GoldRelease | None
    unreleased: Batch | None
    scorers: int
    current: Scorer | None
    unpromoted: Scorer | None
    untrained: GoldRelease | None
    runs: int
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
    """Of the study that the work under way is about; some twenty queries, whatever there is."""
    choices = list_batch_choices(person)
    blind = set(blind_batches(person).values_list("pk", flat=True))
    readable = [choice.batch for choice in choices if choice.batch.pk not in blind]
    releases = [listed.release for listed in list_releases(person) if not listed.sealed]
    scorers = [row.scorer for row in list_scorer_rows(person) if not row.sealed and row.scorer.is_ready]
    statuses = list_scorer_statuses(scorers)
    current = [scorer for scorer in scorers if statuses[scorer.pk].is_current]
    promoted = {scorer.guideline.name for scorer in current}
    runs = [row.run for row in list_run_rows(person) if not row.sealed]
    newest_run = next((run for run in runs if run.finished_at is not None), None)
    newest_release = releases[0] if releases else None
    trained = {scorer.release_id for scorer in scorers}
    return Pipeline(
        datasets=Dataset.objects.count(),
        prompts=Prompt.objects.filter(**build_study_filter("dataset__study")).count(),
        responses=Response.objects.filter(**build_study_filter("prompt__dataset__study")).count(),
        labelling=_read_labelling(choices),
        measured=sum(bool(stats.agreement) for stats in list_batch_stats(readable).values()),
        alarmed=len(list_alarmed(readable)),
        releases=len(releases),
        newest_release=newest_release,
        unreleased=_find_unreleased(choices),
        scorers=len(scorers),
        current=current[0] if current else None,
        unpromoted=next((scorer for scorer in scorers if scorer.guideline.name not in promoted), None),
        untrained=newest_release if newest_release and newest_release.pk not in trained else None,
        runs=len(runs),
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
