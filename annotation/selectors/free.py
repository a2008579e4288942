"""The tasks that a member may be given now: what every claim asks for."""

from __future__ import annotations

from collections.abc import Sequence

from annotation.models import Batch, Membership
from annotation.models.sql import FreeTasks
from annotation.selectors.eligibility import strata_ruled_out


def free_tasks_for(
    membership: Membership,
    *,
    is_limited: bool = True,
    is_planned: bool = True,
    resting: Sequence[int] = (),
) -> FreeTasks:
    """``is_limited`` and ``is_planned`` False: known that nothing is ruled out, that there is no panel. ``resting`` are
    strata that are for the member, but not today.
    """
    return FreeTasks(
        batch=membership.batch_id,
        person=membership.person_id,
        pool=membership.batch.pairing == Batch.Pairing.POOL,
        ruled_out=[*(strata_ruled_out(membership) if is_limited else ()), *resting],
        panels=list(membership.panels.values_list("pk", flat=True)) if is_planned else (),
    )
