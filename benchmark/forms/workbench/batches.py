"""The batch in which people label the answers of a campaign."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.domain.batch_spec import USUAL_POLICY, Policy
from annotation.forms.batches.batches import people_field
from annotation.models import ADJUDICATOR, ANNOTATOR, Batch
from annotation.selectors.people import list_people_in_role
from benchmark.forms.workbench.members import offer_people
from benchmark.models import Campaign, CampaignMember

MAX_OVERLAP = 10


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
        annotators, adjudicators = (
            list_people_in_role(role).exclude(pk__in=members) for role in (ANNOTATOR, ADJUDICATOR)
        )
        offer_people(
            self, "annotators", annotators, empty_error=_("Choose the people who label the answers.")
        )
        offer_people(self, "adjudicators", adjudicators)

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
