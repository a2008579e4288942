"""Which studies the work under way is about. Everything that reads rows of studies stays within them.

A request is limited to the study of its address, or to the studies that its person may see; a job to the study of its
row; a command to the one that ``--study`` names. None is no limit: an admin's pages over all studies, and the code of a
site that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from django.db.models import Q

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Scope:
    """``facts`` are of this scope and of those within it, and end with the outermost: a request, a job, a command."""

    studies: frozenset[int] | None = None
    facts: dict[Hashable, Any] = field(default_factory=dict)


_scope: ContextVar[_Scope | None] = ContextVar("study_scope", default=None)


def get_study_scope() -> frozenset[int] | None:
    """The primary keys of the studies, or None without a limit."""
    scope = _scope.get()
    return None if scope is None else scope.studies


def set_study_scope(studies: Iterable[int] | None) -> None:
    """From here on, until the ``limit_to_studies`` around it ends."""
    _scope.set(_build_scope(studies, _scope.get()))


@contextmanager
def limit_to_studies(studies: Iterable[int] | None, *, afresh: bool = False) -> Iterator[None]:
    """``afresh``: it knows no facts of the scope around it, which may be a worker's that runs for days."""
    token = _scope.set(_build_scope(studies, None if afresh else _scope.get()))
    try:
        yield
    finally:
        _scope.reset(token)


def _build_scope(studies: Iterable[int] | None, outer: _Scope | None) -> _Scope:
    return replace(outer or _Scope(), studies=None if studies is None else frozenset(studies))


def remember_in_scope(read: Callable[[frozenset[int]], T]) -> T:
    """What ``read`` returns of the studies under way, read once a request, job or command. ``forget_in_scope`` is
    called by what changes it. Only where the work is limited to studies.
    """
    scope = _scope.get()
    assert scope is not None
    assert scope.studies is not None
    key = (read, scope.studies)
    if key not in scope.facts:
        scope.facts[key] = read(scope.studies)
    facts: T = scope.facts[key]
    return facts


def forget_in_scope() -> None:
    """Read again what ``remember_in_scope`` holds."""
    scope = _scope.get()
    if scope is not None:
        scope.facts.clear()


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
