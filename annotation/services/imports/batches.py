"""A batch of a file: its prompts and responses go in, and the batch is made of them."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from annotation.domain.batch_spec import BatchSpec
from annotation.domain.formats import Source
from annotation.models import Batch
from annotation.services.batches.batches import create_batch
from annotation.services.imports.datasets import import_responses
from annotation.services.imports.run import PLAIN, ImportReport, Run


@transaction.atomic
def import_batch(
    *,
    source: Source,
    format: str,  # noqa: A002
    dataset: str,
    guideline: str,
    build_spec: Callable[[], BatchSpec],
    model: str | None = None,
    collection: str | None = None,
    run: Run = PLAIN,
) -> tuple[ImportReport, Batch]:
    """Take the responses of a file, with the prompts that stand beside them, into the dataset, which is made if there
    is none of this name; then make the batch. All of it, or nothing.

    ``build_spec`` is called when the responses are there: what the batch is of may come with the file.
    """
    report = import_responses(
        source=source,
        format=format,
        dataset=dataset,
        model=model,
        collection=collection,
        guideline=guideline,
        make_dataset=True,
        run=run,
    )
    return report, create_batch(build_spec(), actor=run.actor)
