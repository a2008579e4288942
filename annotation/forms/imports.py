"""What an upload needs to know, beside the file: what it is, and where it goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

from django import forms
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from annotation.domain.batch_spec import MAX_OVERLAP
from annotation.domain.formats import ANNOTATIONS, FORMATS, PROMPTS, RESPONSES, table
from annotation.domain.formats.bundle import BundleManifest
from annotation.domain.formats.mapping.mapping import LABEL, LEFT_OUT, list_fields
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.releases.origins import MAX_PROTOCOL_CHARACTERS
from annotation.domain.texts.personal_data import FIND, MASK
from annotation.forms.batches.collection import USUAL_COLLECTION, CollectionPolicyForm, add_usual
from annotation.forms.fields import StudyChoiceField
from annotation.models import Batch, Dataset, Guideline, Import
from annotation.selectors.datasets import list_own_datasets
from annotation.selectors.guidelines import choose_language, list_published, to_language
from annotation.selectors.imports.uploads import FIELD_NAMES, Column
from annotation.services.imports import BundleNames

MAX_NAME_CHARACTERS = 100
SETTLING_FIELDS = ("settling", "aggregation", "aggregation_threshold", "tolerance")


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
    """``kind`` and ``dataset`` are there where a page led on to this one."""

    file = forms.FileField(
        label=_("File"),
        help_text=_(
            "Prompts, responses, or people's labels: a spreadsheet (.xlsx), CSV, JSON, Parquet, JSON of Label Studio;"
            " or a bundle."
        ),
    )
    kind = forms.ChoiceField(choices=Import.Kind.choices, required=False, widget=forms.HiddenInput)
    dataset = forms.CharField(max_length=MAX_NAME_CHARACTERS, required=False, widget=forms.HiddenInput)


FORMAT_NAMES = {
    table.NAME: _("any table"),
}
ENCODINGS = ("utf-8", "gb18030", "big5", "utf-16", "shift_jis", "euc_jp", "windows-1252")


class ImportKindForm(forms.Form):
    kind = forms.ChoiceField(label=_("It holds"), choices=Import.Kind.choices)
    format = forms.ChoiceField(
        label=_("Format"),
        choices=[
            (name, FORMAT_NAMES.get(name, name))
            for name in sorted(FORMATS, key=lambda name: name != table.NAME)
        ],
    )
    sheet = forms.CharField(label=_("Sheet"), required=False, widget=forms.HiddenInput)
    encoding = forms.ChoiceField(
        label=_("Encoding"),
        required=False,
        choices=[("", _("as the bytes show it")), *((name, name.upper()) for name in ENCODINGS)],
    )

    def offer_sheets(self, sheets: Sequence[str]) -> None:
        """Where there are several to choose from."""
        if len(sheets) > 1:
            choices = [(sheet, sheet) for sheet in sheets]
            self.fields["sheet"] = forms.ChoiceField(label=_("Sheet"), required=False, choices=choices)


def list_field_choices(kind: str, columns: Iterable[Column], document: GuidelineDocument | None) -> list[Any]:
    """What a column can be: not used, a field, or the labels of a criterion."""
    fields = [(name, FIELD_NAMES[name]) for name in list_fields(kind)]
    criteria = list(document.criteria) if document is not None and kind == ANNOTATIONS else []
    language = choose_language(document, get_language() or "en") if document is not None else ""
    labels = {f"{LABEL}{criterion.name}": to_language(criterion.label, language) for criterion in criteria}
    labels |= {
        column.field: column.field.removeprefix(LABEL)
        for column in columns
        if column.field.startswith(LABEL) and column.field not in labels
    }
    named = [(name, _("label: %(criterion)s") % {"criterion": label}) for name, label in labels.items()]
    return [("", _("not used")), *fields, *named, (LEFT_OUT, FIELD_NAMES[LEFT_OUT])]


class ColumnsForm(forms.Form):
    """The field of each column of a table. The selects belong to the form of the target, where they are sent."""

    def __init__(
        self, kind: str, columns: Sequence[Column], document: GuidelineDocument | None, *args: Any
    ) -> None:
        super().__init__(*args)
        self._columns = columns
        choices = list_field_choices(kind, columns, document)
        for place, column in enumerate(columns):
            field = forms.ChoiceField(
                label=column.name, required=False, choices=choices, initial=column.field
            )
            field.widget.attrs |= {"form": "import-form"}
            self.fields[column_name(place)] = field

    @property
    def rows(self) -> list[tuple[Column, forms.BoundField]]:
        return [(column, self[column_name(place)]) for place, column in enumerate(self._columns)]


def column_name(place: int) -> str:
    return f"column-{place}"


def read_choices(data: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """The field of each column, as the selects were sent; empty where none were."""
    if column_name(0) not in data:
        return {}
    return {column: data.get(column_name(place), "") for place, column in enumerate(columns)}


def build_guideline_field() -> StudyChoiceField:
    return StudyChoiceField(
        list_published,
        label=_("Guideline"),
        required=False,
        empty_label=_("none: dimensions are not checked"),
        help_text=_(
            "Dimensions and subcomponents that it does not know are refused, with the nearest that it has."
        ),
    )


def build_personal_data_field() -> forms.ChoiceField:
    return forms.ChoiceField(
        label=_("Personal data in the texts"),
        required=False,
        choices=[
            ("", _("taken as it is")),
            (FIND, _("counted and shown")),
            (MASK, _("replaced by placeholders, such as [email 1]")),
        ],
        help_text=_(
            "Found by their form: e-mail addresses, phone numbers, resident identity numbers of China, bank cards,"
            " IBAN, public IP addresses. Names and postal addresses are not found. Of a file that is masked the file"
            " itself is deleted after the import."
        ),
    )


class TargetForm(forms.Form):
    """``known`` are the suggestions for each field, shown as a datalist."""

    known: dict[str, list[str]]
    needs_dataset: ClassVar[bool] = False
    """Whether what is imported belongs to a dataset that is there already."""

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
    guideline = build_guideline_field()
    personal_data = build_personal_data_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.suggest("dataset", list_own_datasets().values_list("name", flat=True))


class ImportResponsesForm(TargetForm):
    needs_dataset = True

    dataset = StudyChoiceField(list_own_datasets, to_field_name="name", label=_("Dataset"), empty_label=None)
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
    guideline = build_guideline_field()
    personal_data = build_personal_data_field()


class ResponsesWithPromptsForm(ImportResponsesForm):
    """A file that brings the prompts of its responses along may make its dataset."""

    needs_dataset = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["dataset"] = deepcopy(PromptsForm.base_fields["dataset"])
        self.suggest("dataset", list_own_datasets().values_list("name", flat=True))


class ChosenWordsField(forms.MultipleChoiceField):
    """What is ticked of words that a file holds: whatever was offered on the page that was sent."""

    widget = forms.CheckboxSelectMultiple

    def valid_value(self, _value: str) -> bool:
        return True


class AnnotationsForm(CollectionPolicyForm, TargetForm):
    """``collection_fields`` are of the batch that the import makes; of one that is there they stay as they are."""

    batch = forms.CharField(
        label=_("Batch"),
        max_length=MAX_NAME_CHARACTERS,
        help_text=_(
            "An existing one, or a new name with the guideline and the dataset to make it of. Labels of people who"
            " can work here need a new one."
        ),
    )
    guideline = StudyChoiceField(list_published, label=_("Guideline"), required=False)
    dataset = forms.CharField(
        label=_("Dataset"),
        max_length=MAX_NAME_CHARACTERS,
        required=False,
        help_text=_("For a new batch. It may be new where the table has the prompts and the responses too."),
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
    leave_out = ChosenWordsField(
        label=_("Leave out"),
        required=False,
        help_text=_("The guideline has no criterion of these names; without a tick the file is refused."),
    )
    overlap = forms.IntegerField(
        label=_("Overlap"),
        min_value=1,
        max_value=MAX_OVERLAP,
        required=False,
        help_text=_(
            "Annotations per response. Empty: as many as this file has of a response, and two at least; of an open"
            " plan one at least."
        ),
    )
    field_order = ("batch", "guideline", "dataset", "model", "leave_out", "without_final", "protocol")

    def __init__(self, data: Any = None, **kwargs: Any) -> None:
        super().__init__(add_usual(data, USUAL_COLLECTION), **kwargs)
        self.suggest("dataset", list_own_datasets().values_list("name", flat=True))
        self.suggest("batch", Batch.objects.exclude(state="closed").values_list("name", flat=True))

    def offer_left_out(self, words: Sequence[str]) -> None:
        """To be left out; there is nothing to choose from where there are none."""
        if not words:
            self.fields.pop("leave_out", None)
            return
        field = self.fields["leave_out"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(word, word) for word in words]

    @property
    def target_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name not in CollectionPolicyForm.base_fields]

    @property
    def collection_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("plan", "overlap", *SETTLING_FIELDS)]

    @property
    def has_own_collection(self) -> bool:
        """Whether something of it is not as usual, or wrong."""
        return any(
            field.errors or str(field.value() or "") != str(USUAL_COLLECTION.get(field.name) or "")
            for field in self.collection_fields
        )


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


def get_target_form(kind: str, *, brings_prompts: bool) -> type[TargetForm]:
    return ResponsesWithPromptsForm if brings_prompts else TARGETS[kind]


def build_initial(target: Mapping[str, Any]) -> dict[str, Any]:
    """What ``list_options`` made of a form, for a form to show."""
    initial = dict(target)
    name, _at, version = str(target.get("guideline") or "").partition("@")
    initial["guideline"] = Guideline.objects.filter(name=name, version=version).first()
    return initial


def list_stated(form: TargetForm) -> dict[str, Any]:
    """The target as it stands in the form, as far as it is right."""
    if not form.is_bound:
        return {name: str(value) for name, value in form.initial.items() if value}
    form.is_valid()
    return list_options(form)


def list_options(form: TargetForm) -> dict[str, Any]:
    """The checked values as names, which is what commands and rows keep."""
    return {
        name: str(value) if isinstance(value, Dataset | Guideline) else value
        for name, value in form.cleaned_data.items()
        if name != "leave_out"  # of how the file is read, not of where it goes
    }
