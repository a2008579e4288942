from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.forms.guidelines import NoteForm
from annotation.services.annotations.messages import MAX_MESSAGE_LENGTH


class AnswerForm(NoteForm):
    """A manager's answer, by a clause of the guideline."""

    clause = forms.ChoiceField(label=_("Clause of the guideline"), required=False)
    text = forms.CharField(
        label=pgettext_lazy("about items", "Answer"),
        max_length=MAX_MESSAGE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    for_everybody = forms.BooleanField(
        label=_("Show it beside the guideline, to everybody who works by this version"), required=False
    )
