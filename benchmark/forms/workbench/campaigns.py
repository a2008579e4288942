"""A new campaign, by a guideline that was chosen before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.names import check_name
from annotation.domain.guidelines import GuidelineDocument
from annotation.forms.batches.batches import people_field
from annotation.models import Dataset, Guideline, Person
from annotation.selectors.datasets import list_own_datasets
from annotation.selectors.guidelines import criterion_label, level_text
from benchmark.domain.llm_client.settings import MAX_INTEGER
from benchmark.domain.workbench.campaigns import (
    MAX_WANTED,
    CampaignSpec,
    QuotaSpec,
    check_success,
    default_success,
)
from benchmark.domain.workbench.duplicates import DEFAULT_THRESHOLDS
from benchmark.forms.workbench.members import list_prompt_people, offer_people
from benchmark.forms.workbench.quotas import Places, QuotaTableForm, build_quota_spec
from benchmark.forms.workbench.targets import TargetFormSet
from benchmark.models import Campaign
from benchmark.selectors.leaderboards.runs import list_open_datasets

USUAL_NUMBER = 5
SHOWN_TARGETS = 2
MAX_LANGUAGE_CHARACTERS = 20
MAX_DISCLOSURE_CHARACTERS = 8000
LEVELS = "success"
THRESHOLDS, COSINE = ("warn_jaccard", "block_jaccard", "warn_edit", "block_edit"), "warn_cosine"
FOLDS: Mapping[str, frozenset[str]] = {"duplicates": frozenset({*THRESHOLDS, COSINE})}
"""The fields of each folded part of the form."""
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


def list_campaign_datasets(person: Person) -> QuerySet[Dataset]:
    """Those to which accepted prompts may be added."""
    return list_open_datasets(person) & list_own_datasets()


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
        places: Places,
        methods: Sequence[tuple[str, str]],
    ) -> None:
        super().__init__(data, places=places, methods=methods, numbers={})
        self.guideline = guideline
        document = guideline.document
        self._add_levels(document)
        dataset = self.fields["dataset"]
        assert isinstance(dataset, forms.ModelChoiceField)
        dataset.queryset = list_campaign_datasets(person)
        self.fields["languages"].initial = ", ".join(document.languages)
        for name in ("authors", "reviewers"):
            offer_people(self, name, list_prompt_people())
        if not settings.ASSAY_ENCODER:
            del self.fields[COSINE]
        self.targets = TargetFormSet(data, prefix="target")

    def _add_levels(self, document: GuidelineDocument) -> None:
        default_levels = default_success(document)
        criteria_by_dimension = [document.countable_for(name) for name in document.dimension_names or (None,)]
        required_names = {criteria[0].name for criteria in criteria_by_dimension if len(criteria) == 1}
        self.level_names = [criterion.name for criterion in document.countable_criteria]
        for criterion in document.countable_criteria:
            self.fields[f"{LEVELS}-{criterion.name}"] = forms.MultipleChoiceField(
                required=criterion.name in required_names,
                error_messages={"required": _("Choose at least one level.")},
                label=criterion_label(document, criterion.name),
                choices=[(f"{value:g}", level_text(criterion, value)) for value in criterion.values],
                initial=[f"{value:g}" for value in default_levels.get(criterion.name, ())],
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
        return [self[name] for name in (*THRESHOLDS, COSINE) if name in self.fields]

    @property
    def open_folds(self) -> set[str]:
        """The folded parts in which something is wrong."""
        return {name for name, fields in FOLDS.items() if fields & self.errors.keys()}

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
        if not languages or any(len(language) > MAX_LANGUAGE_CHARACTERS for language in languages):
            raise ValidationError(_("Name the languages with commas between them, such as zh, en."))
        return languages

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        self._check_thresholds(data)
        people_of_both = set(data.get("authors", ())) & set(data.get("reviewers", ()))
        if people_of_both:
            names = ", ".join(sorted(map(str, people_of_both)))
            self.add_error(
                "reviewers", _("These are named as authors and as reviewers: {names}.").format(names=names)
            )
        if "number" in data and not self.has_cell_errors and not self._list_quotas():
            self.add_error("number", _("Want at least one prompt of some cell."))
        if not any(name.startswith(f"{LEVELS}-") for name in self.errors):
            try:
                check_success(self._read_success(), self.guideline.document)
            except AssayError as error:
                first_field = f"{LEVELS}-{self.level_names[0]}" if self.level_names else None
                self.add_error(first_field, error_text(error))
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
        default_number, per_person = self.cleaned_data["number"], self.cleaned_data.get("per_person")
        numbers = {
            cell: default_number if number is None else number for cell, number in self.list_numbers().items()
        }
        return tuple(build_quota_spec(cell, number, per_person) for cell, number in numbers.items() if number)

    def build_spec(self) -> CampaignSpec:
        """Of a form that is valid. Raises AssayError where its parts do not fit."""
        data = self.cleaned_data
        names = (
            "name",
            "dataset",
            "languages",
            "is_blind",
            "requests_per_person",
            "max_requests",
            *THRESHOLDS,
        )
        disclosure = {
            language: data[f"disclosure_{language}"].replace("\r\n", "\n") for language in DISCLOSURE
        }
        return CampaignSpec(
            guideline=self.guideline.pk,
            targets=tuple(form.build_spec() for form in self.targets if form.has_changed()),
            quotas=self._list_quotas(),
            success=self._read_success(),
            disclosure={language: text for language, text in disclosure.items() if text.strip()},
            authors=tuple(person.pk for person in data["authors"]),
            reviewers=tuple(person.pk for person in data["reviewers"]),
            warn_cosine=data.get(COSINE),
            **{name: data[name] for name in names},
        )
