"""What a gold release is to be: its name, its batches, what it is about and what it takes the place of. Pure."""

from __future__ import annotations

from pydantic import field_validator

from annotation.core.errors import N_, AssayError
from annotation.core.specs import FrozenSpec, Id, Name

MAX_ABOUT_CHARACTERS = 20_000


class ReleaseSpec(FrozenSpec):
    """The batches, and the release that it supersedes, are named by their ids. A job's row keeps it as JSON, in the
    form that it had before this spec was there.
    """

    name: Name
    batches: tuple[Id, ...]
    about: str = ""
    supersedes: Id | None = None

    @field_validator("batches")
    @classmethod
    def _check_batches(cls, batches: tuple[int, ...]) -> tuple[int, ...]:
        if not batches:
            raise AssayError(N_("Name at least one batch."))
        return batches

    @field_validator("about")
    @classmethod
    def _check_about(cls, about: str) -> str:
        if len(about) > MAX_ABOUT_CHARACTERS:
            raise AssayError(
                N_("The subject is longer than {longest} characters: write less."),
                longest=MAX_ABOUT_CHARACTERS,
            )
        return about.strip()
