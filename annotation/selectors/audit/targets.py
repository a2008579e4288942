"""What the targets of events are: the study of one, and which of them have a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet

from annotation.core.study_scope import get_study_scope
from annotation.domain.audit import KINDS, TargetKind, split_target


def find_study_of(target: str) -> int | None:
    """The study of the row that the target names, among those that the work under way is about; None where it is not
    there, is of none, or several studies have one of this name.
    """
    name, key = split_target(target)
    kind = KINDS[name]
    if not kind.study or not key:
        return None
    rows, studies = _select_rows(kind, [key]), get_study_scope()
    if studies is not None:
        rows = rows.filter(**{f"{kind.study}__in": studies})
    ids: list[int | None] = list(rows.values_list(kind.study, flat=True)[:2])
    return ids[0] if len(ids) == 1 else None


def select_existing(targets: Iterable[tuple[str, int | None]]) -> set[tuple[str, int | None]]:
    """Of targets, each with the study of its event, those whose row is there and has a page: a query for each kind."""
    by_kind: dict[TargetKind, set[tuple[str, int | None]]] = defaultdict(set)
    for target, study in targets:
        name, key = split_target(target)
        kind = KINDS.get(name)
        if kind is not None and kind.page and key:
            by_kind[kind].add((key, study))
    existing = set()
    for kind, places in by_kind.items():
        fields = [kind.field, kind.study] if kind.study else [kind.field]
        for values in _select_rows(kind, [key for key, _study in places]).values_list(*fields):
            same = {(str(values[0]), values[1] if kind.study else study) for _key, study in places}
            existing |= {(f"{kind.name}:{key}", study) for key, study in same & places}
    return existing


def _select_rows(kind: TargetKind, keys: Iterable[str]) -> QuerySet[Model]:
    """The rows of these keys, in all studies: their events say which they are of."""
    model: Any = apps.get_model(kind.model)
    field = model._meta.get_field(kind.field) if kind.field != "pk" else model._meta.pk
    values = []
    for key in keys:
        try:
            values.append(field.to_python(key))
        except ValidationError:
            continue
    rows: QuerySet[Model] = model._base_manager.filter(**{f"{kind.field}__in": values})
    return rows
