"""What is checked of scorers: the encoders that they may be trained with, and the weights that they predict with."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from django.conf import settings

from annotation.core.errors import N_, AssayError
from annotation.core.health import HealthResult, fault, passed, register_check, warning
from scoring.models import Scorer
from scoring.selectors.training import check_weights, find_weights

PACKAGES = ("torch", "transformers", "safetensors")
MAX_NAMED = 3


@register_check("encoders")
def check_encoders() -> HealthResult:
    """The folders were whole when this process started; a process without the packages cannot use them."""
    folders = {
        **settings.ASSAY_ENCODERS,
        **({"ASSAY_ENCODER": settings.ASSAY_ENCODER} if settings.ASSAY_ENCODER else {}),
    }
    if not folders:
        return passed(N_("None is named: scorers are of the embedded backbone."))
    for name, folder in folders.items():
        if not (Path(folder) / "config.json").is_file():
            return fault(
                N_("{name}: {folder} is no folder with a model."),
                N_("Put the encoder there, or change ASSAY_ENCODER and ASSAY_ENCODERS."),
                name=name,
                folder=folder,
            )
        if not any(Path(folder).glob("*.safetensors")):
            return fault(
                N_("{name}: {folder} has no weights (*.safetensors)."),
                N_("Download the model whole."),
                name=name,
                folder=folder,
            )
    absent = [package for package in PACKAGES if find_spec(package) is None]
    if absent:
        return warning(
            N_("An encoder is named, and {packages} are not installed on this machine."),
            N_("On a machine with workers: pip install -r requirements-encoder.txt"),
            packages=", ".join(absent),
        )
    return passed(N_("{number} folders with weights."), number=len(folders))


@register_check("scorers", needs_database=True, reads_all=True)
def check_scorers() -> HealthResult:
    """The weights of each scorer that is ready, against the hash that was stored when it was registered."""
    faults, number = [], 0
    for scorer in Scorer.objects.filter(ready_at__isnull=False).order_by("pk").iterator():
        number += 1
        try:
            check_weights(find_weights(scorer, afresh=True), scorer.weights_sha256)
        except AssayError as error:
            faults.append(f"{scorer.name}: {error}")
    if faults:
        return fault(
            N_("{number} scorers cannot be used. {faults}"),
            N_("Restore their folders from the backup, or train them again from their releases."),
            number=len(faults),
            faults=" ".join(faults[:MAX_NAMED]),
        )
    return passed(N_("The weights of {number} are those that were registered."), number=number)
