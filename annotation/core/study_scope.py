"""Which studies the work under way is about. Everything that reads rows of studies stays within them.

A request is limited to the study of its address, or to the studies that its person may see; a job to the study of its
row; a command to the one that ``--study`` names. None is no limit: an admin's pages over all studies, and the code of a
site that has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_scope: ContextVar[frozenset[int] | None] = ContextVar("study_scope", default=None)


def get_study_scope() -> frozenset[int] | None:
    """The primary keys of the studies, or None without a limit."""
    return _scope.get()


@contextmanager
def limit_to_studies(studies: Iterable[int] | None) -> Iterator[None]:
    token = _scope.set(None if studies is None else frozenset(studies))
    try:
        yield
    finally:
        _scope.reset(token)
