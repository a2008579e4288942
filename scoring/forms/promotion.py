"""What a researcher tells the gate: the margin before it judges, and a reason after a verdict that shows nothing."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from scoring.domain.gate import MARGIN, MAX_MARGIN, MIN_MARGIN
from scoring.services.scorers.promotion import MAX_REASON_CHARACTERS


class MarginForm(forms.Form):
    """``margin`` in points of accuracy; left out, the default."""

    margin = forms.FloatField(
        label=_("Margin, in points of accuracy"),
        required=False,
        initial=100 * MARGIN,
        min_value=100 * MIN_MARGIN,
        max_value=100 * MAX_MARGIN,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("A loss below it is small enough for you. Declare it before the verdict."),
    )

    def get_margin(self) -> float:
        """As a fraction."""
        points = self.cleaned_data["margin"]
        return MARGIN if points is None else float(points) / 100


class PromotionReasonForm(forms.Form):
    """``job`` is the one whose verdict the person saw."""

    job = forms.IntegerField(widget=forms.HiddenInput)
    reason = forms.CharField(
        label=_("Reason for promoting it"),
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("It is shown on the scorer's card, on its boards and in their reports and shared links."),
    )
