from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    MAX_OVERLAP,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Guideline,
    Membership,
    Person,
)
from annotation.selectors.corpus import collections_in, models_in
from annotation.selectors.people import people_in_role
from annotation.services.batches import Policy


class CollectionChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # no generic at run time
    def label_from_instance(self, obj: Any) -> str:
        return obj.name or str(_("the one without a name"))


class DateInput(forms.DateInput):
    input_type = "date"


def _many(label: Any, help_text: Any = "") -> Any:
    return forms.ModelMultipleChoiceField(
        queryset=Person.objects.none(),
        label=label,
        help_text=help_text,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )


class BatchForm(forms.Form):
    """A new batch of one dataset's responses. ``models_shown`` is False where their names are sealed."""

    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("It stands in addresses and commands.")
    )
    guideline = forms.ModelChoiceField(
        queryset=Guideline.objects.exclude(published_at=None),
        label=_("Guideline"),
        empty_label=None,
        help_text=_("Only published versions: what people judge by must not change under them."),
    )
    models = forms.ModelMultipleChoiceField(
        queryset=EvaluatedModel.objects.none(),
        label=_("Models"),
        help_text=_("None chosen means all. Annotators never see the names."),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    collection = CollectionChoice(
        queryset=Collection.objects.none(), label=_("Collection"), required=False, empty_label=_("all")
    )
    annotators = _many(
        _("Annotators"), _("At least as many as the overlap; they share the tasks among them.")
    )
    adjudicators = _many(
        _("Adjudicators"), _("They decide where annotators differ, and never their own items.")
    )
    overlap = forms.IntegerField(
        label=_("Overlap"),
        min_value=1,
        max_value=MAX_OVERLAP,
        initial=2,
        help_text=_("Annotations per response, by different people."),
    )
    tolerance = forms.FloatField(
        label=_("Tolerance"),
        min_value=0,
        initial=0,
        help_text=_("The distance on the scale that still counts as agreement; 0: the same level."),
    )
    lease_minutes = forms.IntegerField(
        label=_("Lease in minutes"),
        min_value=1,
        max_value=7 * 24 * 60,
        initial=30,
        help_text=_("An item that was not submitted by then goes to someone else."),
    )
    due_date = forms.DateField(label=_("Due date"), required=False, widget=DateInput(format="%Y-%m-%d"))
    seconds = forms.FloatField(
        label=_("Seconds per annotation"),
        min_value=1,
        required=False,
        help_text=_("For the estimate only."),
    )

    def __init__(self, *args: Any, dataset: Dataset, models_shown: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._people("annotators", ANNOTATOR)
        self._people("adjudicators", ADJUDICATOR)
        if models_shown:
            self._choices("models", models_in(dataset))
            self._choices("collection", collections_in(dataset))
        else:
            del self.fields["models"], self.fields["collection"]

    def _people(self, name: str, role: str) -> None:
        self._choices(name, people_in_role(role))

    def _choices(self, name: str, queryset: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = queryset

    def policy(self) -> Policy:
        data = self.cleaned_data
        return Policy(
            overlap=data["overlap"],
            tolerance=data["tolerance"],
            lease_seconds=data["lease_minutes"] * 60,
            due_date=data["due_date"],
        )


class JoinForm(forms.Form):
    """People to add to a batch in one role: those of its group who are not in it already."""

    people = _many(_("People"))

    def __init__(self, data: Any = None, *, batch: Batch, role: str) -> None:
        super().__init__(data, prefix=role)
        present = Membership.objects.filter(batch=batch, role=role).values("person")
        field = self.fields["people"]
        assert isinstance(field, forms.ModelMultipleChoiceField)
        field.queryset = people_in_role(role).exclude(pk__in=present)
        field.required = True
        field.label = {ANNOTATOR: _("Annotators"), ADJUDICATOR: _("Adjudicators")}[role]
