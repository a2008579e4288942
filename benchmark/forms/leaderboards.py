"""Fields that several of the forms have.

What the page of a new run takes in.

What the pages of share links and published tables take in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from annotation.models import Collection, Dataset, EvaluatedModel, Person
from annotation.selectors.guidelines import list_published
from benchmark.domain.published_tables import MAX_FILE_BYTES
from benchmark.selectors.leaderboards.runs import (
    list_open_collections,
    list_open_datasets,
    list_open_models,
    list_open_scorers,
)
from benchmark.selectors.published_tables import list_prompt_languages
from benchmark.services.published_tables import MAX_NAME_CHARACTERS, MAX_SOURCE_CHARACTERS, MAX_URL_CHARACTERS
from benchmark.services.sharing import MAX_DAYS, MAX_NOTE_CHARACTERS
from scoring.models import Scorer


class ScorerField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Scorer) -> str:
        return f"{obj.name} ({obj.guideline}, {obj.release.name})"


class CollectionField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Collection) -> str:
        return obj.name or str(_("the default collection"))


class JsonObjectField(forms.CharField):
    """Generation settings by name; nothing where it is empty."""

    def clean(self, value: Any) -> dict[str, Any]:
        text = super().clean(value).strip()
        try:
            content = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise ValidationError(_("This is not a JSON object."))
        return content


def list_endpoints() -> list[tuple[str, str]]:
    """Those that the settings name: a page asks no address that somebody typed."""
    return [(name, f"{name} ({url})") for name, url in settings.ASSAY_ENDPOINTS.items()]


class ResponseSelectionForm(forms.Form):
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
        for name, queryset in self.list_choices(person).items():
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)
            field.queryset = queryset

    def list_choices(self, person: Person) -> Mapping[str, QuerySet[Any]]:
        """What the person may choose, by field."""
        return {
            "dataset": list_open_datasets(person),
            "collection": list_open_collections(person),
            "models": list_open_models(person),
        }


class NewRunForm(ResponseSelectionForm):
    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    scorer = ScorerField(label=gettext_lazy("Scorer"), queryset=Scorer.objects.none(), empty_label=None)

    field_order = ("name", "scorer")

    def list_choices(self, person: Person) -> Mapping[str, QuerySet[Any]]:
        return {**super().list_choices(person), "scorer": list_open_scorers(person)}


class ShareForm(forms.Form):
    note = forms.CharField(
        label=pgettext_lazy("link", "For whom"),
        max_length=MAX_NOTE_CHARACTERS,
        required=False,
        help_text=_("To tell the links apart; it does not stand on the page."),
    )
    days = forms.IntegerField(
        label=_("Valid for (days)"),
        min_value=1,
        max_value=MAX_DAYS,
        required=False,
        help_text=_("Empty: until it is revoked."),
    )
    with_published = forms.BooleanField(
        label=_("With published tables"),
        required=False,
        help_text=_("What others published stands beside the board there, too."),
    )


class PublishedDatasetForm(forms.Form):
    """Beside whose boards a table stands."""

    dataset = forms.ModelChoiceField(Dataset.objects.none(), label=_("Dataset"))

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer_datasets(self, person)


def _offer_datasets(form: forms.Form, person: Person) -> None:
    """Those that the person may read."""
    field = form.fields["dataset"]
    assert isinstance(field, forms.ModelChoiceField)
    field.queryset = list_open_datasets(person)


class PublishedForm(forms.Form):
    """``content`` is the file's text once it was looked at, so that it is sent once and kept nowhere before."""

    guideline = forms.ChoiceField(label=_("Guideline"))
    dataset = forms.ModelChoiceField(
        Dataset.objects.none(),
        label=_("Dataset"),
        help_text=_("The table is shown beside its own boards only."),
    )
    language = forms.ChoiceField(
        label=_("Language of the prompts"),
        required=False,
        help_text=_("A table of one language stands beside the prompts of that language."),
    )
    name = forms.CharField(
        label=_("Name"), max_length=MAX_NAME_CHARACTERS, help_text=_("What the table is called on boards.")
    )
    source = forms.CharField(
        label=_("Source"),
        max_length=MAX_SOURCE_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Who published it, where and when."),
    )
    url = forms.CharField(
        label=pgettext_lazy("published", "Address"),
        max_length=MAX_URL_CHARACTERS,
        required=False,
        help_text=_("Its address, beginning with https://."),
    )
    file = forms.FileField(
        label=_("File"),
        error_messages={"required": _("Choose the file with the table.")},
        max_length=255,
        help_text=_(
            "CSV or JSON in UTF-8: model, and SCOPE.METRIC for each number; SCOPE.n if it is known. At most 1 MiB."
        ),
    )
    file_name = forms.CharField(widget=forms.HiddenInput, required=False, max_length=255)
    content = forms.CharField(
        widget=forms.HiddenInput, required=False, max_length=MAX_FILE_BYTES, strip=False, empty_value=""
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer_datasets(self, person)
        languages = list_prompt_languages(list_open_datasets(person))
        language_field = self.fields["language"]
        assert isinstance(language_field, forms.ChoiceField)
        language_field.choices = [("", _("All languages")), *((name, name) for name in languages)]
        published = list_published().order_by("name")
        field = self.fields["guideline"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name) for name in published.values_list("name", flat=True).distinct()]
        self.fields["file"].required = not self.data.get("content")

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file is not None and file.size > MAX_FILE_BYTES:
            raise forms.ValidationError(_("This file is larger than 1 MiB."))
        return file

    def read_file(self) -> tuple[bytes, str]:
        """The table as it was sent, and what errors call it."""
        file = self.cleaned_data["file"]
        if file is not None:
            return file.read(), (file.name or "file")[:255]
        return self.cleaned_data["content"].encode(), self.cleaned_data["file_name"] or "file"
