"""Whether a run still says what is known: what came after it that it does not count.

Everything is read for any number of runs at once, in a number of queries that does not grow with them. The runs are
those of ``list_runs``, which knows their scorers, releases and guidelines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import BigIntegerField, Count, Exists, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from annotation.core.study_scope import build_own_filter
from annotation.models import GoldRelease, Guideline, Response
from benchmark.models import BenchmarkRun, Retraining, RunItem
from benchmark.selectors.leaderboards.lineages import Lineages
from benchmark.selectors.leaderboards.runs import find_running_retraining
from scoring.models import Promotion, Scorer

# The kinds of reason, as stable words; the pages translate them.
REPLACED = "replaced"
NEWER_RELEASE = "newer_release"
NEWER_SCORER = "newer_scorer"
NEWER_GUIDELINE = "newer_guideline"
RESPONSES = "responses"


@dataclass(frozen=True)
class AddedResponses:
    """Responses of one model that came after the run; ``new``: the model is not in the run."""

    model: str
    n: int
    new: bool


@dataclass(frozen=True)
class Freshness:
    """What came after a run; None or nothing where nothing did.

    ``scorer`` is the one that the run would be repeated with. ``repetition`` is the repetition that is on its way, and
    ``retraining`` the one on the newer release. ``added`` is told of one run alone; of a list, ``has_added``.
    """

    replaced_by: BenchmarkRun | None = None
    release: GoldRelease | None = None
    newer_scorer: Scorer | None = None
    guideline: Guideline | None = None
    has_added: bool = False
    added: tuple[AddedResponses, ...] = ()
    scorer: Scorer | None = None
    repetition: BenchmarkRun | None = None
    retraining: Retraining | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Why the run is stale. One that was replaced is no longer asked for more: its successor is."""
        if self.replaced_by is not None:
            return (REPLACED,)
        reasons = {
            NEWER_RELEASE: self.release is not None,
            NEWER_SCORER: self.newer_scorer is not None,
            NEWER_GUIDELINE: self.guideline is not None,
            RESPONSES: self.has_added,
        }
        return tuple(kind for kind, holds in reasons.items() if holds)

    @property
    def is_stale(self) -> bool:
        return bool(self.kinds)

    @property
    def needs_training(self) -> bool:
        """The newer gold is in no scorer that the run could be repeated with."""
        return self.release is not None and (self.scorer is None or self.scorer.release_id != self.release.pk)


def compute_freshness(run: BenchmarkRun) -> Freshness:
    """Of one run, with whose responses came and what is under way."""
    state = _compute_all([run])[run.pk]
    added = _list_added(run) if state.has_added else ()
    retraining = find_running_retraining(state.release.pk) if state.release is not None else None
    return Freshness(**{**vars(state), "added": added, "retraining": retraining})


def find_stale_kinds(runs: Iterable[BenchmarkRun]) -> dict[int, tuple[str, ...]]:
    """The stale ones among the runs, by id, with the kinds of reason."""
    freshness_by_run = _compute_all(list(runs))
    return {pk: state.kinds for pk, state in freshness_by_run.items() if state.is_stale}


def _list_promotions(runs: Sequence[BenchmarkRun]) -> dict[int, Promotion]:
    """By run, the last promotion of a scorer of its guideline and lineage.

    A scorer that learned other gold may be the guideline's current one, and says nothing of this run.
    """
    names = {run.scorer.guideline.name for run in runs}
    promotions = Promotion.objects.filter(guideline_name__in=names).order_by("number")
    promotion_list = list(promotions.select_related("scorer__release", "scorer__guideline"))
    if not promotion_list:
        return {}
    learned = {run.scorer.release_id for run in runs}
    lineages = Lineages.read(learned | {promotion.scorer.release_id for promotion in promotion_list})
    return {
        run.pk: promotion
        for run in runs
        for promotion in promotion_list
        if promotion.study_id == run.study_id
        and promotion.guideline_name == run.scorer.guideline.name
        and lineages.are_related(promotion.scorer.release_id, run.scorer.release_id)
    }


def list_added_models(run: BenchmarkRun) -> list[int]:
    """The ids of the models that have responses there now and had none when the run was made."""
    evaluated_models = run.evaluated_models.values("pk")
    responses = _list_later_responses(run).exclude(model__in=evaluated_models).order_by()
    return sorted(responses.values_list("model", flat=True).distinct())


def _compute_all(runs: Sequence[BenchmarkRun]) -> dict[int, Freshness]:
    """An unfinished run is neither fresh nor stale: it has nothing to show yet."""
    finished = [run for run in runs if run.finished_at is not None]
    if not finished:
        return {run.pk: Freshness() for run in runs}
    names = {run.scorer.guideline.name for run in finished}
    successors, coming = _list_repetitions(finished)
    standing = [run for run in finished if run.pk not in successors]
    promotions = _list_promotions(finished)
    guidelines = _list_latest_guidelines(names)
    releases = _find_newer_releases(standing)
    added = _list_runs_with_added(standing)
    freshness_by_run = {run.pk: Freshness() for run in runs}
    for run in finished:
        promotion = promotions.get(run.pk)
        freshness_by_run[run.pk] = Freshness(
            replaced_by=successors.get(run.pk),
            release=releases.get(run.pk),
            newer_scorer=_find_newer_scorer(run, promotion),
            guideline=_find_newer_guideline(run, guidelines),
            has_added=run.pk in added,
            scorer=run.scorer if promotion is None else promotion.scorer,
            repetition=coming.get(run.pk),
        )
    return freshness_by_run


def _list_repetitions(
    runs: Sequence[BenchmarkRun],
) -> tuple[dict[int, BenchmarkRun], dict[int, BenchmarkRun]]:
    """By run: the latest finished run that replaces it, and the latest one that is still to be done.

    Of two that replaced the same run, the later stands for the earlier, too (``list_current_runs``).
    """
    successors: dict[int, BenchmarkRun] = {}
    coming: dict[int, BenchmarkRun] = {}
    twins = {run.pk: run.replaces_id for run in runs if run.replaces_id is not None}
    repetitions = BenchmarkRun.objects.filter(replaces__in={*(run.pk for run in runs), *twins.values()})
    for repetition in repetitions.defer("board", "cost").select_related("job").order_by("pk"):
        assert repetition.replaces_id is not None
        if repetition.finished_at is not None:
            successors[repetition.replaces_id] = repetition
            successors |= {
                pk: repetition
                for pk, old in twins.items()
                if old == repetition.replaces_id and pk < repetition.pk
            }
        elif repetition.job is not None and not repetition.job.is_over:
            coming[repetition.replaces_id] = repetition
    return successors, coming


def _find_newer_scorer(run: BenchmarkRun, promotion: Promotion | None) -> Scorer | None:
    """The scorer that was promoted last, where it was promoted after the run or made after the run's scorer."""
    if promotion is None or promotion.scorer_id == run.scorer_id:
        return None
    is_newer = promotion.scorer.pk > run.scorer_id or promotion.created_at > run.created_at
    return promotion.scorer if is_newer else None


def _list_latest_guidelines(names: Iterable[str]) -> dict[str, Guideline]:
    """By name, of the site and of the studies in question: a version that another study shares makes nothing stale."""
    guidelines = Guideline.objects.filter(
        build_own_filter("study"), name__in=set(names), published_at__isnull=False
    )
    versions = guidelines.defer("source", "content").order_by("published_at", "pk")
    return {version.name: version for version in versions}


def _find_newer_guideline(run: BenchmarkRun, latest: Mapping[str, Guideline]) -> Guideline | None:
    used = run.scorer.guideline
    newest = latest.get(used.name)
    if newest is None or newest.pk == used.pk or newest.published_at is None:
        return None
    return newest if used.published_at is None or newest.published_at > used.published_at else None


def _find_newer_releases(runs: Sequence[BenchmarkRun]) -> dict[int, GoldRelease]:
    """By run: the newest release that holds what its scorer's release was cut from, or that superseded it."""
    ages: dict[int, int] = {}  # by release, its place among all, the oldest first
    heirs: dict[int, list[int]] = defaultdict(list)
    ordered = GoldRelease.objects.order_by("created_at", "pk").values_list("pk", "supersedes")
    for age, (release, superseded) in enumerate(ordered):
        ages[release] = age
        if superseded is not None:
            heirs[superseded].append(release)
    batches: dict[int, set[int]] = defaultdict(set)
    holders: dict[int, set[int]] = defaultdict(set)
    names: dict[int, set[str]] = defaultdict(set)
    used = {run.scorer.release_id for run in runs}
    through = GoldRelease.batches.through.objects
    of_used = through.filter(goldrelease__in=used).values("batch")
    holding = through.filter(batch__in=of_used).values("goldrelease")
    rows = through.filter(goldrelease__in=holding).values_list(
        "goldrelease", "batch", "batch__guideline__name"
    )
    for release, batch, name in rows:
        batches[release].add(batch)
        holders[batch].add(release)
        names[release].add(name)
    newest: dict[tuple[int, str], int] = {}
    for release, name in {(run.scorer.release_id, run.scorer.guideline.name) for run in runs}:
        extending = ages.keys() if batches[release] else set[int]()
        for batch in batches[release]:
            extending = extending & holders[batch]
        later = {other for other in extending if ages[other] > ages[release] and name in names[other]}
        candidates = later | _list_heirs(release, heirs)
        if candidates:
            newest[release, name] = max(candidates, key=ages.__getitem__)
    releases = GoldRelease.objects.defer("manifest", "about").in_bulk(newest.values())
    newest_by_run = {run.pk: newest.get((run.scorer.release_id, run.scorer.guideline.name)) for run in runs}
    return {pk: releases[release] for pk, release in newest_by_run.items() if release is not None}


def _list_heirs(release: int, heirs: Mapping[int, Sequence[int]]) -> set[int]:
    """Those that superseded the release, one after another; ``heirs`` are those that superseded it at once."""
    reached, waiting = set[int](), [release]
    while waiting:
        new = set(heirs.get(waiting.pop(), ())) - reached
        reached |= new
        waiting += new
    return reached


def _list_runs_with_added(runs: Sequence[BenchmarkRun]) -> set[int]:
    """The runs for which responses came later."""
    dated_runs = BenchmarkRun.objects.filter(pk__in=[run.pk for run in runs]).annotate(
        last=_build_last_counted()
    )
    later = Response.objects.filter(
        pk__gt=OuterRef("last"),
        prompt__dataset=OuterRef("dataset"),
        collection=OuterRef("collection"),
        created_at__gt=OuterRef("created_at"),
    )
    return set(dated_runs.filter(Exists(later)).order_by().values_list("pk", flat=True))


def _build_last_counted() -> Coalesce:
    """The id of the newest response that a run counts, by its index.

    Responses come in the order of their ids, so those after it were not there when the run was counted, or gave it
    nothing to count; its time tells these apart. The whole run need not be read for that.
    """
    items = RunItem.objects.filter(run=OuterRef("pk")).order_by("-response_id")
    return Coalesce(Subquery(items.values("response_id")[:1]), Value(0), output_field=BigIntegerField())


def _list_later_responses(run: BenchmarkRun) -> QuerySet[Response]:
    last = (
        BenchmarkRun.objects.filter(pk=run.pk)
        .annotate(last=_build_last_counted())
        .values_list("last", flat=True)
    )
    return Response.objects.filter(
        pk__gt=last.get(),
        prompt__dataset=run.dataset_id,
        collection=run.collection_id,
        created_at__gt=run.created_at,
    )


def _list_added(run: BenchmarkRun) -> tuple[AddedResponses, ...]:
    known = set(run.evaluated_models.values_list("name", flat=True))
    rows = (
        _list_later_responses(run).order_by("model__name").values_list("model__name").annotate(n=Count("pk"))
    )
    return tuple(AddedResponses(name, n, name not in known) for name, n in rows)
