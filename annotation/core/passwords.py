"""The rules for passwords, in words that every reader understands. The settings say which rules there are."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from django.contrib.auth.password_validation import MinimumLengthValidator
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

MIN_CHARACTERS = 8


class LengthValidator(MinimumLengthValidator):
    """Django 5.2 says this in English to Chinese readers: its own catalogue still has the sentence before."""

    def __init__(self, min_length: int = MIN_CHARACTERS) -> None:
        super().__init__(min_length)

    def get_error_message(self) -> str:
        words = ngettext(
            "This password is too short: it needs at least {n} character.",
            "This password is too short: it needs at least {n} characters.",
            self.min_length,
        )
        return words.format(n=self.min_length)


class NameValidator:
    """Refuses a password that is little more than a name of its owner.

    Django's own rule compares lengths: with the name lin it takes lin12345 and linlinlin. Here what is left of the
    password without the names must still be long enough by itself.
    """

    NAMES = ("username", "display_name", "first_name", "last_name", "email")

    def validate(self, password: str, user: Any = None) -> None:
        rest = _plain(password)
        for name in sorted(self._names(user), key=len, reverse=True):
            rest = rest.replace(name, "")
        if user is not None and rest != _plain(password) and len(rest) < MIN_CHARACTERS:
            raise ValidationError(
                _("The password is too much like the name: without it, too little is left."),
                code="password_like_name",
            )

    def get_help_text(self) -> str:
        return _("Your password can’t be little more than your name.")

    def _names(self, user: Any) -> set[str]:
        """Whole, and each word; but no single letter, which stands in every password."""
        names = {_plain(getattr(user, field, "") or "") for field in self.NAMES}
        words = {word for name in names for word in re.split(r"[\W_]+", name)}
        return {name for name in names | words if len(name) > 1}


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def describe_rules() -> str:
    """All of them in one sentence."""
    words = _("At least {n} characters, not digits alone, no common password, and nothing like the names.")
    return words.format(n=MIN_CHARACTERS)
