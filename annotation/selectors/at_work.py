"""Which responses are in people's hands: what nobody else need be asked, and nothing need predict."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from annotation.models import Batch, Task


def tasks_at_work(guideline_name: str) -> QuerySet[Task]:
    """What people label or have labelled by the guideline, in whichever version; known items are no work.

    What a closed batch left undone nobody will do: it is as free as what was withdrawn.
    """
    undone = Q(batch__state=Batch.State.CLOSED, state__in=[Task.State.OPEN, Task.State.DISPUTED])
    work = Task.objects.filter(kind=Task.Kind.WORK, batch__guideline__name=guideline_name)
    return work.exclude(Q(state=Task.State.WITHDRAWN) | undone)
