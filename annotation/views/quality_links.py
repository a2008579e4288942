"""Where the items behind a figure are listed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from annotation.models import Batch, Person


def part_url(batch: Batch | None, person: Person) -> str:
    """The person's part in the batch; without one their own page, which lists their parts."""
    if batch is None:
        return reverse("person", args=[person.username])
    return reverse("batch-quality-person", args=[batch.name, person.username])


def items_url(batch: Batch, person: Person, **wanted: Any) -> str:
    page = reverse("batch-quality-items", args=[batch.name, person.username])
    return f"{page}?{urlencode(wanted)}" if wanted else page
