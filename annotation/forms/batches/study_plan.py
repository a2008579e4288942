"""What the plan of a study asks for: what is expected, and what is wanted."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.domain.planning import (
    MAX_MODELS,
    MAX_RATERS,
    AgreementDesign,
    AgreementPlan,
    ComparisonDesign,
    ComparisonPlan,
    parse_shares,
    plan_agreement,
    plan_comparison,
)

USUAL = {
    "models": 5,
    "half_width": 0.05,
    "alpha": 0.7,
    "shares": "60 25 15",
    "similarity": 0.1,
    "difference": 10,
    "rate": 70,
    "correlation": 0.2,
}


class StudyPlanForm(forms.Form):
    models = forms.IntegerField(
        label=_("Models"),
        min_value=2,
        max_value=MAX_MODELS,
        help_text=_("Each answers every prompt, and people label every response."),
    )
    half_width = forms.FloatField(
        label=_("Wanted half-width of alpha's interval"),
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("0.05 means 0.70 with an interval from 0.65 to 0.75."),
    )
    alpha = forms.FloatField(label=_("Expected alpha"), widget=forms.NumberInput(attrs={"step": "any"}))
    shares = forms.CharField(
        label=_("Expected shares of the levels"), max_length=200, help_text=_("In percent, as in 60 25 15.")
    )
    similarity = forms.FloatField(
        label=_("Similarity of the responses to one prompt"),
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "In how far people agree on them, from 0 to 1; 0.05 to 0.2 is usual. Of an earlier study: the design effect"
            " on its agreement page less 1, divided by the responses to a prompt less 1."
        ),
    )
    difference = forms.FloatField(
        label=_("Wanted difference of two models in points"),
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("So far apart they are significantly different on 8 boards of 10."),
    )
    rate = forms.FloatField(
        label=_("Expected rate in percent"),
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("Of the headline metric, about which the two models lie."),
    )
    correlation = forms.FloatField(
        label=_("Correlation of two models on one prompt"),
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("Some prompts are harder for all models: 0.1 to 0.4 is usual. 0 is the careful choice."),
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                self.agreement_plans = self._plan_agreement(data)
                self.comparison_plan = self._plan_comparison(data)
            except AssayError as error:
                self.add_error(None, error_text(error))
        return data

    agreement_plans: tuple[AgreementPlan, ...] = ()
    """One for each number of labels per response, from 2 on; empty before the form is valid."""
    comparison_plan: ComparisonPlan | None = None

    def _plan_agreement(self, data: dict[str, Any]) -> tuple[AgreementPlan, ...]:
        shares = parse_shares(data["shares"])
        return tuple(
            plan_agreement(
                AgreementDesign(data["alpha"], shares, raters, data["models"], data["similarity"]),
                data["half_width"],
            )
            for raters in range(2, MAX_RATERS + 1)
        )

    def _plan_comparison(self, data: dict[str, Any]) -> ComparisonPlan:
        design = ComparisonDesign(data["rate"] / 100, data["models"], data["correlation"])
        return plan_comparison(design, data["difference"] / 100)
