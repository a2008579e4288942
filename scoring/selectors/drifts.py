"""What was found of models beside the training data of a scorer."""

from __future__ import annotations

from annotation.models import Job, Person
from annotation.selectors.blindness import unsealed_models
from scoring.models import Scorer

DRIFT = "check_drift"
"""The kind of the job that compares a model's responses with a scorer's training data."""


def drift_checks_for(person: Person, scorer: Scorer) -> list[Job]:
    """The newest first, of models that the person does not judge blind now.

    The results of those done have ``model``, ``dataset``, ``labelled`` and ``drift``.
    """
    open_ = set(unsealed_models(person).values_list("pk", flat=True))
    found = Job.objects.filter(kind=DRIFT, payload__scorer=scorer.pk).order_by("-pk")
    return [job for job in found if job.payload["model"] in open_]
