"""What the page of a new run takes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy

from annotation.models import Person
from benchmark.selectors.runs import scorers_open_to
from scoring.models import Scorer

from .fields import ResponsesForm, ScorerField


class NewRunForm(ResponsesForm):
    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    scorer = ScorerField(label=gettext_lazy("Scorer"), queryset=Scorer.objects.none(), empty_label=None)

    field_order = ("name", "scorer")

    def choices_for(self, person: Person) -> Mapping[str, QuerySet[Any]]:
        return {**super().choices_for(person), "scorer": scorers_open_to(person)}
