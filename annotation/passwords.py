"""A rule for passwords whose words every reader understands."""

from __future__ import annotations

from django.contrib.auth.password_validation import MinimumLengthValidator
from django.utils.translation import ngettext


class LengthValidator(MinimumLengthValidator):
    """Django 5.2 says this in English to Chinese readers: its own catalogue still has the sentence before."""

    def get_error_message(self) -> str:
        words = ngettext(
            "This password is too short: it needs at least {n} character.",
            "This password is too short: it needs at least {n} characters.",
            self.min_length,
        )
        return words.format(n=self.min_length)
