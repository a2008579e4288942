"""Which gold releases are of one lineage: those that share a batch, with the batches of what each superseded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from annotation.models import GoldRelease


@dataclass(frozen=True)
class Lineages:
    """``batches`` by release."""

    batches: Mapping[int, frozenset[int]]

    @classmethod
    def read(cls, releases: Iterable[int] | None = None) -> Lineages:
        """Of these releases, or of all, in two queries."""
        superseded = dict(GoldRelease.objects.order_by("created_at", "pk").values_list("pk", "supersedes"))
        through = GoldRelease.batches.through.objects.all()
        if releases is not None:
            through = through.filter(goldrelease__in=_add_superseded(releases, superseded))
        batches: dict[int, set[int]] = defaultdict(set)
        for release, batch in through.values_list("goldrelease", "batch"):
            batches[release].add(batch)
        # A release comes after what it superseded, so that one pass finds them all.
        for heir, old in superseded.items():
            if old in batches:
                batches[heir] |= batches[old]
        return cls({release: frozenset(own) for release, own in batches.items()})

    def are_related(self, first: int, second: int) -> bool:
        none: frozenset[int] = frozenset()
        return first == second or bool(self.batches.get(first, none) & self.batches.get(second, none))

    def list_related(self, release: int) -> set[int]:
        return {release, *(other for other in self.batches if self.are_related(release, other))}


def _add_superseded(releases: Iterable[int], superseded: Mapping[int, int | None]) -> set[int]:
    """The releases, and those that they superseded, one after another."""
    chain: set[int] = set()
    for release in releases:
        current: int | None = release
        while current is not None and current not in chain:
            chain.add(current)
            current = superseded.get(current)
    return chain
