"""Finding one's own submissions."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.models import Membership, Person
from annotation.selectors.mine import my_batch_names
from annotation.selectors.my_work import CLOSED, DECISIONS, LABELS, OPEN, Wanted, my_dimensions, my_roles
from annotation.views.levels import dimension_label
from annotation.views.numbers import DayField

# In an address, and never the name of a dimension.
NO_DIMENSION = "-"
# What only annotations can be.
MARKS = ("corrected", "flagged", "overruled")


class HistoryForm(forms.Form):
    """Everything optional. Whoever only annotates, or only adjudicates, is not asked which of both."""

    words = forms.CharField(
        label=_("Words of the prompt"),
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"type": "search"}),
    )
    batch = forms.ChoiceField(label=_("Batch"), required=False)
    dimension = forms.ChoiceField(label=_("Dimension"), required=False)
    kind = forms.ChoiceField(
        label=_("What I gave"),
        required=False,
        choices=[("", _("all")), (LABELS, _("labels")), (DECISIONS, _("decisions"))],
    )
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[
            ("", _("all")),
            (OPEN, pgettext_lazy("state", "open")),
            (CLOSED, pgettext_lazy("state", "closed")),
        ],
    )
    since = DayField(label=_("From"))
    until = DayField(label=_("To"))
    corrected = forms.BooleanField(label=_("Corrected by me"), required=False)
    flagged = forms.BooleanField(label=_("Flagged"), required=False)
    overruled = forms.BooleanField(label=_("Overruled"), required=False)

    def __init__(self, data: Any, *, person: Person) -> None:
        super().__init__(data)
        dimensions = my_dimensions(person)
        self._choices("batch", [(name, name) for name in my_batch_names(person)])
        self._choices(
            "dimension",
            [
                (name or NO_DIMENSION, dimension_label(document, name))
                for name, document in dimensions.items()
            ],
        )
        self._ask_only(my_roles(person))

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("all")), *choices]

    def _ask_only(self, roles: set[str]) -> None:
        decides = Membership.Role.ADJUDICATOR in roles
        left_out = ["kind"] if not decides else []
        if decides and Membership.Role.ANNOTATOR not in roles:
            left_out = ["kind", "state", *MARKS]
        for name in left_out:
            del self.fields[name]

    @property
    def marks(self) -> list[forms.BoundField]:
        return [self[name] for name in MARKS if name in self.fields]

    @property
    def choices(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in MARKS]

    def wanted(self) -> Wanted:
        """Of a form that is valid."""
        given = {name: value for name, value in self.cleaned_data.items() if value}
        if given.get("dimension") == NO_DIMENSION:
            given["dimension"] = ""
        return Wanted(**given)
