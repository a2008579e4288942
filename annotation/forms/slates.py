"""What a set of slates is to be made of, as a form."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.core.names import MAX_NAME_CHARACTERS
from annotation.domain.slates import Pairs
from annotation.models import Dataset
from annotation.selectors.slates import list_sources
from annotation.services.slates import SlateSpec

TOGETHER, ALL, BALANCED = "", "all", "balanced"
UNNAMED = "-"
"""In the form the collection without a name, which no named collection can be called."""


class SlateForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=MAX_NAME_CHARACTERS)
    models = forms.MultipleChoiceField(
        label=_("Models"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: all."),
    )
    collections = forms.MultipleChoiceField(
        label=_("Collections"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Several: each model's responses of each collection, such as samples, stand side by side."
        ),
    )
    pairs = forms.ChoiceField(
        label=_("Side by side"),
        required=False,
        choices=[
            (TOGETHER, _("all responses to a prompt together, 2 to 5")),
            (ALL, _("two at a time: all pairs of each prompt")),
            (BALANCED, _("two at a time: one pair of each prompt, every pair as often")),
        ],
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        initial=0,
        min_value=0,
        max_value=2**31 - 1,
        help_text=_("Of the order of the responses: the same seed gives the same slates."),
    )

    def __init__(self, data: Any = None, *, dataset: Dataset) -> None:
        super().__init__(data)
        self._dataset = dataset
        models, collections = list_sources(dataset)
        self._set_choices("models", [(name, name) for name in models])
        self._set_choices(
            "collections", [(name or UNNAMED, name or _("without a name")) for name in collections]
        )
        if len(collections) < 2 and "" in collections:
            del self.fields["collections"]

    def _set_choices(self, name: str, choices: list[tuple[str, Any]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = choices

    def build_spec(self) -> SlateSpec:
        """Of a form that is valid."""
        data = self.cleaned_data
        pairs: Pairs | None = {ALL: "all", BALANCED: "balanced"}.get(data["pairs"])  # type: ignore[assignment]
        return SlateSpec(
            name=data["name"],
            dataset=self._dataset,
            models=data["models"],
            collections=["" if name == UNNAMED else name for name in data.get("collections") or []],
            pairs=pairs,
            seed=data["seed"],
        )
