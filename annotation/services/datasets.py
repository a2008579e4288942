"""Deleting a dataset on which nothing rests."""

from __future__ import annotations

from collections import Counter

from django.db import transaction
from django.db.models import ProtectedError

from annotation.core.errors import N_, Conflict
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Dataset, Person, Prompt, Response
from annotation.selectors.studies.sharing import format_counts
from annotation.services.audit import record
from annotation.services.sharing import refuse_borrowed


@transaction.atomic
def delete_dataset(*, dataset: Dataset, actor: Person | None) -> None:
    """Delete an archived dataset with its prompts and responses, for good.

    Conflict where it is not archived, or where anything rests on it: a batch, a board, a judge's labels, a collection.
    """
    refuse_borrowed(dataset)
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
            what=format_counts(Counter(type(row) for row in error.protected_objects)),
        ) from error
    record(actor=actor, verb=AnnotationVerb.DELETE, target=f"dataset:{locked.name}", **numbers)
