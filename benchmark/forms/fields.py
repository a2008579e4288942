"""Fields that several of the forms have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Collection, Dataset, EvaluatedModel, Person
from benchmark.selectors.runs import collections_open_to, datasets_open_to, models_open_to
from scoring.models import Scorer


class ScorerField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Scorer) -> str:
        return f"{obj.name} ({obj.guideline}, {obj.release.name})"


class CollectionField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Collection) -> str:
        return obj.name or _("the default collection")


class JsonObjectField(forms.CharField):
    """Generation settings by name; nothing where it is empty."""

    def clean(self, value: Any) -> dict[str, Any]:
        text = super().clean(value).strip()
        try:
            content = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise ValidationError(_("This is no JSON object."))
        return content


def named_endpoints() -> list[tuple[str, str]]:
    """Those that the settings name: a page asks no address that somebody typed."""
    return [(name, f"{name} ({url})") for name, url in settings.ASSAY_ENDPOINTS.items()]


class ResponsesForm(forms.Form):
    """Which responses: those of a dataset, in a collection, of some models or all, that the person may read."""

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
        for name, queryset in self.choices_for(person).items():
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)
            field.queryset = queryset

    def choices_for(self, person: Person) -> Mapping[str, QuerySet[Any]]:
        """What the person may choose, by field."""
        return {
            "dataset": datasets_open_to(person),
            "collection": collections_open_to(person),
            "models": models_open_to(person),
        }
