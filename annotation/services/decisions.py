"""What a decision on a dispute must be, the first time and the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from annotation.adjudication import resolve
from annotation.errors import N_, Conflict, Unprocessable
from annotation.models import Batch, DisputeReason
from annotation.services.work import Work

NO_VERDICT = N_("Record your own verdict first, before you see the labels of others; then decide.")
A_DISPUTE = N_("This item is a dispute; decide it as adjudicator.")
NOTHING_YET = N_("Nothing was submitted for this item yet.")
NOT_AT_HAND = N_(
    "Your time for this item ran out. Ask for the next one: it comes again if nobody took it over."
)


def checked_decision(batch: Batch, disputed: Sequence[str], work: Work) -> dict[str, int | float]:
    """The labels for the ``disputed`` criteria, all of them and no others, as the guideline allows them."""
    resolve(disputed, work.labels)
    document = batch.guideline.document
    return {name: document.criterion(name).check(work.labels[name]) for name in disputed}


def refuse_other_verdict(labels: Mapping[str, Any], rationale: str, work: Work) -> None:
    """A verdict is written once; the same again is a retry."""
    if (labels, rationale) != (work.labels, work.rationale):
        raise Conflict(
            N_("Your verdict was recorded before and stands; what you think now is your decision.")
        )


def reason_of(work: Work) -> DisputeReason:
    """The reason by its key; one of those on the list now."""
    reasons = list(DisputeReason.objects.filter(active=True))
    found = next((one for one in reasons if one.key == work.reason), None)
    if found is None:
        known = ", ".join(one.key for one in reasons)
        raise Unprocessable(N_("Choose why the annotators differed. The reasons are: {known}."), known=known)
    return found
