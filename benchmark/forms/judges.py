"""What the pages of judges take in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy

from annotation.forms.fields import StudyChoiceField
from annotation.selectors.guidelines import list_published
from benchmark.domain.judges.prompts import MAX_CHARACTERS
from benchmark.forms.leaderboards import JsonObjectField, ResponseSelectionForm, list_endpoints
from benchmark.models import JudgeTemplate


class NewJudgeForm(forms.Form):
    """A judge of one of the endpoints that the settings name: a page asks no other address."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    guideline = StudyChoiceField(
        lambda: list_published().order_by("name", "-published_at"),
        label=gettext_lazy("Guideline"),
        empty_label=None,
    )
    endpoint = forms.ChoiceField(
        label=gettext_lazy("Endpoint"), help_text=gettext_lazy("As the settings name them (ASSAY_ENDPOINTS).")
    )
    served_model = forms.CharField(
        label=gettext_lazy("Model asked for"),
        max_length=200,
        help_text=gettext_lazy("As the endpoint calls it."),
    )
    template = StudyChoiceField(
        JudgeTemplate.objects.all,
        label=gettext_lazy("Template"),
        required=False,
        empty_label=gettext_lazy("the latest version of the guideline's"),
    )
    temperature = forms.FloatField(
        label=gettext_lazy("Temperature"), initial=0, min_value=0, max_value=5, required=False
    )
    max_tokens = forms.IntegerField(
        label=gettext_lazy("Longest answer, in tokens"),
        initial=512,
        min_value=1,
        max_value=100_000,
        required=False,
    )
    more = JsonObjectField(
        label=gettext_lazy("Further generation settings"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "code"}),
        help_text=gettext_lazy('A JSON object, as {"top_p": 1}. Never a key.'),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        endpoint = self.fields["endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)
        endpoint.choices = list_endpoints()

    @property
    def judge(self) -> dict[str, Any]:
        """What ``create_judge`` takes."""
        data = self.cleaned_data
        generation = {name: data[name] for name in ("temperature", "max_tokens") if data[name] is not None}
        return {
            "name": data["name"],
            "guideline": data["guideline"],
            "endpoint": settings.ASSAY_ENDPOINTS[data["endpoint"]],
            "served_model": data["served_model"],
            "template": data["template"],
            "settings": generation | data["more"],
        }


class TemplateForm(forms.Form):
    system = forms.CharField(
        label=gettext_lazy("System prompt"),
        required=False,
        strip=False,
        max_length=MAX_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 5}),
    )
    text = forms.CharField(
        label=gettext_lazy("Text"),
        strip=False,
        max_length=MAX_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 16, "class": "code"}),
    )
    note = forms.CharField(
        label=gettext_lazy("Changes"),
        required=False,
        max_length=300,
        help_text=gettext_lazy("For the list of versions."),
    )


class AskForm(ResponseSelectionForm):
    concurrency = forms.IntegerField(
        label=gettext_lazy("Requests at once"), initial=16, min_value=1, max_value=512
    )
