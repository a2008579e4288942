from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """The solver's vectors are too short to share out: threads that wait for one another cost five times the time,
    more where the processors have other work, and their number must not change what is learned.

    To be asked for when scikit-learn is imported: the libraries that it brings are those that are limited.
    """
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
