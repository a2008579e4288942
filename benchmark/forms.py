"""What the pages of the benchmark take in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Collection, Dataset, EvaluatedModel, Person
from benchmark.selectors.runs import (
    collections_open_to,
    datasets_open_to,
    models_open_to,
    scorers_open_to,
)
from scoring.models import Scorer


class ScorerField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Scorer) -> str:
        return f"{obj.name} ({obj.guideline}, {obj.release.name})"


class CollectionField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Collection) -> str:
        return obj.name or _("the default collection")


class NewRunForm(forms.Form):
    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    scorer = ScorerField(label=gettext_lazy("Scorer"), queryset=Scorer.objects.none(), empty_label=None)
    dataset = forms.ModelChoiceField(
        label=gettext_lazy("Dataset"), queryset=Dataset.objects.none(), empty_label=None
    )
    collection = CollectionField(
        label=gettext_lazy("Collection"), queryset=Collection.objects.none(), empty_label=None
    )
    models = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Models"),
        queryset=EvaluatedModel.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("None chosen: every model that has responses there."),
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = {
            "scorer": scorers_open_to(person),
            "dataset": datasets_open_to(person),
            "collection": collections_open_to(person),
            "models": models_open_to(person),
        }
        for name, queryset in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)
            field.queryset = queryset
