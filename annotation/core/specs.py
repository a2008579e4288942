"""The base of what people ask for as a whole: checked where it is made, and kept by a job as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from annotation.core.errors import N_, AssayError
from annotation.core.names import check_name

MAX_SEED = 2**31 - 1


class FrozenSpec(BaseModel):
    """A check of a field raises an AssayError, which reaches whoever makes the spec unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _read_id(value: Any) -> Any:
    return getattr(value, "pk", value)


Id = Annotated[int, BeforeValidator(_read_id)]
"""The number of a database row; the row itself is taken for it."""


def check_seed(seed: int) -> int:
    if not 0 <= seed <= MAX_SEED:
        raise AssayError(N_("The seed is a whole number from 0 to {largest}."), largest=MAX_SEED)
    return seed


Seed = Annotated[int, AfterValidator(check_seed)]
Name = Annotated[str, AfterValidator(check_name)]


def check_choice(value: str, choices: Sequence[str], template: str, **params: Any) -> str:
    """The value if it is one of the choices; else the error, which lists them as ``known``."""
    if value not in choices:
        raise AssayError(template, known=", ".join(filter(None, choices)), **params)
    return value
