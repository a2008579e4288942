"""Gold releases: what would enter one, what is in one, and who may open it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.domain.guidelines.values import TURN_SIGN
from annotation.models import Batch, GoldRelease, Person, ReleasedLabel, Task
from annotation.selectors.access import (
    blind_batches,
    refuse_sealed_gold,
    sealed_batches,
    sealed_datasets,
)
from annotation.selectors.counts import count_by_stratum

RELEASE_JOB = "release"


def get_release(name: str) -> GoldRelease:
    release = GoldRelease.objects.filter(name=name).first()
    if release is None:
        known = ", ".join(GoldRelease.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No gold release is named {name}; known are: {known}."), name=name, known=known)
    return release


def get_release_for(person: Person, name: str) -> GoldRelease:
    """The release, if the person may open it."""
    release = get_release(name)
    refuse_sealed_gold(person, release.batches.all())
    return release


def find_successor(release: GoldRelease) -> GoldRelease | None:
    """The release that supersedes this one."""
    return release.superseded_by.first()


def list_release_chain(release: GoldRelease) -> list[GoldRelease]:
    """The releases that superseded each other, this one among them, the oldest first."""
    chain = [release]
    while (previous := _find_superseded(chain[0])) is not None:
        chain.insert(0, previous)
    while (successor := find_successor(chain[-1])) is not None:
        chain.append(successor)
    return chain


def _find_superseded(release: GoldRelease) -> GoldRelease | None:
    """None as well where it is of another study and not shared with this one."""
    return GoldRelease.objects.filter(superseded_by=release).first()


def order_current_first(releases: QuerySet[GoldRelease]) -> QuerySet[GoldRelease]:
    """Those that nothing supersedes before the others, each the newest first; ``is_superseded`` tells which."""
    successors = GoldRelease.objects.filter(supersedes=OuterRef("pk"))
    return releases.annotate(is_superseded=Exists(successors)).order_by("is_superseded", "-created_at", "-pk")


@dataclass(frozen=True)
class ReleaseRow:
    """A row of the list of releases. A ``sealed`` one shows its name alone; ``successor`` supersedes it."""

    release: GoldRelease
    batches: tuple[str, ...]
    sealed: bool
    successor: str


def list_releases(person: Person, rows: QuerySet[GoldRelease] | None = None) -> list[ReleaseRow]:
    """These rows, or every release, the newest first."""
    sealed = set(sealed_batches(person).values_list("pk", flat=True))
    datasets = set(sealed_datasets(person).values_list("name", flat=True))
    listed = GoldRelease.objects.all() if rows is None else rows
    names_only = Prefetch("batches", Batch.objects.only("name"))
    releases = listed.select_related("created_by").prefetch_related(names_only)
    datasets_by_release = dict(listed.values_list("pk", "manifest__datasets")) if datasets else {}
    successors = dict(GoldRelease.objects.exclude(supersedes=None).values_list("supersedes_id", "name"))
    return [
        ReleaseRow(
            release=release,
            batches=tuple(sorted(batch.name for batch in release.batches.all())),
            sealed=not sealed.isdisjoint(batch.pk for batch in release.batches.all())
            or not datasets.isdisjoint(datasets_by_release.get(release.pk) or ()),
            successor=successors.get(release.pk, ""),
        )
        for release in releases
    ]


@dataclass(frozen=True)
class BatchChoice:
    """A batch that a release could take; the counts of a sealed one are None.

    ``may_read_agreement`` is false also where the person judges responses of the same dataset blind.
    """

    batch: Batch
    sealed: bool
    settled: int | None
    open: int | None
    disputed: int | None
    may_read_agreement: bool


def list_batch_choices(person: Person) -> list[BatchChoice]:
    """Every batch with its work tasks by state: settled (agreed or adjudicated), open and disputed."""
    sealed = set(sealed_batches(person).values_list("pk", flat=True))
    batches = list(Batch.objects.select_related("guideline"))
    counts_by_batch = {batch.pk: Counter[str]() for batch in batches if batch.pk not in sealed}
    for stratum, counts in count_by_stratum(counts_by_batch).items():
        counts_by_batch[stratum.batch_id].update(counts)
    blind = set(blind_batches(person).values_list("pk", flat=True))
    return [_build_choice(batch, counts_by_batch.get(batch.pk), batch.pk not in blind) for batch in batches]


def _build_choice(batch: Batch, counts: Counter[str] | None, may_read_agreement: bool) -> BatchChoice:
    if counts is None:
        return BatchChoice(batch, True, None, None, None, may_read_agreement)
    settled = counts[Task.State.AGREED] + counts[Task.State.ADJUDICATED]
    open_tasks, disputed = counts[Task.State.OPEN], counts[Task.State.DISPUTED]
    return BatchChoice(batch, False, settled, open_tasks, disputed, may_read_agreement)


def list_released_labels(release: GoldRelease, filters: Mapping[str, str]) -> QuerySet[ReleasedLabel]:
    """The release's labels for reading, narrowed by any of criterion, source, model, dimension."""
    paths = {
        "source": "source",
        "model": "task__response__model__name",
        "dimension": "task__response__prompt__dimension",
    }
    narrowed = Q(**{path: filters[name] for name, path in paths.items() if filters.get(name)})
    if criterion := filters.get("criterion"):
        narrowed &= Q(criterion=criterion) | Q(criterion__startswith=f"{criterion}{TURN_SIGN}")
    return (
        release.items.filter(narrowed)
        .select_related("task__response__prompt__dataset", "task__response__model", "task__batch__guideline")
        .order_by("task_id", "criterion")
    )
