"""An error's words in the reader's language: the boundary where the pure modules' templates are translated."""

from __future__ import annotations

from django.utils.translation import gettext

from annotation.errors import AssayError, InputError


def error_text(error: AssayError) -> str:
    """The message in the reader's language, with the place in the file where it has one."""
    message = gettext(error.template).format(**error.params)
    return f"{error.where}: {message}" if isinstance(error, InputError) else message
