"""Care for those who read: what the pages need to know of it, how much was read today, what is left of a budget."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.utils.translation import get_language

from annotation.guidelines import localized
from annotation.models import CareSettings, Person
from annotation.statements import first

# From this severity on an item counts as severe: the middle of the scale of ``Dimension.severity``.
SEVERE = 2


@dataclass(frozen=True)
class Care:
    """What an item's page does for its reader. ``break_minutes`` None: no break is proposed.

    ``blur``: the text is blurred until it is opened; ``contacts``: whom to turn to, as plain text with line breaks.
    """

    blur: bool
    severity: int
    break_minutes: int | None
    contacts: str
    single_keys: bool


def care_for(person: Person, severity: int) -> Care:
    """For an item of this severity; one look at one row."""
    break_minutes, contacts = first(SETTINGS, [CareSettings.ONE]) or (None, "{}")
    words = {language: text for language, text in json.loads(contacts).items() if text}
    return Care(
        blur=person.blur == Person.Blur.ALWAYS or (person.blur == Person.Blur.SEVERE and severity >= SEVERE),
        severity=severity,
        break_minutes=break_minutes,
        contacts=localized(words, get_language() or "en") if words else "",
        single_keys=person.single_keys,
    )


SETTINGS = "SELECT break_minutes, help_contacts FROM annotation_caresettings WHERE id = %s"
