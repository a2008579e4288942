"""What an upload needs to know, beside the file: what it is, and where it goes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.domain.formats import ANNOTATIONS, FORMATS, PROMPTS, RESPONSES
from annotation.domain.formats.bundle import BundleManifest
from annotation.domain.releases.origins import MAX_PROTOCOL_CHARACTERS
from annotation.models import Batch, Dataset, Guideline, Import
from annotation.services.imports import BundleNames

MAX_NAME_CHARACTERS = 100


def build_protocol_field() -> forms.CharField:
    return forms.CharField(
        label=_("Protocol"),
        max_length=MAX_PROTOCOL_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=_(
            "How these labels were made, in your own words: who judged, how many people, whether they knew the model or"
            " each other's labels, in which tool. Datasheets and reports quote it; empty, they say that it is not"
            " recorded."
        ),
    )


class UploadForm(forms.Form):
    file = forms.FileField(
        label=_("File"),
        help_text=_(
            "Prompts, responses, or people's labels: a spreadsheet (.xlsx), CSV, JSON, Parquet, JSON of Label Studio;"
            " or a bundle."
        ),
    )


class ImportKindForm(forms.Form):
    kind = forms.ChoiceField(label=_("It holds"), choices=Import.Kind.choices)
    format = forms.ChoiceField(label=_("Format"), choices=[(name, name) for name in FORMATS])


class TargetForm(forms.Form):
    """``known`` are the suggestions for each field, shown as a datalist."""

    known: dict[str, list[str]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = {}

    def suggest(self, name: str, values: Any) -> None:
        self.known[name] = list(values)
        self.fields[name].widget.attrs |= {"list": f"known-{name}", "autocomplete": "off"}


class PromptsForm(TargetForm):
    dataset = forms.CharField(
        label=_("Dataset"),
        max_length=MAX_NAME_CHARACTERS,
        help_text=_("An existing one, or the name of a new one."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.suggest("dataset", Dataset.objects.values_list("name", flat=True))


class ImportResponsesForm(TargetForm):
    dataset = forms.ModelChoiceField(
        Dataset.objects.all(), to_field_name="name", label=_("Dataset"), empty_label=None
    )
    model = forms.CharField(
        label=_("Model"),
        max_length=MAX_NAME_CHARACTERS,
        required=False,
        help_text=_("Whose responses these are, where the file does not say."),
    )
    collection = forms.CharField(
        label=_("Collection"),
        max_length=MAX_NAME_CHARACTERS,
        required=False,
        help_text=_("A name for this gathering, if the same model is asked the same prompts more than once."),
    )


class LogForm(ImportResponsesForm):
    """The log of a harness brings its prompts along, so that its dataset may be new."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["dataset"] = deepcopy(PromptsForm.base_fields["dataset"])
        self.suggest("dataset", Dataset.objects.values_list("name", flat=True))


class AnnotationsForm(TargetForm):
    batch = forms.CharField(
        label=_("Batch"),
        max_length=MAX_NAME_CHARACTERS,
        help_text=_(
            "An existing one, or a new name with the guideline and the dataset to make it of. Labels of people who"
            " can work here need a new one."
        ),
    )
    guideline = forms.ModelChoiceField(
        Guideline.objects.exclude(published_at=None), label=_("Guideline"), required=False
    )
    dataset = forms.ModelChoiceField(
        Dataset.objects.all(), to_field_name="name", label=_("Dataset"), required=False
    )
    model = forms.CharField(
        label=_("Model"),
        max_length=MAX_NAME_CHARACTERS,
        required=False,
        help_text=_("Whose responses were labelled, where the file does not say."),
    )
    without_final = forms.BooleanField(
        label=_("Leave final decisions out, so that disputes stay open"), required=False
    )
    protocol = build_protocol_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.suggest("batch", Batch.objects.exclude(state="closed").values_list("name", flat=True))


class BundleForm(forms.Form):
    """What the batches of a bundle are called here, and the release if it is to be kept."""

    def __init__(self, manifest: BundleManifest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names = [batch.name for batch in manifest.batches]
        for place, name in enumerate(self._names):
            self.fields[field_name(place)] = forms.CharField(
                label=_("Batch %(name)s is called here") % {"name": name},
                max_length=MAX_NAME_CHARACTERS,
                initial=name,
            )
        self.fields["release"] = forms.CharField(
            label=_("Keep the release as"),
            max_length=MAX_NAME_CHARACTERS,
            required=False,
            help_text=_("Empty: its hash is checked, and no release is kept."),
        )
        self.fields["protocol"] = build_protocol_field()

    @property
    def called(self) -> BundleNames:
        names = {name: self.cleaned_data[field_name(place)] for place, name in enumerate(self._names)}
        return BundleNames(
            {name: new for name, new in names.items() if new != name},
            self.cleaned_data["release"],
            self.cleaned_data["protocol"],
        )


def field_name(place: int) -> str:
    return f"batch-{place}"


TARGETS: dict[str, type[TargetForm]] = {
    PROMPTS: PromptsForm,
    RESPONSES: ImportResponsesForm,
    ANNOTATIONS: AnnotationsForm,
}


def get_target_form(kind: str, format_name: str) -> type[TargetForm]:
    return LogForm if kind == RESPONSES and FORMATS[format_name].is_log else TARGETS[kind]


def list_options(form: TargetForm) -> dict[str, Any]:
    """The checked values as names, which is what commands and rows keep."""
    return {
        name: str(value) if isinstance(value, Dataset | Guideline) else value
        for name, value in form.cleaned_data.items()
    }
