"""What trainings and programs leave behind, for the nightly clean-up."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from annotation.core.storage import bucket
from annotation.services.upkeep.clean_up import Remains, list_old
from annotation.services.upkeep.remains import STRAY_DAYS, clean_bucket, delete_rows, remove_paths
from scoring.models import Scorer
from scoring.services.predictions.requests import select_old_requests

FOLDER = "scorers"


def clean_trainings(remove: bool) -> Remains:
    """Of a scorer: folds, checkpoints and half-written weights. Of a training that failed, all that it wrote."""
    root = Path(settings.ASSAY_DATA_DIR)
    folders = list_old(root, STRAY_DAYS, "scorers/*")
    unfinished = [path for pattern in Scorer.unfinished_files for path in list_old(root, STRAY_DAYS, pattern)]
    # Read after the files: whoever began to train since is among them.
    scorers = {str(scorer.pk): scorer for scorer in Scorer.objects.select_related("job")}
    ready = {name for name, scorer in scorers.items() if scorer.is_ready}
    at_work = {name for name, scorer in scorers.items() if scorer.is_in_training}
    remains = [path for path in folders if path.name not in ready | at_work]
    remains += [path for path in unfinished if path.parent.name in ready]
    local = remove_paths(remains, remove=remove)
    if not bucket.is_used():
        return local
    in_bucket = _clean_bucket(remove)
    return Remains(local.number + in_bucket.number, local.bytes + in_bucket.bytes)


def _clean_bucket(remove: bool) -> Remains:
    """Weights that were never registered. One that is under way registers within a day of putting them there."""
    named = {
        f"{name}/"
        for scorer in Scorer.objects.filter(ready_at__isnull=False)
        for name in (scorer.stored_name, f"{FOLDER}/{scorer.pk}/weights")
    }
    return clean_bucket([FOLDER], lambda name: "/".join(name.split("/")[:3]) + "/" in named, remove=remove)


def clean_requests(remove: bool) -> Remains:
    """Texts that programs sent to be predicted, with the answers; their jobs stay."""
    return delete_rows(select_old_requests(), remove=remove)
