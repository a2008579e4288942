"""Deleting a dataset on which nothing rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.db import transaction
from django.db.models import Model, ProtectedError
from django.utils.translation import gettext

from annotation.core.errors import N_, Conflict
from annotation.models import Dataset, Person, Prompt, Response
from annotation.services.audit import record


@transaction.atomic
def delete_dataset(*, dataset: Dataset, actor: Person | None) -> None:
    """Delete an archived dataset with its prompts and responses, for good.

    Conflict where it is not archived, or where anything rests on it: a batch, a board, a judge's labels, a collection.
    """
    locked = Dataset._base_manager.select_for_update().get(pk=dataset.pk)
    if locked.archived_at is None:
        raise Conflict(N_("Archive the dataset {name} before you delete it."), name=locked.name)
    prompts = Prompt.objects.filter(dataset=locked)
    responses = Response.objects.filter(prompt__dataset=locked)
    numbers = {"prompts": prompts.count(), "responses": responses.count()}
    try:
        responses.delete()
        prompts.delete()
        locked.delete()
    except ProtectedError as error:
        raise Conflict(
            N_("The dataset {name} cannot be deleted: {what} rest on it. It can stay in the archive."),
            name=locked.name,
            what=_count_kinds(error.protected_objects),
        ) from error
    record(actor=actor, verb="delete", target=f"dataset:{locked.name}", **numbers)


def _count_kinds(rows: Iterable[Model]) -> str:
    """``12 tasks, 1 benchmark run`` in the reader's language."""
    kinds = Counter(type(row) for row in rows)
    return gettext(", ").join(
        f"{number} {kind._meta.verbose_name if number == 1 else kind._meta.verbose_name_plural}"
        for kind, number in kinds.items()
    )
