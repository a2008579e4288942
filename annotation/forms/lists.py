"""How a person narrows, orders and clears a list of what is archived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from django import forms
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from annotation.core.study_scope import build_study_filter
from annotation.models import Archivable, Shareable

A = TypeVar("A", bound=Archivable)

NEWEST, OLDEST, NAME = "newest", "oldest", "name"
ORDERS = {NEWEST: ("-created_at", "-pk"), OLDEST: ("created_at", "pk"), NAME: ("name", "pk")}
ORDER_CHOICES = ((NEWEST, _("newest first")), (OLDEST, _("oldest first")), (NAME, _("by name")))


@dataclass(frozen=True)
class ListChoice:
    """``words``: each stands in the name, the title or the name of who made it. ``archived``: those alone; else none of
    them.
    """

    words: str = ""
    order: str = NEWEST
    archived: bool = False

    def narrow(self, rows: QuerySet[A]) -> QuerySet[A]:
        """The rows that the choice asks for, in its order."""
        has_author = any(field.name == "created_by" for field in rows.model._meta.get_fields())
        for word in self.words.split():
            matches = Q(name__icontains=word) | Q(title__icontains=word)
            if has_author:
                authors = Q(created_by__username__icontains=word) | Q(
                    created_by__display_name__icontains=word
                )
                # Nobody learns who made what another study shares.
                matches |= authors & Q(**build_study_filter("study"))
            rows = rows.filter(matches)
        if issubclass(rows.model, Shareable):
            rows = rows.select_related("study")  # whose name stands beside what is shared
        return rows.filter(archived_at__isnull=not self.archived).order_by(*ORDERS[self.order])


class ListForm(forms.Form):
    """What the address of a list says; what nobody could have chosen is left out of account."""

    words = forms.CharField(label=_("Search"), max_length=150, required=False)
    order = forms.ChoiceField(label=_("Order"), choices=ORDER_CHOICES, required=False)
    archived = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def read(self) -> ListChoice:
        self.is_valid()
        data = self.cleaned_data
        return ListChoice(
            words=data.get("words", "").strip(),
            order=data.get("order") or NEWEST,
            archived=data.get("archived", False),
        )


class RowTitleForm(forms.Form):
    title = forms.CharField(label=_("Title"), max_length=200, required=False)
