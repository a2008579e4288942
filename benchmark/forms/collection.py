"""What the page of a new collecting takes in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Dataset, Person
from annotation.selectors.datasets import list_own_datasets
from benchmark.domain.llm_client import MAX_CONCURRENCY
from benchmark.domain.llm_client.settings import MAX_INTEGER, MAX_SAMPLES, MAX_SYSTEM_CHARACTERS
from benchmark.forms.leaderboards import JsonObjectField, list_endpoints
from benchmark.selectors.leaderboards.runs import list_open_datasets
from benchmark.services.endpoint_runs import (
    CONCURRENCY,
    MAX_MODEL_CHARACTERS,
    MAX_TIMEOUT_SECONDS,
    TIMEOUT,
)

MAX_EXTRA_CHARACTERS = 20_000
MAX_STOPS_CHARACTERS = 2000


class CollectionForm(forms.Form):
    """Only the endpoints that the settings name: a page asks no address that somebody typed."""

    endpoint = forms.ChoiceField(label=gettext_lazy("Endpoint"))
    served_model = forms.CharField(
        label=gettext_lazy("Model asked for"),
        max_length=MAX_MODEL_CHARACTERS,
        help_text=gettext_lazy("As the endpoint knows it."),
    )
    model = forms.CharField(
        label=gettext_lazy("Model"),
        max_length=100,
        widget=forms.TextInput(attrs={"list": "known-models"}),
        help_text=gettext_lazy("Whose responses they are called here; a new name makes a new model."),
    )
    dataset = forms.ModelChoiceField(
        label=gettext_lazy("Dataset"), queryset=Dataset.objects.none(), empty_label=None
    )
    collection = forms.CharField(
        label=gettext_lazy("Collection"),
        max_length=100,
        required=False,
        widget=forms.TextInput(attrs={"list": "known-collections"}),
        help_text=gettext_lazy(
            "Nothing is overwritten: another collection is another run. Empty: the default collection."
        ),
    )
    samples = forms.IntegerField(
        label=gettext_lazy("Samples of each prompt"),
        min_value=1,
        max_value=MAX_SAMPLES,
        initial=1,
        required=False,
        help_text=gettext_lazy(
            "How many responses to each prompt. Several are kept in collections of their own, the name above with -1,"
            " -2 and so on behind it; a seed counts up from one to the next."
        ),
    )
    temperature = forms.FloatField(
        label=gettext_lazy("Temperature"),
        min_value=0,
        max_value=100,
        required=False,
        help_text=gettext_lazy(
            "Empty: what the endpoint does of itself. The same holds for all settings below."
        ),
    )
    top_p = forms.FloatField(label=gettext_lazy("Top p"), min_value=0, max_value=1, required=False)
    max_tokens = forms.IntegerField(
        label=gettext_lazy("Most tokens of a response"),
        min_value=1,
        max_value=MAX_INTEGER,
        required=False,
        help_text=gettext_lazy("A response that is longer is cut off there."),
    )
    seed = forms.IntegerField(
        label=gettext_lazy("Seed"), min_value=-MAX_INTEGER, max_value=MAX_INTEGER, required=False
    )
    stop = forms.CharField(
        label=gettext_lazy("Stop at"),
        max_length=MAX_STOPS_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("A text in each line."),
    )
    system = forms.CharField(
        label=gettext_lazy("System message"),
        max_length=MAX_SYSTEM_CHARACTERS,
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Stands before each prompt."),
    )
    extra = JsonObjectField(
        label=gettext_lazy("Other settings"),
        max_length=MAX_EXTRA_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": "code"}),
        help_text=gettext_lazy('As a JSON object: {"top_k": 40}.'),
    )
    concurrency = forms.IntegerField(
        label=gettext_lazy("Requests at once"), min_value=1, max_value=MAX_CONCURRENCY, initial=CONCURRENCY
    )
    timeout = forms.FloatField(
        label=gettext_lazy("Seconds until a request is given up"),
        min_value=0.1,
        max_value=MAX_TIMEOUT_SECONDS,
        initial=TIMEOUT,
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        endpoint, dataset = self.fields["endpoint"], self.fields["dataset"]
        assert isinstance(endpoint, forms.ChoiceField)
        assert isinstance(dataset, forms.ModelChoiceField)
        endpoint.choices = list_endpoints()
        dataset.queryset = list_open_datasets(person) & list_own_datasets()

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        named = {"temperature", "top_p", "max_tokens", "seed", "stop", "system"}
        twice = sorted(named & set(data.get("extra") or {}))
        if twice:
            self.add_error(
                "extra", _("These have fields of their own: {names}.").format(names=", ".join(twice))
            )
        return data

    def options(self) -> dict[str, Any]:
        """What ``start_collection`` takes."""
        data = self.cleaned_data
        return {
            "endpoint": settings.ASSAY_ENDPOINTS[data["endpoint"]],
            "served_model": data["served_model"],
            "model": data["model"],
            "samples": data["samples"] or 1,
            "settings": self.build_settings(),
            **{name: data[name] for name in ("dataset", "collection", "concurrency", "timeout")},
        }

    def build_settings(self) -> dict[str, Any]:
        """What is sent with every request to the model."""
        data = self.cleaned_data
        stops = [line for line in data["stop"].splitlines() if line]
        return {
            **data["extra"],
            **{name: data[name] for name in ("temperature", "top_p", "max_tokens", "seed")},
            "stop": stops or None,
            "system": data["system"].replace("\r\n", "\n") or None,
        }
