"""What the bench and the pages of reviews take in."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.models import Prompt
from benchmark.domain.workbench.campaigns import Classification
from benchmark.models import Review
from benchmark.selectors.workbench.campaigns import OpenCell
from benchmark.services.workbench.proposals import ProposalText


class BenchForm(forms.Form):
    """A proposal as it is written. Nothing is required here: a draft may lack anything, and what is asked or submitted
    is checked by the services, whose words say what is missing.
    """

    cell = forms.CharField(required=False)
    text = forms.CharField(required=False, strip=False)
    language = forms.CharField(required=False)
    malice = forms.CharField(required=False)
    rationale = forms.CharField(required=False, strip=False)
    duplicate_reason = forms.CharField(required=False, strip=False)
    key = forms.UUIDField(required=False)

    def read_text(self, cells: dict[str, OpenCell]) -> ProposalText:
        """The proposal; browsers write line ends as CR LF, a prompt has LF."""
        data = self.cleaned_data
        cell = cells.get(data["cell"])
        return ProposalText(
            text=data["text"].replace("\r\n", "\n"),
            language=data["language"],
            rationale=data["rationale"].replace("\r\n", "\n"),
            classification=Classification(
                dimension=cell.quota.dimension if cell else "",
                subcomponent=cell.quota.subcomponent if cell else "",
                method=cell.quota.method.name if cell else "",
                malice=data["malice"],
            ),
        )

    @property
    def submission_key(self) -> UUID:
        key: UUID | None = self.cleaned_data["key"]
        return key or uuid4()


class ClassificationForm(forms.Form):
    """A reviewer's own classification: the place is a subcomponent of a dimension, as ``DIMENSION/SUBCOMPONENT``."""

    place = forms.ChoiceField(label=_("Dimension and subcomponent"))
    method = forms.ChoiceField(label=_("Attack method"), widget=forms.RadioSelect)
    malice = forms.ChoiceField(label=_("Malice"), choices=Prompt.Malice, widget=forms.RadioSelect)

    def __init__(self, *args: Any, places: Any, methods: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._places: dict[str, tuple[str, str]] = {
            str(n): place
            for n, place in enumerate(place for _label, group in places for place, _name in group)
        }
        numbers = iter(self._places)
        grouped = [(label, [(next(numbers), name) for _place, name in group]) for label, group in places]
        self.fields["place"].choices = [("", "---------"), *grouped]  # type: ignore[attr-defined]
        self.fields["method"].choices = methods  # type: ignore[attr-defined]

    def find_number(self, place: tuple[str, str]) -> str:
        return next((number for number, each in self._places.items() if each == place), "")

    def read_classification(self) -> Classification:
        dimension, subcomponent = self._places[self.cleaned_data["place"]]
        return Classification(
            dimension=dimension,
            subcomponent=subcomponent,
            method=self.cleaned_data["method"],
            malice=self.cleaned_data["malice"],
        )


class DecisionForm(forms.Form):
    decision = forms.ChoiceField(
        label=pgettext_lazy("review", "Decision"), choices=Review.Decision, widget=forms.RadioSelect
    )
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("The author reads it. Needed to return or reject."),
    )
