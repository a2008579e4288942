"""The policy of a batch as a form: the terms that may change while people work in it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from annotation.core.http import DayField
from annotation.domain.batch_spec import (
    MAX_CHECK_SHARE,
    MAX_SECOND_READING_DAYS,
    USUAL_POLICY,
    Terms,
)
from annotation.models import Batch

QUALIFYING = (
    (Batch.Qualifying.NONE, _("None: whoever is in the batch is given work at once.")),
    (Batch.Qualifying.ACCURACY, _("By accuracy: the share of labels that are equal to the known ones.")),
    (
        Batch.Qualifying.KAPPA,
        _("By Cohen's kappa with the known labels, which leaves out what chance would give."),
    ),
)
ALARMS = (
    (Batch.AlarmAction.TELL, _("Tell the managers, and let the work go on.")),
    (Batch.AlarmAction.PAUSE, _("Tell the managers and pause the batch, until one of them lets it go on.")),
)
TEXT_FORMATS = (
    (Batch.TextFormat.AUTO, _("Automatic: Markdown where the text has signs of it")),
    (Batch.TextFormat.MARKDOWN, _("Markdown: headings, lists, tables, code and formulas")),
    (Batch.TextFormat.PLAIN, _("Plain text: every character as it was written")),
)
MAX_LEASE_MINUTES = 7 * 24 * 60
# What a request that leaves these out means.
USUAL_TERMS = {
    "alarm_action": USUAL_POLICY.alarm_action,
    "second_reading_percent": f"{USUAL_POLICY.second_reading_share * 100:g}",
    "second_reading_days": USUAL_POLICY.second_reading_days,
    "second_adjudicator_percent": f"{USUAL_POLICY.second_adjudicator_share * 100:g}",
    "check_percent": f"{USUAL_POLICY.check_share * 100:g}",
}


class TermsForm(forms.Form):
    """What of a batch's policy may change while people work in it."""

    lease_minutes = forms.IntegerField(
        label=_("Lease in minutes"),
        min_value=1,
        max_value=MAX_LEASE_MINUTES,
        initial=USUAL_POLICY.lease_seconds // 60,
        help_text=_("An item that was not submitted by then goes to someone else."),
    )
    due_date = DayField(label=_("Due date"))
    agreement_threshold = forms.FloatField(
        label=_("Agreement threshold"),
        min_value=-1,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "An alarm when the lower bound of Krippendorff's alpha falls below it; empty: none. Of few items the"
            " bound lies far below the value: 0.4 to 0.667 is usual."
        ),
    )
    alarm_action = forms.ChoiceField(
        label=_("At an alarm"), choices=ALARMS, widget=forms.RadioSelect, initial=USUAL_POLICY.alarm_action
    )
    second_reading_percent = forms.FloatField(
        label=_("Repeat adjudications in percent"),
        min_value=0,
        max_value=100,
        initial=USUAL_TERMS["second_reading_percent"],
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "Of the decided disputes: so many come back to their adjudicator unmarked, to measure how consistent"
            " they are. 0: none."
        ),
    )
    second_reading_days = forms.IntegerField(
        label=_("Days until a repeat adjudication"),
        min_value=0,
        max_value=MAX_SECOND_READING_DAYS,
        initial=USUAL_POLICY.second_reading_days,
        help_text=_("Or when the disputes run out."),
    )
    second_adjudicator_percent = forms.FloatField(
        label=_("Second adjudications in percent"),
        min_value=0,
        max_value=100,
        initial=USUAL_TERMS["second_adjudicator_percent"],
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "Of the decided disputes: so many go unmarked to another adjudicator, to measure how well adjudicators"
            " agree. Gold follows the first decision. It needs at least two adjudicators. 0: none."
        ),
    )
    check_percent = forms.FloatField(
        label=_("Gold checks in percent"),
        min_value=0,
        max_value=100 * MAX_CHECK_SHARE,
        initial=USUAL_TERMS["check_percent"],
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "Of the items that each annotator is given: so many are gold questions, which look like "
            "all others. You add them on the batch's page Gold questions. 0: none; 5 is usual."
        ),
    )
    check_feedback = forms.BooleanField(
        label=_("Tell people after a gold check"),
        required=False,
        help_text=_(
            "After a gold question the annotator reads that it was one, the right label, and why. It "
            "teaches, and each item is spent on whoever has had it."
        ),
    )
    qualifying = forms.ChoiceField(
        label=_("Qualification"),
        choices=QUALIFYING,
        widget=forms.RadioSelect,
        required=False,
        initial=USUAL_POLICY.qualifying,
    )
    qualifying_threshold = forms.FloatField(
        label=_("Threshold of the qualification"),
        min_value=-1,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("From 0 to 1, as in 0.8. Whoever reaches it on the gold questions is given the work."),
    )

    response_format = forms.ChoiceField(
        label=_("Format of responses"),
        choices=TEXT_FORMATS,
        required=False,
        initial=USUAL_POLICY.response_format,
        help_text=_("Evidence is stored as characters of the response, whatever its format."),
    )
    prompt_format = forms.ChoiceField(
        label=_("Format of prompts"),
        choices=TEXT_FORMATS,
        required=False,
        initial=USUAL_POLICY.prompt_format,
    )

    read_to_end = forms.BooleanField(
        label=_("Read each response to its end"),
        required=False,
        help_text=_("The page takes a label only after the end of the response was in sight."),
    )
    introduction_required = forms.BooleanField(
        label=_("Require the introduction"),
        required=False,
        help_text=_(
            "Nobody can submit before they have read the introduction of the guideline's version, programs included."
        ),
    )

    def terms(self) -> Terms:
        """Of a form that is valid. Raises AssayError where its parts do not fit."""
        return Terms.model_validate(self.collect_terms())

    def collect_terms(self) -> dict[str, Any]:
        """The fields of the terms, in which a lease has seconds and a share is one of 1."""
        data = self.cleaned_data
        names = ("due_date", "agreement_threshold", "alarm_action", "second_reading_days", "check_feedback")
        return {name: data[name] for name in names} | {
            "lease_seconds": data["lease_minutes"] * 60,
            "second_reading_share": round(data["second_reading_percent"] / 100, 6),
            "second_adjudicator_share": round((data["second_adjudicator_percent"] or 0) / 100, 6),
            "check_share": round((data["check_percent"] or 0) / 100, 6),
            "qualifying": data["qualifying"],
            "qualifying_threshold": data["qualifying_threshold"] if data["qualifying"] else None,
            "response_format": data["response_format"] or USUAL_POLICY.response_format,
            "prompt_format": data["prompt_format"] or USUAL_POLICY.prompt_format,
            "read_to_end": data["read_to_end"],
            "introduction_required": data["introduction_required"],
        }

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        missing = data.get("qualifying") and data.get("qualifying_threshold") is None
        if missing and not self.has_error("qualifying_threshold"):
            self.add_error("qualifying_threshold", _now("Give the value from which somebody has passed."))
        return data


class PolicyForm(TermsForm):
    """The terms of a batch as they are. A lease of seconds that the form cannot show stays unless it is changed, and
    what concerns gold questions where nothing is said of them.

    Without ``threshold_open`` the threshold is shown and stays, and the gold checks as well.
    """

    def __init__(self, data: Any = None, *, batch: Batch, threshold_open: bool = True) -> None:
        self.batch = batch
        super().__init__(
            data,
            initial={
                "lease_minutes": max(1, round(batch.lease_seconds / 60)),
                "due_date": batch.due_date,
                "agreement_threshold": batch.agreement_threshold,
                "alarm_action": batch.alarm_action,
                "second_reading_percent": f"{batch.second_reading_share * 100:g}",
                "second_reading_days": batch.second_reading_days,
                "second_adjudicator_percent": f"{batch.second_adjudicator_share * 100:g}",
                "check_percent": f"{batch.check_share * 100:g}",
                "check_feedback": batch.check_feedback,
                "qualifying": batch.qualifying,
                "qualifying_threshold": batch.qualifying_threshold,
                "response_format": batch.response_format,
                "prompt_format": batch.prompt_format,
                "read_to_end": batch.read_to_end,
                "introduction_required": batch.introduction_required,
            },
        )
        if batch.state != Batch.State.DRAFT:
            for name in ("qualifying", "qualifying_threshold"):
                self.fields[name].disabled = True
            self.fields["qualifying"].help_text = _("It stays as it is while people work.")
        if not threshold_open:
            for name in ("check_percent", "check_feedback"):
                self.fields[name].disabled = True
            field = self.fields["agreement_threshold"]
            field.disabled = True
            field.help_text = _(
                "You judge blind in this batch, and an alarm would tell you how well people agree: another manager"
                " can set it."
            )

    def collect_terms(self) -> dict[str, Any]:
        unchanged = [] if "lease_minutes" in self.changed_data else ["lease_seconds"]
        if "second_adjudicator_percent" not in self.data:
            unchanged += ["second_adjudicator_share"]
        if "check_percent" not in self.data:  # a request that says nothing of gold questions
            unchanged += ["check_share", "check_feedback", "qualifying", "qualifying_threshold"]
        if "response_format" not in self.data:  # nor of the reading
            unchanged += ["response_format", "prompt_format", "read_to_end", "introduction_required"]
        return super().collect_terms() | {name: getattr(self.batch, name) for name in unchanged}
