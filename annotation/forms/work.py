"""What the annotation and the adjudication page send."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.errors import N_
from annotation.flags import FLAGS
from annotation.models import Channel
from annotation.services.work import Work

LABEL = "label."
DAY = 24 * 60 * 60

# Stored as they stand here, in English, and translated where they are shown.
SKIP_REASONS = (
    N_("The guideline does not let me decide"),
    N_("The response is empty, cut off or garbled"),
    N_("I do not read this language well enough"),
    N_("This is too hard for me to read"),
    N_("I recognise where this comes from"),
)


class WorkForm(forms.Form):
    """Labels come as ``label.<criterion>``; the guideline checks them, in the service."""

    key = forms.CharField(max_length=200)
    rationale = forms.CharField(required=False, max_length=20_000, label=gettext_lazy("Rationale"))
    reason = forms.CharField(required=False, max_length=500, label=gettext_lazy("Reason for the correction"))
    evidence = forms.CharField(required=False, max_length=100_000, strip=False)
    flags = forms.MultipleChoiceField(required=False, choices=list(FLAGS.items()))
    seconds = forms.CharField(required=False)

    def clean_rationale(self) -> str:
        return str(self.cleaned_data["rationale"]).replace("\r\n", "\n")

    def clean_evidence(self) -> list[dict[str, Any]]:
        """Spans in JSON, as static/js/evidence.js writes them; the service holds them against the text."""
        try:
            spans = json.loads(self.cleaned_data["evidence"] or "[]")
        except (ValueError, RecursionError):
            spans = None
        if not isinstance(spans, list) or not all(isinstance(span, dict) for span in spans):
            raise forms.ValidationError(
                _("The marked evidence cannot be read. Reload the page and mark it again.")
            )
        return spans

    def clean_seconds(self) -> float | None:
        """A measurement, not an answer: one that cannot be is dropped, and holds nothing up."""
        try:
            seconds = float(self.cleaned_data["seconds"])
        except ValueError:
            return None
        return seconds if math.isfinite(seconds) and 0 <= seconds <= DAY else None

    def labels(self) -> dict[str, Any]:
        given = {
            name.removeprefix(LABEL): value for name, value in self.data.items() if name.startswith(LABEL)
        }
        return {name: _number(value) for name, value in given.items() if value != ""}

    def work(self, evidence: Sequence[Mapping[str, Any]] = ()) -> Work:
        """``evidence`` stands where the page that sent this could not change it."""
        given = _without_key(self.cleaned_data)
        return Work(
            labels=self.labels(),
            channel=Channel.PAGE,
            **given if "evidence" in self.data else {**given, "evidence": list(evidence)},
        )

    def first_error(self) -> str:
        return str(next(iter(self.errors.values()))[0])


class SkipForm(forms.Form):
    reason = forms.ChoiceField(required=False, choices=[(reason, reason) for reason in SKIP_REASONS])
    own = forms.CharField(required=False, max_length=500)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cleaned["why"] = cleaned.get("own") or cleaned.get("reason", "")
        if not cleaned["why"] and not self.errors:
            raise forms.ValidationError(_("Choose why you skip this item, or say it in your own words."))
        return cleaned

    def first_error(self) -> str:
        return str(next(iter(self.errors.values()))[0])


def _without_key(cleaned: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cleaned.items() if name != "key"}


def _number(text: str) -> int | float | str:
    """The number, whole ones as int; else the text as it came, for the guideline to refuse."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if math.isfinite(number) and number == int(number) else number
