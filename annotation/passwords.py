"""The rules for passwords, in words that every reader understands. The settings say which rules there are."""

from __future__ import annotations

from django.contrib.auth.password_validation import MinimumLengthValidator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

LEAST = 8


class LengthValidator(MinimumLengthValidator):
    """Django 5.2 says this in English to Chinese readers: its own catalogue still has the sentence before."""

    def __init__(self, min_length: int = LEAST) -> None:
        super().__init__(min_length)

    def get_error_message(self) -> str:
        words = ngettext(
            "This password is too short: it needs at least {n} character.",
            "This password is too short: it needs at least {n} characters.",
            self.min_length,
        )
        return words.format(n=self.min_length)


def rules() -> str:
    """All of them in one sentence."""
    words = _("At least {n} characters, not digits alone, no common password, and nothing like the names.")
    return words.format(n=LEAST)
