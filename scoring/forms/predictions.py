"""What a trained scorer is to do with the responses of a dataset or a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.core.formatting import format_percent
from annotation.domain.batch_spec import MAX_OVERLAP, Policy
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    Dataset,
    EvaluatedModel,
    Person,
)
from annotation.selectors.access import sealed_datasets, unsealed_models
from annotation.selectors.people import list_people_in_role
from scoring.domain.calibration import COVERAGES, DEFAULT_COVERAGE, coverage_name
from scoring.services.predictions.abstention import MAX_RESPONSES


def set_choices(form: forms.Form, name: str, queryset: Any) -> None:
    """What a field that chooses one row may choose from."""
    field = form.fields[name]
    assert isinstance(field, forms.ModelChoiceField)
    field.queryset = queryset


class DatasetForm(forms.Form):
    """A dataset with responses that the person does not judge blind."""

    dataset = forms.ModelChoiceField(
        label=_("Dataset"), queryset=Dataset.objects.none(), to_field_name="name", empty_label=None
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_choices(self, "dataset", Dataset.objects.exclude(pk__in=sealed_datasets(person)).order_by("name"))


class DriftForm(forms.Form):
    """Which model that a scorer has not learned from is to be compared with those that it has."""

    model = forms.ModelChoiceField(
        label=_("Model"), queryset=EvaluatedModel.objects.none(), to_field_name="name", empty_label=None
    )

    def __init__(self, *args: Any, person: Person, learned: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_choices(self, "model", unsealed_models(person).exclude(name__in=learned).order_by("name"))

    @property
    def has_models(self) -> bool:
        field = self.fields["model"]
        assert isinstance(field, forms.ModelChoiceField)
        return bool(field.queryset)


class ScoreForm(DatasetForm):
    """Which responses a scorer is to predict."""

    models = forms.ModelMultipleChoiceField(
        label=_("Models"),
        queryset=EvaluatedModel.objects.none(),
        to_field_name="name",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen means all."),
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, person=person, **kwargs)
        set_choices(self, "models", unsealed_models(person).order_by("name"))


class AbstainedForm(DatasetForm):
    """Which responses a scorer abstains from: of a dataset, at a coverage."""

    coverage = forms.TypedChoiceField(
        label=_("Coverage"),
        choices=[(coverage_name(share), format_percent(share, 0)) for share in COVERAGES],
        coerce=float,
        initial=coverage_name(DEFAULT_COVERAGE),
    )


class AbstainedBatchForm(forms.Form):
    """The batch that is made of them: its name, its size and its people."""

    name = forms.CharField(label=_("Name of the batch"), max_length=100)
    most = forms.IntegerField(
        label=_("At most"),
        min_value=1,
        max_value=MAX_RESPONSES,
        initial=MAX_RESPONSES,
        help_text=_("The number of responses, beginning with those that the scorer is least sure of."),
    )
    overlap = forms.IntegerField(
        label=_("Overlap"),
        min_value=1,
        max_value=MAX_OVERLAP,
        initial=2,
        help_text=_("Annotations per response, by different people."),
    )
    annotators = forms.ModelMultipleChoiceField(
        label=_("Annotators"),
        queryset=Person.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("At least as many as the overlap; they share the tasks among them."),
    )
    adjudicators = forms.ModelMultipleChoiceField(
        label=_("Adjudicators"),
        queryset=Person.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("They decide where annotators differ, and never their own items."),
    )

    def __init__(self, *args: Any, number: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_choices(self, "annotators", list_people_in_role(ANNOTATOR))
        set_choices(self, "adjudicators", list_people_in_role(ADJUDICATOR))
        if number is not None:
            self.fields["most"].initial = min(MAX_RESPONSES, number)

    def options(self) -> dict[str, Any]:
        """What ``batch_of_abstained`` takes beside the scorer, the dataset and the coverage."""
        data = self.cleaned_data
        return {
            "name": data["name"],
            "limit": data["most"],
            "annotators": list(data["annotators"]),
            "adjudicators": list(data["adjudicators"]),
            "policy": Policy(overlap=data["overlap"]),
        }


class AbstainedMixForm(AbstainedBatchForm):
    """The same with a share of responses that chance draws, which alone can be weighed."""

    random_share = forms.TypedChoiceField(
        label=_("Random share"),
        choices=[("0.25", format_percent(0.25, 0)), ("0.5", format_percent(0.5, 0)), ("0", _("none"))],
        coerce=float,
        required=False,
        initial="0.25",
        help_text=_(
            "Of the batch, drawn from all responses. The least sure ones have no chance to weigh by: without a random "
            "share, their labels tell nothing of the others."
        ),
    )

    def options(self) -> dict[str, Any]:
        return {**super().options(), "random_share": self.cleaned_data["random_share"] or 0.0}
