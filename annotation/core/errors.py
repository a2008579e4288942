"""The errors of the application: what is wrong, where, and how to mend it.

Pure: no Django here. A message is an English template marked with ``N_`` so that it is extracted
for translation; the boundary (a page, the API, a command) translates the template and fills it in.
"""

from __future__ import annotations

from typing import Any


def N_(template: str) -> str:
    """Mark a message template for translation and hand it back unchanged."""
    return template


class AssayError(Exception):
    """Something a person can mend. ``template.format(**params)`` is the message in English.

    ``status`` is the HTTP status with which the API answers; ``code`` is a stable word for programs.
    """

    code = "invalid"
    status = 400

    def __init__(self, template: str, **params: Any) -> None:
        super().__init__(template, params)
        self.template = template
        self.params = params

    def __str__(self) -> str:
        return self.template.format(**self.params)


class NotFound(AssayError):
    """The named thing does not exist, or this person may not know whether it does."""

    code = "not_found"
    status = 404


class Conflict(AssayError):
    """The request is well formed and comes too late, or contradicts what is stored."""

    code = "conflict"
    status = 409


class TooLate(Conflict):
    """Work comes for a place that is gone. An annotation is kept as a draft."""

    code = "too_late"


class Forbidden(AssayError):
    """This person may not do that."""

    code = "forbidden"
    status = 403


class Unprocessable(AssayError):
    """The same key with another body, or labels that the guideline does not allow."""

    code = "unprocessable"
    status = 422


class NoRoom(AssayError):
    """The server cannot store it: its disk is full, or may not be written."""

    code = "no_room"
    status = 507


class StorageAway(AssayError):
    """The bucket that has the files does not answer. It passes: a page says so, and a job is given back."""

    code = "unavailable"
    status = 503


class StorageRefused(AssayError):
    """The bucket does not let this server in, or is not there: somebody must mend the settings."""

    code = "storage"
    status = 503


class InputError(AssayError):
    """Bad input from a file: which file, which line (1-based, None for the whole file), which field."""

    code = "bad_input"

    def __init__(
        self, template: str, *, path: str, line: int | None = None, field: str | None = None, **params: Any
    ) -> None:
        super().__init__(template, **params)
        self.path = path
        self.line = line
        self.field = field

    @property
    def where(self) -> str:
        """``FILE``, ``FILE:7`` or ``FILE:7 [field]``: the same in every language."""
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return place if self.field is None else f"{place} [{self.field}]"

    def __str__(self) -> str:
        return f"{self.where}: {super().__str__()}"
