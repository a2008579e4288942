"""Which gold releases are of one lineage: those that share a batch, with the batches of what each superseded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from annotation.models import GoldRelease


@dataclass(frozen=True)
class Lineages:
    """``batches`` by release."""

    batches: Mapping[int, frozenset[int]]

    @classmethod
    def read(cls) -> Lineages:
        """Of all releases, in two queries."""
        batches: dict[int, set[int]] = defaultdict(set)
        for release, batch in GoldRelease.batches.through.objects.values_list("goldrelease", "batch"):
            batches[release].add(batch)
        # A release comes after what it superseded, so that one pass finds them all.
        releases = GoldRelease.objects.order_by("created_at", "pk")
        for heir, old in releases.values_list("pk", "supersedes"):
            if old is not None:
                batches[heir] |= batches[old]
        return cls({release: frozenset(own) for release, own in batches.items()})

    def are_related(self, first: int, second: int) -> bool:
        none: frozenset[int] = frozenset()
        return first == second or bool(self.batches.get(first, none) & self.batches.get(second, none))

    def list_related(self, release: int) -> set[int]:
        return {release, *(other for other in self.batches if self.are_related(release, other))}
