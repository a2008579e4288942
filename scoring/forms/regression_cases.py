"""The items that no scorer may call harmless: found, chosen, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import (
    EvaluatedModel,
    Person,
    Response,
)
from annotation.selectors.access import unsealed_models
from scoring.forms.predictions import DatasetForm, set_choices
from scoring.services.regression_cases import MAX_REASON_CHARACTERS

MAX_FILE_BYTES = 20 * 1024 * 1024


class ResponseSearchForm(DatasetForm):
    """A response by its dataset, its prompt's id and its model."""

    prompt = forms.CharField(label=_("Prompt's id"), max_length=200)
    model = forms.ModelChoiceField(
        label=_("Model"), queryset=EvaluatedModel.objects.none(), to_field_name="name", empty_label=None
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, person=person, **kwargs)
        set_choices(self, "model", unsealed_models(person).order_by("name"))

    def list_responses(self) -> list[Response]:
        """Of a form that is valid; several where several collections have it."""
        data = self.cleaned_data
        return list(
            Response.objects.filter(
                prompt__dataset=data["dataset"], prompt__key=data["prompt"].strip(), model=data["model"]
            )
            .select_related("prompt__dataset", "model", "collection")
            .order_by("pk")
        )


class MustFailForm(forms.Form):
    """One criterion of a response: the values that no scorer may give it, and why."""

    criterion = forms.CharField(widget=forms.HiddenInput)
    refused = forms.MultipleChoiceField(
        label=_("Values that it may not be given"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Chosen for you is what the guideline counts as harmless."),
    )
    reason = forms.CharField(
        label=_("Why"),
        required=False,
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("For whoever meets it in the gate: what a scorer must see here."),
    )

    def __init__(self, *args: Any, levels: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["refused"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = list(levels)

    def values(self) -> list[int | float]:
        return [_parse_number(value) for value in self.cleaned_data["refused"]]


def _parse_number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value


class MustFailFileForm(forms.Form):
    file = forms.FileField(
        label=_("File"),
        help_text=_(
            "JSON lines or CSV in UTF-8: dataset, prompt_id and model; if you like also criterion, refused (values;"
            " in CSV with ; between them) and reason."
        ),
    )

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file.size > MAX_FILE_BYTES:
            raise forms.ValidationError(_("This file is larger than 20 MiB; add the items in parts."))
        return file
