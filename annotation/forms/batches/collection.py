"""How many labels a batch collects and how gold comes of them, as a form: of a new batch or of one of an import."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.domain.batch_spec import MAX_OVERLAP, USUAL_POLICY
from annotation.models import Batch

# What a request that leaves these out means.
USUAL_COLLECTION = {
    "plan": USUAL_POLICY.plan,
    "settling": USUAL_POLICY.settling,
    "aggregation": USUAL_POLICY.aggregation,
    "aggregation_threshold": USUAL_POLICY.aggregation_threshold,
    "tolerance": USUAL_POLICY.tolerance,
}


def add_usual(data: Any, usual: dict[str, Any]) -> Any:
    """What was sent, with what is usual where nothing was; None where the form is not bound."""
    if data is None:
        return None
    complete = data.copy()
    for name, value in usual.items():
        complete.setdefault(name, value)
    return complete


class CollectionPolicyForm(forms.Form):
    overlap = forms.IntegerField(
        label=_("Overlap"),
        min_value=1,
        max_value=MAX_OVERLAP,
        initial=USUAL_POLICY.overlap,
        help_text=_("Annotations per response, by different people."),
    )
    plan = forms.ChoiceField(
        label=_("Plan of the collection"),
        choices=Batch.Plan.choices,
        widget=forms.RadioSelect,
        initial=USUAL_POLICY.plan,
    )
    settling = forms.ChoiceField(
        label=_("Gold is settled by"),
        choices=Batch.Settling.choices,
        widget=forms.RadioSelect,
        initial=USUAL_POLICY.settling,
    )
    aggregation = forms.ChoiceField(
        label=_("Model of the labels"), choices=Batch.Aggregation.choices, initial=USUAL_POLICY.aggregation
    )
    aggregation_threshold = forms.FloatField(
        label=_("Probability that settles"),
        initial=USUAL_POLICY.aggregation_threshold,
        help_text=_("Above 0.5 and below 1; what is less sure goes to a third person."),
    )
    tolerance = forms.FloatField(
        label=_("Tolerance"),
        min_value=0,
        initial=USUAL_POLICY.tolerance,
        help_text=_("The distance on the scale that still counts as agreement; 0: the same level."),
    )
