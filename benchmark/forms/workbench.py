"""What the managers' pages of campaigns take in: a new campaign, its quotas, its people, its batch, and the methods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.names import check_name
from annotation.domain.batch_spec import USUAL_POLICY, Policy
from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.forms.batches.batches import people_field
from annotation.models import ADJUDICATOR, ANNOTATOR, Batch, Dataset, Guideline, Person
from annotation.selectors.datasets import list_own_datasets
from annotation.selectors.guidelines import level_text
from annotation.selectors.people import list_people_in_role
from benchmark.domain.llm_client.settings import MAX_INTEGER
from benchmark.domain.workbench.campaigns import (
    MAX_TARGETS,
    MAX_WANTED,
    CampaignSpec,
    QuotaSpec,
    TargetSpec,
    check_success,
    default_success,
)
from benchmark.domain.workbench.duplicates import DEFAULT_THRESHOLDS
from benchmark.forms.leaderboards import list_endpoints
from benchmark.models import AttackMethod, Campaign, CampaignMember, Quota
from benchmark.selectors.leaderboards.runs import list_open_datasets
from benchmark.services.endpoint_runs import MAX_MODEL_CHARACTERS
from benchmark.services.workbench.campaigns import MAX_METHOD_CHARACTERS

USUAL_NUMBER = 5
MAX_OVERLAP = 10
SHOWN_TARGETS = 2
MAX_DISCLOSURE_CHARACTERS = 8000
CELL, LEVELS = "cell", "success"
LANGUAGES = (("zh", gettext_lazy("In Chinese")), ("en", gettext_lazy("In English")))
THRESHOLDS = ("warn_jaccard", "block_jaccard", "warn_edit", "block_edit")
DISCLOSURE: Mapping[str, str] = {
    "zh": (
        "您将在这里撰写可能有害的提示，并阅读模型对它们的回答。其中可能有歧视、侮辱、暴力、自我伤害、违法行为和他人隐私等内容，"
        "有些会令人不适。页面会标明每个维度的严重程度。\n\n"
        "您可以随时停下，不必说明理由；已提交的内容会保留。您可以在设置中选择不接触某些主题，也可以让文字先模糊显示。\n\n"
        "只有管理员知道哪条提示是谁写的。审核员看不到作者的姓名，导出的文件里只有化名。"
        "请不要写入真实个人的信息，也不要把这里的内容带到别处使用。"
    ),
    "en": (
        "You will write prompts that may be harmful here, and read what models answer to them. There can be"
        " discrimination, insults, violence, self-harm, unlawful acts and private facts of people in them, and some"
        " of it is hard to read. The page says how severe each dimension is.\n\n"
        "You may stop at any time, without a reason; what you have submitted stays. In your settings you can opt out of"
        " topics, and have texts blurred until you open them.\n\n"
        "Nobody but the managers knows who wrote which prompt. Reviewers do not see who the author is, and exported"
        " files have pseudonyms. Do not write facts of real people, and do not use what you read here anywhere else."
    ),
}
"""What an author reads before joining, unless the manager writes something else; by language, whatever the page's."""


def list_prompt_people() -> QuerySet[Person]:
    """Whoever may write or review prompts in the study."""
    annotators, adjudicators = list_people_in_role(ANNOTATOR), list_people_in_role(ADJUDICATOR)
    return Person.objects.filter(
        Q(pk__in=annotators.values("pk")) | Q(pk__in=adjudicators.values("pk"))
    ).order_by("username")


def offer_people(form: forms.Form, name: str, people: QuerySet[Person]) -> None:
    field = form.fields[name]
    assert isinstance(field, forms.ModelMultipleChoiceField)
    field.queryset = people


@dataclass(frozen=True)
class TableRow:
    """A row of the table of quotas. ``opens_group``: it is the first of several of its dimension."""

    dimension: str
    opens_group: bool
    label: str
    cells: tuple[forms.BoundField, ...]


class QuotaTableForm(forms.Form):
    """A number for each place of the guideline and each method, in fields named by the place's and method's order."""

    per_person = forms.IntegerField(
        label=gettext_lazy("Most of a cell by one person"),
        min_value=1,
        max_value=MAX_WANTED,
        required=False,
        help_text=gettext_lazy("So that no cell is one person's style. Empty: no limit."),
    )

    def add_cells(
        self,
        document: GuidelineDocument,
        methods: Sequence[tuple[str, str]],
        language: str,
        numbers: Mapping[tuple[str, str, str], int],
    ) -> None:
        """``methods`` are (name, label) each; ``numbers`` what stands in a cell before anybody types."""
        self.document, self.methods = document, methods
        self.places = list_quota_places(document, language)
        for row, place in enumerate(self.places):
            for column, (method, label) in enumerate(methods):
                words = " / ".join(filter(None, (place.dimension_label, place.subcomponent_label, label)))
                self.fields[f"{CELL}-{row}-{column}"] = forms.IntegerField(
                    label=words,
                    min_value=0,
                    max_value=MAX_WANTED,
                    required=False,
                    initial=numbers.get((place.dimension, place.subcomponent, method)),
                    widget=forms.NumberInput(attrs={"aria-label": words, "inputmode": "numeric"}),
                )

    @property
    def table(self) -> list[TableRow]:
        dimensions = [place.dimension for place in self.places]
        return [
            TableRow(
                dimension=place.dimension_label,
                opens_group=bool(place.subcomponent) and place.dimension not in dimensions[:row],
                label=place.subcomponent_label or place.dimension_label or "-",
                cells=tuple(self[f"{CELL}-{row}-{column}"] for column in range(len(self.methods))),
            )
            for row, place in enumerate(self.places)
        ]

    @property
    def method_labels(self) -> list[str]:
        return [label for _name, label in self.methods]

    @property
    def has_subcomponents(self) -> bool:
        return any(place.subcomponent for place in self.places)

    @property
    def has_cell_errors(self) -> bool:
        return any(name.startswith(f"{CELL}-") for name in self.errors)

    def list_numbers(self) -> dict[tuple[str, str, str], int | None]:
        """By cell; None where nothing was typed."""
        return {
            (place.dimension, place.subcomponent, method): self.cleaned_data.get(f"{CELL}-{row}-{column}")
            for row, place in enumerate(self.places)
            for column, (method, _label) in enumerate(self.methods)
        }


@dataclass(frozen=True)
class QuotaPlace:
    dimension: str
    subcomponent: str
    dimension_label: str
    subcomponent_label: str


def list_quota_places(document: GuidelineDocument, language: str) -> list[QuotaPlace]:
    """The places that a quota can be of, in the guideline's order; one without a name where it has no dimensions."""
    places = [
        QuotaPlace(
            dimension.name,
            part.name if part else "",
            localize(dimension.label, language),
            localize(part.label, language) if part else "",
        )
        for dimension in document.dimensions
        for part in (dimension.subcomponents or (None,))
    ]
    return places or [QuotaPlace("", "", "", "")]


class CampaignForm(QuotaTableForm):
    """A new campaign by a guideline that was chosen before."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        help_text=gettext_lazy("It is used in addresses and commands."),
    )
    dataset = forms.ModelChoiceField(
        label=gettext_lazy("Dataset"),
        queryset=Dataset.objects.none(),
        empty_label=None,
        help_text=gettext_lazy(
            "Accepted prompts are added to it, and proposals are held against what it has already."
        ),
    )
    languages = forms.CharField(
        label=gettext_lazy("Languages of the prompts"),
        max_length=100,
        help_text=gettext_lazy("With commas between them, such as zh, en."),
    )
    is_blind = forms.BooleanField(
        label=gettext_lazy("Targets are blind"),
        required=False,
        help_text=gettext_lazy(
            "Authors and reviewers know the targets as A, B and so on until the campaign is closed."
        ),
    )
    number = forms.IntegerField(
        label=gettext_lazy("Prompts wanted of every cell"),
        min_value=0,
        max_value=MAX_WANTED,
        initial=USUAL_NUMBER,
        help_text=gettext_lazy("It holds wherever the table is empty; 0 in the table wants none of a cell."),
    )
    authors = people_field(gettext_lazy("Authors"), gettext_lazy("They write the prompts."))
    reviewers = people_field(
        gettext_lazy("Reviewers"),
        gettext_lazy("At least two: where a reviewer differs from the author, a third person decides."),
    )
    requests_per_person = forms.IntegerField(
        label=gettext_lazy("Requests of one person"),
        min_value=1,
        max_value=MAX_INTEGER,
        required=False,
        help_text=gettext_lazy("Answers of targets, each counted; empty: no limit."),
    )
    max_requests = forms.IntegerField(
        label=gettext_lazy("Requests in all"),
        min_value=1,
        max_value=MAX_INTEGER,
        required=False,
        help_text=gettext_lazy("What fails is not counted; empty: no limit."),
    )
    warn_jaccard = forms.FloatField(
        label=gettext_lazy("Shared pieces: warn from"),
        initial=DEFAULT_THRESHOLDS.warn_jaccard,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    block_jaccard = forms.FloatField(
        label=gettext_lazy("Shared pieces: block from"),
        initial=DEFAULT_THRESHOLDS.block_jaccard,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    warn_edit = forms.FloatField(
        label=gettext_lazy("Same characters: warn from"),
        initial=DEFAULT_THRESHOLDS.warn_edit,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    block_edit = forms.FloatField(
        label=gettext_lazy("Same characters: block from"),
        initial=DEFAULT_THRESHOLDS.block_edit,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    warn_cosine = forms.FloatField(
        label=gettext_lazy("Same meaning: warn from"),
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=gettext_lazy(
            "The cosine of two texts by the encoder that the settings name. Reviewers and the author see the texts at"
            " or above it; nothing is blocked. Empty: texts are not compared by meaning."
        ),
    )
    disclosure_zh = forms.CharField(
        label=gettext_lazy("In Chinese"),
        max_length=MAX_DISCLOSURE_CHARACTERS,
        required=False,
        initial=DISCLOSURE["zh"],
        widget=forms.Textarea(attrs={"rows": 7, "lang": "zh"}),
    )
    disclosure_en = forms.CharField(
        label=gettext_lazy("In English"),
        max_length=MAX_DISCLOSURE_CHARACTERS,
        required=False,
        initial=DISCLOSURE["en"],
        widget=forms.Textarea(attrs={"rows": 7, "lang": "en"}),
    )

    def __init__(
        self,
        data: Any = None,
        *,
        person: Person,
        guideline: Guideline,
        methods: Sequence[tuple[str, str]],
        language: str,
    ) -> None:
        super().__init__(data)
        self.guideline = guideline
        document = guideline.document
        self.add_cells(document, methods, language, {})
        self._add_levels(document, language)
        dataset = self.fields["dataset"]
        assert isinstance(dataset, forms.ModelChoiceField)
        dataset.queryset = list_open_datasets(person) & list_own_datasets()
        self.fields["languages"].initial = ", ".join(document.languages)
        for name in ("authors", "reviewers"):
            offer_people(self, name, list_prompt_people())
        if not settings.ASSAY_ENCODER:
            del self.fields["warn_cosine"]
        self.targets = TargetFormSet(data, prefix="target")

    def _add_levels(self, document: GuidelineDocument, language: str) -> None:
        usual = default_success(document)
        criteria_by_dimension = [document.countable_for(name) for name in document.dimension_names or (None,)]
        needed = {criteria[0].name for criteria in criteria_by_dimension if len(criteria) == 1}
        self.level_names = [criterion.name for criterion in document.countable_criteria]
        for criterion in document.countable_criteria:
            self.fields[f"{LEVELS}-{criterion.name}"] = forms.MultipleChoiceField(
                required=criterion.name in needed,
                error_messages={"required": _("Choose at least one level.")},
                label=localize(criterion.label, language),
                choices=[(f"{value:g}", level_text(criterion, value)) for value in criterion.values],
                initial=[f"{value:g}" for value in usual.get(criterion.name, ())],
                widget=forms.CheckboxSelectMultiple,
            )

    @property
    def level_fields(self) -> list[forms.BoundField]:
        return [self[f"{LEVELS}-{name}"] for name in self.level_names]

    @property
    def first_targets(self) -> list[tuple[str, forms.Form]]:
        return self._letter_targets()[:SHOWN_TARGETS]

    @property
    def more_targets(self) -> list[tuple[str, forms.Form]]:
        return self._letter_targets()[SHOWN_TARGETS:]

    @property
    def has_more_targets(self) -> bool:
        return any(form.has_changed() or form.errors for _letter, form in self.more_targets)

    def _letter_targets(self) -> list[tuple[str, forms.Form]]:
        return [(chr(ord("A") + number), form) for number, form in enumerate(self.targets.forms)]

    @property
    def threshold_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in (*THRESHOLDS, "warn_cosine") if name in self.fields]

    @property
    def open_folds(self) -> set[str]:
        """The folded parts in which something is wrong."""
        return {"duplicates"} if {*THRESHOLDS, "warn_cosine"} & self.errors.keys() else set()

    def is_valid(self) -> bool:
        return bool(super().is_valid() & self.targets.is_valid())

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            check_name(name)
        except AssayError as error:
            raise ValidationError(error_text(error)) from error
        if Campaign.objects.filter(name=name).exists():
            raise ValidationError(_("There is already a campaign of this name."))
        return name

    def clean_languages(self) -> tuple[str, ...]:
        languages = tuple(filter(None, re.split(r"[\s,，、;；]+", self.cleaned_data["languages"])))
        if not languages or any(len(language) > 20 for language in languages):
            raise ValidationError(_("Name the languages with commas between them, such as zh, en."))
        return languages

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        self._check_thresholds(data)
        both = set(data.get("authors", ())) & set(data.get("reviewers", ()))
        if both:
            names = ", ".join(sorted(map(str, both)))
            self.add_error(
                "reviewers", _("These are named as authors and as reviewers: {names}.").format(names=names)
            )
        if "number" in data and not self.has_cell_errors and not self._list_quotas():
            self.add_error("number", _("Want at least one prompt of some cell."))
        if not any(name.startswith(f"{LEVELS}-") for name in self.errors):
            try:
                check_success(self._read_success(), self.guideline.document)
            except AssayError as error:
                first = f"{LEVELS}-{self.level_names[0]}" if self.level_names else None
                self.add_error(first, error_text(error))
        return data

    def clean_warn_cosine(self) -> float | None:
        cosine: float | None = self.cleaned_data["warn_cosine"]
        if cosine is not None and not 0 < cosine <= 1:
            raise ValidationError(_("It is above 0 and at most 1."))
        return cosine

    def _check_thresholds(self, data: Mapping[str, Any]) -> None:
        for warn, block in (("warn_jaccard", "block_jaccard"), ("warn_edit", "block_edit")):
            if warn in data and block in data and not 0 < data[warn] <= data[block] <= 1:
                self.add_error(warn, _("It is above 0 and at most the one that blocks, which is at most 1."))

    def _read_success(self) -> dict[str, tuple[float, ...]]:
        levels = {
            name: tuple(float(value) for value in self.cleaned_data.get(f"{LEVELS}-{name}", ()))
            for name in self.level_names
        }
        return {name: values for name, values in levels.items() if values}

    def _list_quotas(self) -> tuple[QuotaSpec, ...]:
        usual, per_person = self.cleaned_data["number"], self.cleaned_data.get("per_person")
        numbers = {cell: usual if number is None else number for cell, number in self.list_numbers().items()}
        return tuple(build_quota_spec(cell, number, per_person) for cell, number in numbers.items() if number)

    def build_spec(self) -> CampaignSpec:
        """Of a form that is valid. Raises AssayError where its parts do not fit."""
        data = self.cleaned_data
        own = (
            *("name", "dataset", "languages", "is_blind", "requests_per_person", "max_requests"),
            *THRESHOLDS,
        )
        texts = {language: data[f"disclosure_{language}"].replace("\r\n", "\n") for language, _l in LANGUAGES}
        return CampaignSpec(
            guideline=self.guideline.pk,
            targets=tuple(form.build_spec() for form in self.targets if form.has_changed()),
            quotas=self._list_quotas(),
            success=self._read_success(),
            disclosure={language: text for language, text in texts.items() if text.strip()},
            authors=tuple(person.pk for person in data["authors"]),
            reviewers=tuple(person.pk for person in data["reviewers"]),
            warn_cosine=data.get("warn_cosine"),
            **{name: data[name] for name in own},
        )


def build_quota_spec(cell: tuple[str, str, str], number: int, per_person: int | None) -> QuotaSpec:
    dimension, subcomponent, method = cell
    return QuotaSpec(
        dimension=dimension, subcomponent=subcomponent, method=method, wanted=number, per_person=per_person
    )


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
            name = form.cleaned_data.get("model") if hasattr(form, "cleaned_data") else None
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


class CampaignQuotaForm(QuotaTableForm):
    """The quotas of a campaign as they are, to be changed. A cell that is in it stays in it."""

    def __init__(
        self,
        data: Any = None,
        *,
        campaign: Campaign,
        methods: Sequence[tuple[str, str]],
        language: str,
    ) -> None:
        super().__init__(data)
        self.quotas = {
            (quota.dimension, quota.subcomponent, quota.method.name): quota
            for quota in Quota.objects.filter(campaign=campaign).select_related("method")
        }
        numbers = {cell: quota.wanted for cell, quota in self.quotas.items()}
        self.add_cells(campaign.guideline.document, methods, language, numbers)
        limits = {quota.per_person for quota in self.quotas.values()}
        self.fields["per_person"].initial = limits.pop() if len(limits) == 1 else None

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for row, place in enumerate(self.places):
            for column, (method, _label) in enumerate(self.methods):
                name, cell = f"{CELL}-{row}-{column}", (place.dimension, place.subcomponent, method)
                if cell in self.quotas and name in data and not data[name]:
                    self.add_error(
                        name, _("A cell of the campaign stays in it: 1 is the least that it wants.")
                    )
        return data

    def list_changes(self) -> list[QuotaSpec]:
        """Of the cells that differ from what they are."""
        changes = []
        limit, is_limit_changed = self.cleaned_data["per_person"], "per_person" in self.changed_data
        for cell, number in self.list_numbers().items():
            quota = self.quotas.get(cell)
            if not number:
                continue
            per_person = limit if quota is None or is_limit_changed else quota.per_person
            if quota is None or (quota.wanted, quota.per_person) != (number, per_person):
                changes.append(build_quota_spec(cell, number, per_person))
        return changes


class CampaignMembersForm(forms.Form):
    """People to add in one role."""

    people = people_field(gettext_lazy("People"))

    def __init__(self, data: Any = None, *, campaign: Campaign) -> None:
        super().__init__(data)
        self.fields["people"].required = True
        self.fields["people"].error_messages["required"] = _("Choose at least one person.")
        active = CampaignMember.objects.filter(campaign=campaign, active=True).values("person")
        offer_people(self, "people", list_prompt_people().exclude(pk__in=active))

    @property
    def has_people(self) -> bool:
        field = self.fields["people"]
        assert isinstance(field, forms.ModelMultipleChoiceField)
        return bool(field.queryset)


class CampaignBatchForm(forms.Form):
    """An ordinary batch of the answers; who wrote or reviewed in the campaign is not offered."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        help_text=gettext_lazy("It is used in addresses and commands."),
    )
    overlap = forms.IntegerField(
        label=gettext_lazy("Labels of each answer"),
        min_value=1,
        max_value=MAX_OVERLAP,
        initial=USUAL_POLICY.overlap,
        help_text=gettext_lazy("So many people label each answer without knowing of each other."),
    )
    annotators = people_field(gettext_lazy("Annotators"), gettext_lazy("At least as many as the overlap."))
    adjudicators = people_field(
        gettext_lazy("Adjudicators"), gettext_lazy("They decide where annotators differ.")
    )

    def __init__(self, data: Any = None, *, campaign: Campaign) -> None:
        super().__init__(data)
        self.fields["name"].initial = f"{campaign.name}-answers"[:100]
        members = CampaignMember.objects.filter(campaign=campaign).values("person")
        for name, role in (("annotators", ANNOTATOR), ("adjudicators", ADJUDICATOR)):
            offer_people(self, name, list_people_in_role(role).exclude(pk__in=members))
        self.fields["annotators"].required = True
        self.fields["annotators"].error_messages["required"] = _("Choose the people who label the answers.")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Batch.objects.filter(name=name).exists():
            raise ValidationError(_("There is already a batch of this name."))
        return name

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if "overlap" in data and "annotators" in data and len(data["annotators"]) < data["overlap"]:
            self.add_error("annotators", _("Choose at least as many people as the overlap."))
        return data

    def build_policy(self) -> Policy:
        return USUAL_POLICY.model_copy(update={"overlap": self.cleaned_data["overlap"]})


class MethodForm(forms.Form):
    """An attack method: its texts in both languages. The name is kept by prompts, so it never changes."""

    name = forms.CharField(
        label=pgettext_lazy("of a method", "Name"),
        max_length=100,
        help_text=gettext_lazy("In files and commands; it never changes. Such as role_play."),
    )
    label_zh = forms.CharField(
        label=gettext_lazy("Label in Chinese"),
        max_length=100,
        required=False,
        widget=forms.TextInput({"lang": "zh"}),
    )
    label_en = forms.CharField(label=gettext_lazy("Label in English"), max_length=100, required=False)
    definition_zh = forms.CharField(
        label=gettext_lazy("Definition in Chinese"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "lang": "zh"}),
    )
    definition_en = forms.CharField(
        label=gettext_lazy("Definition in English"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    examples_zh = forms.CharField(
        label=gettext_lazy("Examples in Chinese"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "lang": "zh"}),
        help_text=gettext_lazy("One in each line."),
    )
    examples_en = forms.CharField(
        label=gettext_lazy("Examples in English"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("One in each line."),
    )

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        if not name.isprintable():
            raise ValidationError(_("A name has no line breaks and no invisible characters."))
        return name

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for part, words in (
            ("label", _("Give a label in at least one language.")),
            ("definition", _("Give a definition in at least one language.")),
        ):
            names = [f"{part}_{language}" for language, _label in LANGUAGES]
            if not any(data.get(name) for name in names) and not set(names) & self.errors.keys():
                self.add_error(names[0], words)
        return data

    def read_texts(self, part: str) -> dict[str, str]:
        """By language; ``part`` is label, definition or examples."""
        data = self.cleaned_data
        return {language: data[f"{part}_{language}"].replace("\r\n", "\n") for language, _l in LANGUAGES}


def method_to_fields(method: AttackMethod) -> dict[str, str]:
    """What ``MethodForm`` begins with."""
    parts: Iterable[tuple[str, Mapping[str, str]]] = (
        ("label", method.label),
        ("definition", method.definition),
        ("examples", method.examples),
    )
    return {"name": method.name} | {
        f"{part}_{language}": words.get(language, "") for part, words in parts for language, _l in LANGUAGES
    }
