"""How chance chose the responses of a batch, written down once, with the batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import transaction

from annotation.core.errors import N_, Conflict
from annotation.domain.releases.selection import DrawnStratum
from annotation.models import Batch, BatchDraw


@transaction.atomic
def record_draw(batch: Batch, strata: Sequence[DrawnStratum], *, imported: bool = False) -> BatchDraw:
    """Record the strata that the batch was drawn from, each with its chance, or with why there is none.

    Raises Conflict where its draw is recorded already, or a release has frozen what was known of it.
    """
    locked = Batch.objects.select_for_update(no_key=True).only("pk", "name").get(pk=batch.pk)
    if BatchDraw.objects.filter(batch=locked).exists() or locked.releases.exists():
        raise Conflict(N_("How {name} was drawn is recorded already."), name=locked.name)
    return BatchDraw.objects.create(
        batch=locked, strata=[stratum.to_json() for stratum in strata], imported=imported
    )


def count_drawn_before(
    strata: Iterable[DrawnStratum], stratum: DrawnStratum, free: frozenset[int] = frozenset()
) -> int:
    """How many responses earlier draws of known chance took from this stratum of the same pool.

    Without those that are ``free`` again: what a closed batch left undone can be drawn anew.
    """
    drawn: set[int] = set()
    for earlier in strata:
        if (
            earlier.chance is not None
            and earlier.responses is not None
            and (earlier.model, earlier.dimension, earlier.bounds, earlier.pool)
            == (stratum.model, stratum.dimension, stratum.bounds, stratum.pool)
        ):
            drawn.update(earlier.responses)
    return len(drawn - free)
