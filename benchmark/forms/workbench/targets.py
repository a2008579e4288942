"""The models that a campaign attacks, each at an endpoint."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmark.domain.llm_client.settings import MAX_INTEGER
from benchmark.domain.workbench.campaigns import MAX_TARGETS, TargetSpec
from benchmark.forms.leaderboards import list_endpoints
from benchmark.services.endpoint_runs import MAX_MODEL_CHARACTERS


class CampaignTargetForm(forms.Form):
    """Only the endpoints that the settings name: a page asks no address that somebody typed."""

    model = forms.CharField(
        label=gettext_lazy("Model"), max_length=100, widget=forms.TextInput(attrs={"list": "known-models"})
    )
    endpoint = forms.ChoiceField(label=gettext_lazy("Endpoint"))
    served_model = forms.CharField(
        label=gettext_lazy("Model asked for"),
        max_length=MAX_MODEL_CHARACTERS,
        required=False,
        help_text=gettext_lazy("As the endpoint knows it. Empty: by the same name."),
    )
    temperature = forms.FloatField(
        label=gettext_lazy("Temperature"),
        min_value=0,
        max_value=100,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    max_tokens = forms.IntegerField(
        label=gettext_lazy("Most tokens of a response"), min_value=1, max_value=MAX_INTEGER, required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        endpoint = self.fields["endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)
        endpoint.choices = [("", _("Choose an endpoint")), *list_endpoints()]

    def build_spec(self) -> TargetSpec:
        data = self.cleaned_data
        options = {name: data[name] for name in ("temperature", "max_tokens") if data[name] is not None}
        return TargetSpec(
            model=data["model"],
            endpoint=settings.ASSAY_ENDPOINTS[data["endpoint"]],
            served_model=data["served_model"],
            settings=options,
        )


class BaseTargetFormSet(forms.BaseFormSet):  # type: ignore[type-arg]  # not subscriptable at run time
    def clean(self) -> None:
        """Refuse a model that is named twice, beside its name."""
        names: set[str] = set()
        for form in self.forms:
            name = form.cleaned_data.get("model")
            if name in names:
                form.add_error("model", _("Each target is another model; this one is named twice."))
            if name:
                names.add(name)


TargetFormSet = forms.formset_factory(
    CampaignTargetForm,
    formset=BaseTargetFormSet,
    extra=MAX_TARGETS - 1,
    min_num=1,
    max_num=MAX_TARGETS,
    absolute_max=MAX_TARGETS,
    validate_min=True,
    validate_max=True,
)
