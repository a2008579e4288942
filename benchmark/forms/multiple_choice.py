"""What the pages of multiple-choice reports take in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from annotation.models import Person
from benchmark.forms.leaderboards import ResponseSelectionForm, ScorerField
from benchmark.models import ChoiceReport, Judge
from benchmark.selectors.leaderboards.runs import list_open_datasets, list_open_scorers
from benchmark.selectors.multiple_choice.answers import OPEN_GUIDELINE
from benchmark.selectors.multiple_choice.reports import list_answer_judges, list_question_datasets
from scoring.models import Scorer


class ChoiceReportForm(ResponseSelectionForm):
    name = forms.CharField(label=_("Name"), max_length=100)
    kind = forms.ChoiceField(
        label=_("Kind"),
        choices=ChoiceReport.Kind.choices,
        help_text=_(
            "FINE asks whether a model is as safe in multiple choice as in its own words; CValues how often it chooses"
            " the safe response."
        ),
    )
    scorer = ScorerField(
        label=_("Scorer"),
        queryset=Scorer.objects.none(),
        required=False,
        empty_label=_("none: people say what is safe"),
        help_text=_(
            "Of the guideline fine: it says which open-ended answers are safe, from its stored predictions."
        ),
    )
    judge = forms.ModelChoiceField(
        label=_("Judge"),
        queryset=Judge.objects.none(),
        required=False,
        empty_label=_("none: people say what is safe"),
        help_text=_("Instead of a scorer."),
    )

    field_order = ("name", "kind", "dataset", "collection", "models")

    def list_choices(self, person: Person) -> Mapping[str, QuerySet[Any]]:
        return {
            **super().list_choices(person),
            "dataset": list_question_datasets(list_open_datasets(person)),
            "scorer": list_open_scorers(person).filter(guideline__name=OPEN_GUIDELINE),
            "judge": list_answer_judges(),
        }
