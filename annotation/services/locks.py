"""The first lock of whatever changes a batch for several people."""

from __future__ import annotations

from annotation.models import Batch, Membership


def lock_memberships(batch: Batch) -> list[Membership]:
    """Every membership of the batch, locked in the order in which all lock them: claims under way are waited for,
    and new ones see what was changed.
    """
    return list(Membership.objects.select_for_update(no_key=True).filter(batch=batch).order_by("pk"))
