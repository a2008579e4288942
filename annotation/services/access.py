"""Whoever opened a batch's results may not judge in it."""

from __future__ import annotations

from collections.abc import Iterable

from annotation.core.errors import N_, Conflict
from annotation.models import Batch, Person, ResultOpening

OPENED = N_(
    "{name} opened the results of {batch} on {date} and would not judge blind in it; choose somebody who has not."
)
MAY_HAVE_OPENED = N_(
    "{name} may have opened the results of {batch} since {date}, as a manager, researcher or admin, before openings"
    " were recorded, and would not judge blind in it; choose somebody else."
)


def refuse_result_openers(batch: Batch, people: Iterable[Person]) -> None:
    """Conflict, naming the first of ``people`` who opened the batch's results, or is presumed to have done so.

    Lock them before (``selectors.access.lock_people``): else somebody could open the results at this very moment.
    """
    openings = ResultOpening.objects.filter(batch=batch, person__in=[person.pk for person in people])
    opening = openings.select_related("person").order_by("person__username").first()
    if opening is None:
        return
    raise Conflict(
        MAY_HAVE_OPENED if opening.presumed else OPENED,
        name=str(opening.person),
        batch=batch.name,
        date=opening.first_at.date().isoformat(),
    )


def refuse_erased(people: Iterable[Person]) -> None:
    """Conflict, naming the first of ``people`` who was erased: that account takes no part in anything any more. As the
    database has them: they may have been erased since they were read.
    """
    erased = Person.objects.filter(pk__in=[person.pk for person in people], erased_at__isnull=False)
    person = erased.order_by("username").first()
    if person is not None:
        raise Conflict(
            N_("{name} was erased, and takes no part in anything any more; choose somebody else."),
            name=person.username,
        )
