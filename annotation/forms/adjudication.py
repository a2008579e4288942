"""What the adjudicator's pages send, and the managers' page of the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from annotation.domain.annotations import Submission
from annotation.forms.annotations import WorkForm
from annotation.models import Channel
from annotation.selectors.adjudication import BY_PROMPT, OLDEST_FIRST, DisputeFilter

ORDERS = ((BY_PROMPT, _("Prompt by prompt")), (OLDEST_FIRST, _("Oldest first")))


class QueueForm(forms.Form):
    """The filters of the queue, in the address. What cannot be is no filter."""

    dimension = forms.ChoiceField(required=False, label=_("Dimension"))
    order = forms.ChoiceField(required=False, label=_("Order"), choices=ORDERS)

    def __init__(self, data: Any, *, dimensions: Sequence[tuple[str, str]]) -> None:
        super().__init__(data)
        self.fields["dimension"] = forms.ChoiceField(
            required=False, label=_("Dimension"), choices=[("", _("All")), *dimensions]
        )


def parse_dispute_filter(query: Any) -> DisputeFilter:
    """What an address asks for."""
    known = [order for order, _words in ORDERS]
    order = query.get("order", "")
    return DisputeFilter(
        dimension=query.get("dimension", "")[:100], order=order if order in known else BY_PROMPT
    )


def build_query(dispute_filter: DisputeFilter) -> str:
    """The same as the end of an address; empty where nothing is filtered."""
    order = "" if dispute_filter.order == BY_PROMPT else dispute_filter.order
    parameters = {
        name: value for name, value in (("dimension", dispute_filter.dimension), ("order", order)) if value
    }
    return f"?{urlencode(parameters)}" if parameters else ""


class VerdictForm(WorkForm):
    def work(self, evidence: Sequence[Any] = ()) -> Submission:
        data = self.cleaned_data
        return Submission(
            labels=self.answers(),
            rationale=data["rationale"],
            seconds=data["seconds"],
            channel=Channel.PAGE,
        )


class AdjudicationForm(WorkForm):
    reason = forms.CharField(
        max_length=50, error_messages={"required": _("Choose the reason for the difference.")}
    )

    def work(self, evidence: Sequence[Any] = ()) -> Submission:
        data = self.cleaned_data
        return Submission(
            labels=self.answers(),
            rationale=data["rationale"],
            reason=data["reason"],
            seconds=data["seconds"],
            channel=Channel.PAGE,
        )


class ReasonForm(forms.Form):
    """A reason for a dispute, in the languages of the site."""

    zh = forms.CharField(max_length=100, label=_("In Chinese"))
    en = forms.CharField(max_length=100, label=_("In English"))
    makes_note = forms.BooleanField(
        required=False, label=_("Leaves a note on the clause for the next version of the guideline")
    )

    def words(self) -> dict[str, str]:
        return {language: self.cleaned_data[language] for language in ("zh", "en")}
