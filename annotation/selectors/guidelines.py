from __future__ import annotations

from annotation.errors import N_, NotFound
from annotation.models import Guideline


def guideline_named(reference: str) -> Guideline:
    """``G`` is its latest published version, ``G@V`` that one (published or not)."""
    name, _at, version = reference.partition("@")
    versions = Guideline.objects.filter(name=name)
    if version:
        found = versions.filter(version=version).first()
    else:
        found = versions.exclude(published_at=None).order_by("-published_at", "-id").first()
    if found is None:
        known = sorted({str(guideline) for guideline in Guideline.objects.only("name", "version")})
        raise NotFound(
            N_("There is no published guideline {reference}; known are: {known}."),
            reference=reference,
            known=", ".join(known) or "-",
        )
    return found
