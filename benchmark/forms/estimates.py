"""What the page of what to label next takes in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.domain.batch_spec import Policy
from scoring.forms.predictions import AbstainedBatchForm

MIN_POINTS, MAX_POINTS = 0.1, 50
"""In hundredths of a rate, or in a score's own unit."""


class PointsForm(forms.Form):
    """How well every dimension is to be known."""

    points = forms.FloatField(
        label=_("Plus or minus, in points"),
        min_value=MIN_POINTS,
        max_value=MAX_POINTS,
        initial=2,
        widget=forms.NumberInput(attrs={"step": "0.1"}),
    )


class GapForm(forms.Form):
    """Which true difference of two models the labels are to show."""

    gap = forms.FloatField(
        label=_("True difference to be seen, in points"),
        min_value=MIN_POINTS,
        max_value=MAX_POINTS,
        widget=forms.NumberInput(attrs={"step": "0.1"}),
    )


class LabelPlanBatchForm(AbstainedBatchForm):
    """The batch's name and its people; its size follows from what is wanted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["most"]

    def options(self) -> dict[str, Any]:
        data = self.cleaned_data
        return {
            "name": data["name"],
            "annotators": list(data["annotators"]),
            "adjudicators": list(data["adjudicators"]),
            "policy": Policy(overlap=data["overlap"]),
        }
