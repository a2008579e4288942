"""How the responses that have gold in a run came to be chosen, batch by batch: what its estimates rest on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import Count, QuerySet

from annotation.domain.releases.selection import UNRECORDED
from annotation.models import GoldRelease
from annotation.selectors.releases.selection import find_selection
from benchmark.domain.estimates.selection import GoldSelection, selections_to_json
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.leaderboards.items import count_responses, find_scope

BY_BATCH = "released_label__task__batch"
PLACE = ("response__model__name", "response__prompt__dimension")


def list_selections(run: BenchmarkRun) -> list[dict[str, Any]]:
    """A row for each batch, model and column of the board that has gold of it, as ``estimating.selection`` tells it.

    Read from what was kept with the releases when they were cut, never from the batches as they are now.
    """
    gold = run.items.filter(basis=RunItem.Basis.GOLD)
    labels = _count_by_release(run, gold)
    stored = _StoredSelection(run, {release for release, *_rest in labels})
    response_counts = count_responses(run)
    selections = [
        selection
        for (release, batch, model, scope), n in sorted(labels.items())
        for selection in stored.list_selections(
            release, batch, model, scope, labels=n, responses=response_counts[model, scope]
        )
    ]
    return selections_to_json(selections)


class _StoredSelection:
    """What the manifests of some releases say of the run's responses, by batch, model and column."""

    def __init__(self, run: BenchmarkRun, releases: Collection[int]) -> None:
        self._rows: dict[tuple[int, str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for release in GoldRelease.objects.filter(pk__in=releases):
            for row in find_selection(release) or ():
                if (row["dataset"], row["collection"]) == (run.dataset.name, run.collection.name):
                    self._rows[release.pk, row["batch"], row["model"], row["dimension"]].append(row)

    def list_selections(
        self, release: int, batch: str, model: str, scope: str, *, labels: int, responses: int
    ) -> list[GoldSelection]:
        """As the release has them; where one of several says nothing, that is unrecorded."""
        rows = self._rows[release, batch, model, scope]
        if len(rows) == 1 or not rows:  # the run may have less of it than the release
            row = rows[0] if rows else {"how": UNRECORDED, "without_gold": 0, "pool": responses}
            rows = [{**row, "labels": labels}]
        return [
            GoldSelection(
                batch=batch,
                model=model,
                dimension=scope,
                labels=row["labels"],
                without_gold=row["without_gold"],
                responses=responses,
                pool=row["pool"],
                stored_method=row["how"],
                scorer=row.get("scorer") or "",
            )
            for row in rows
        ]


def _count_by_release(run: BenchmarkRun, gold: QuerySet[RunItem]) -> Counter[tuple[int, str, str, str]]:
    """Responses with gold by release, batch, model and column."""
    counts: Counter[tuple[int, str, str, str]] = Counter()
    rows = gold.order_by().values_list("released_label__release", BY_BATCH + "__name", *PLACE)
    for release, batch, model, dimension, number in rows.annotate(n=Count("response", distinct=True)):
        scope = find_scope(run, dimension)
        if scope is not None:
            counts[release, batch, model, scope] += number
    return counts
