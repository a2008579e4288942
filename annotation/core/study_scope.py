"""Which studies the work under way is about. Everything that reads rows of studies stays within them.

A request is limited to the study of its address, or to the studies that its person may see; a job to the study of its
row; a command to the one that ``--study`` names. None is no limit: an admin's pages over all studies, and the code of a
site that has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db.models import Q

_scope: ContextVar[frozenset[int] | None] = ContextVar("study_scope", default=None)


def get_study_scope() -> frozenset[int] | None:
    """The primary keys of the studies, or None without a limit."""
    return _scope.get()


def set_study_scope(studies: Iterable[int] | None) -> None:
    """From here on, until the ``limit_to_studies`` around it ends."""
    _scope.set(None if studies is None else frozenset(studies))


@contextmanager
def limit_to_studies(studies: Iterable[int] | None) -> Iterator[None]:
    token = _scope.set(None if studies is None else frozenset(studies))
    try:
        yield
    finally:
        _scope.reset(token)


def build_study_filter(path: str) -> dict[str, Iterable[int]]:
    """For ``filter(**..)`` of rows whose study is at the end of ``path``, such as ``batch__study``; without a limit
    nothing is filtered.
    """
    studies = get_study_scope()
    return {} if studies is None else {f"{path}__in": studies}


def build_own_filter(path: str) -> Q:
    """As ``build_study_filter``, of rows that may be the site's: where ``path`` is null."""
    studies = get_study_scope()
    return Q() if studies is None else Q(**{f"{path}__isnull": True}) | Q(**{f"{path}__in": studies})


def choose_study_id(owner: int) -> int:
    """The study of what is made from a row that ``owner`` owns: the study under way, with which it may be shared; the
    owner where the work is not limited to one.
    """
    studies = get_study_scope()
    return next(iter(studies)) if studies is not None and len(studies) == 1 else owner
