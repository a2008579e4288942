"""Who takes part in a campaign: whom its forms offer, and people to add to it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.batches.batches import people_field
from annotation.models import ADJUDICATOR, ANNOTATOR, Person
from annotation.selectors.people import list_people_in_role
from benchmark.models import Campaign, CampaignMember


def list_prompt_people() -> QuerySet[Person]:
    """Whoever may write or review prompts in the study."""
    return list_people_in_role(ANNOTATOR) | list_people_in_role(ADJUDICATOR)


def offer_people(form: forms.Form, name: str, people: QuerySet[Person], *, empty_error: str = "") -> None:
    """In the field of this name; with words for it, an empty choice is an error."""
    field = form.fields[name]
    assert isinstance(field, forms.ModelMultipleChoiceField)
    field.queryset = people
    if empty_error:
        field.required = True
        field.error_messages["required"] = empty_error


class CampaignMembersForm(forms.Form):
    """People to add in one role."""

    people = people_field(gettext_lazy("People"))

    def __init__(self, data: Any = None, *, campaign: Campaign) -> None:
        super().__init__(data)
        active = CampaignMember.objects.filter(campaign=campaign, active=True).values("person")
        people = list_prompt_people().exclude(pk__in=active)
        offer_people(self, "people", people, empty_error=_("Choose at least one person."))
