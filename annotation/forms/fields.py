"""Fields that several forms have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from django import forms
from django.db.models import Model, QuerySet


class StudyChoiceField(forms.ModelChoiceField):  # type: ignore[type-arg]  # no generic at run time
    """A choice among rows of studies. ``read`` is called for each form: a queryset that stands in the class was made
    before anybody asked, and holds the rows of all studies.
    """

    def __init__(self, read: Callable[[], QuerySet[Any]], **options: Any) -> None:
        self.read = read
        super().__init__(queryset=read().none(), **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied: Self = super().__deepcopy__(memo)
        rows: QuerySet[Model] = self.read()
        copied.queryset = rows
        return copied
