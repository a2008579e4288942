"""How a person narrows, orders and clears a list of what is archived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.db.models import Model, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from annotation.core.study_scope import build_study_filter
from annotation.models import Archivable, Shareable

R = TypeVar("R", bound=Model)

NEWEST, OLDEST, NAME = "newest", "oldest", "name"
ORDER_CHOICES = ((NEWEST, _("newest first")), (OLDEST, _("oldest first")), (NAME, _("by name")))


@dataclass(frozen=True)
class ListColumns:
    """What rows are searched by, the first of them their name, and the path to the name of their guideline, if they
    have one.
    """

    words: tuple[str, ...] = ("name", "title")
    guideline: str = ""

    def list_guidelines(self, rows: QuerySet[R]) -> list[str]:
        """By which the rows go, by name; none where a choice among them would say nothing."""
        if not self.guideline:
            return []
        names = rows.order_by().values_list(self.guideline, flat=True).distinct()
        known = sorted(name for name in names if name is not None)
        return known if len(known) > 1 else []


@dataclass(frozen=True)
class ListChoice:
    """``words``: each stands in a column of the row or the name of who made it. ``archived``: those alone; else none of
    them.
    """

    words: str = ""
    guideline: str = ""
    order: str = NEWEST
    archived: bool = False

    @property
    def is_narrow(self) -> bool:
        return bool(self.words or self.guideline)

    def narrow(self, rows: QuerySet[R], columns: ListColumns) -> QuerySet[R]:
        """The rows that the choice asks for, in its order."""
        for word in self.words.split():
            rows = rows.filter(_build_match(rows.model, columns.words, word))
        if self.guideline:
            ids = rows.model._default_manager.filter(**{columns.guideline: self.guideline})
            rows = rows.filter(pk__in=ids.order_by().values("pk"))  # however many batches a release has
        if issubclass(rows.model, Shareable):
            rows = rows.select_related("study")  # whose name stands beside what is shared
        if issubclass(rows.model, Archivable):
            rows = rows.filter(archived_at__isnull=not self.archived)
        orders = {
            NEWEST: ("-created_at", "-pk"),
            OLDEST: ("created_at", "pk"),
            NAME: (columns.words[0], "pk"),
        }
        return rows.order_by(*orders[self.order])


def _build_match(model: type[Model], columns: Iterable[str], word: str) -> Q:
    match = Q()
    for column in columns:
        match |= Q(**{f"{column}__icontains": word})
    if any(field.name == "created_by" for field in model._meta.get_fields()):
        authors = Q(created_by__username__icontains=word) | Q(created_by__display_name__icontains=word)
        # Nobody learns who made what another study shares.
        match |= authors & Q(**build_study_filter("study")) if issubclass(model, Shareable) else authors
    return match


class ListForm(forms.Form):
    """What the address of a list says; what nobody could have chosen is left out of account."""

    words = forms.CharField(label=_("Search"), max_length=150, required=False)
    guideline = forms.ChoiceField(label=_("Guideline"), required=False)
    order = forms.ChoiceField(label=_("Order"), choices=ORDER_CHOICES, required=False)
    archived = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, data: Mapping[str, Any], guidelines: Sequence[str]) -> None:
        super().__init__(data)
        field = self.fields["guideline"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("all")), *((name, name) for name in guidelines)]
        if not guidelines:
            del self.fields["guideline"]

    def read(self) -> ListChoice:
        self.is_valid()
        data = self.cleaned_data
        return ListChoice(
            words=data.get("words", "").strip(),
            guideline=data.get("guideline", ""),
            order=data.get("order") or NEWEST,
            archived=data.get("archived", False),
        )


class RowTitleForm(forms.Form):
    title = forms.CharField(label=_("Title"), max_length=200, required=False)
