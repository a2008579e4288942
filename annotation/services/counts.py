"""The counts of a batch, which every change of a task's state, every annotation and every skip updates.

They change in the same transaction. What a member's work changes is counted in the member's own row (``add_to_tally``
of annotation/models/sql/counts.py), so that nobody waits for anybody. What is changed for the batch as a whole is
counted in the stratum's row, under the batch's lock. The sum is exact at every moment.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import F

from annotation.core.sql import execute
from annotation.models import Batch, Membership, Stratum
from annotation.models.sql.counts import add_to_tally


def lock_memberships(batch: Batch) -> list[Membership]:
    """Every membership of the batch, locked in the order in which all lock them: claims under way are waited for,
    and new ones see what was changed.
    """
    return list(Membership.objects.select_for_update(no_key=True).filter(batch=batch).order_by("pk"))


def add_member_counts(changes: Mapping[tuple[int, int], Mapping[str, int]]) -> None:
    """Add to tallies of members: by the ids of membership and stratum what is added, by column.

    In the order of the ids, in which nobody waits for anybody in a circle.
    """
    execute(*(add_to_tally(*key, **added) for key, added in sorted(changes.items())))


def add_batch_counts(stratum_id: int, **changes: int) -> None:
    """Add ``changes`` (by column) to the counts of the batch as a whole; its row must be locked."""
    Stratum.objects.filter(pk=stratum_id).update(**{name: F(name) + n for name, n in changes.items()})
