"""The wellbeing settings: the site's, which managers set, and each person's own (selectors/wellbeing.py reads them).

A topic that one person opts out of and a person's own budget are in services/people/people.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from annotation.domain.verbs import AnnotationVerb
from annotation.models import ITEM_DISPLAY, Person, WellbeingSettings
from annotation.services.audit import record


@transaction.atomic
def set_wellbeing(
    *,
    daily_exposure: int | None,
    break_minutes: int | None,
    help_contacts: Mapping[str, str],
    actor: Person,
) -> None:
    """For everybody, from now on. ``help_contacts``: by language, as text; empty ones are left out."""
    values = {
        "daily_exposure": daily_exposure,
        "break_minutes": break_minutes,
        "help_contacts": {language: text.strip() for language, text in help_contacts.items() if text.strip()},
    }
    WellbeingSettings.objects.update_or_create(pk=WellbeingSettings.ONE, defaults=values)
    record(actor=actor, verb=AnnotationVerb.SET_CARE, target="care", **values)


def set_item_display(*, person: Person, **display: Any) -> None:
    """How the person's own pages show items (``ITEM_DISPLAY``); it is nobody else's business, so nothing is recorded
    of it.
    """
    for name in ITEM_DISPLAY:
        setattr(person, name, display[name])
    person.save(update_fields=ITEM_DISPLAY)
