"""An error's words in the reader's language: the boundary where the pure modules' templates are translated."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from annotation.core.errors import AssayError, InputError


def error_text(error: AssayError) -> str:
    """The message in the reader's language, with the place in the file where it has one."""
    message = gettext(error.template).format(**error.params)
    return f"{error.where}: {message}" if isinstance(error, InputError) else message


def error_to_json(error: AssayError) -> dict[str, Any]:
    """The error as JSON, so that whoever reads it later reads it in their own language."""
    params = {
        name: value if isinstance(value, int | float) else str(value) for name, value in error.params.items()
    }
    return {
        "template": error.template,
        "params": params,
        "where": error.where if isinstance(error, InputError) else "",
    }


def error_from_json(error: dict[str, Any]) -> str:
    """The words of an error that ``error_to_json`` stored, in the reader's language."""
    message = gettext(error["template"]).format(**error["params"])
    return f"{error['where']}: {message}" if error["where"] else message
