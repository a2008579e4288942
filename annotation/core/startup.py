"""A bad setting ends a process with the one line that says which and how to mend it, and with no traceback."""

from __future__ import annotations

import sys
from types import TracebackType

from django.core.exceptions import ImproperlyConfigured


class SettingsError(ImproperlyConfigured):
    """A setting that is missing or bad; its text begins with the variable's name."""


def describe_settings_error(error: SettingsError) -> str:
    return f"Assay cannot start. {error}"


def print_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What the interpreter calls for an exception that nobody catches (``sys.excepthook``)."""
    if isinstance(error, SettingsError):
        print(describe_settings_error(error), file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
