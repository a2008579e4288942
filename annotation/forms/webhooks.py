"""What a manager types to set up a webhook."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.utils.functional import lazy
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from annotation.domain.webhooks.addresses import MAX_URL_CHARACTERS
from annotation.domain.webhooks.events import EVENT_LABELS, SUBSCRIBED
from annotation.models import WebhookDelivery, WebhookEndpoint

USUAL_HOURS = 24
HOURS_CHOICES = ((0, _("Not at all: it may be known to others")), (24, _("24 hours")), (168, _("7 days")))


def _list_event_choices() -> list[tuple[str, str]]:
    return [(event.value, f"{_now(EVENT_LABELS[event])} ({event.value})") for event in SUBSCRIBED]


class WebhookForm(forms.Form):
    url = forms.CharField(
        label=_("Address"),
        max_length=MAX_URL_CHARACTERS,
        widget=forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}),
        help_text=_("Where your program receives messages, with https://."),
    )
    events = forms.MultipleChoiceField(
        label=_("Events"), choices=lazy(_list_event_choices, list)(), widget=forms.CheckboxSelectMultiple
    )
    note = forms.CharField(
        label=_("Note"),
        max_length=200,
        required=False,
        help_text=_("What it is for; only these pages show it."),
    )

    @classmethod
    def of(cls, endpoint: WebhookEndpoint) -> WebhookForm:
        events = [event.value for event in endpoint.subscribed_events]
        return cls(initial={"url": endpoint.url, "events": events, "note": endpoint.note})


class WebhookSecretForm(forms.Form):
    hours = forms.TypedChoiceField(
        label=_("The old secret still signs"),
        choices=HOURS_CHOICES,
        coerce=int,
        initial=USUAL_HOURS,
        help_text=_(
            "Meanwhile each message has two signatures, so that nothing is lost while you change it."
        ),
    )


class DeliveryFilterForm(forms.Form):
    state = forms.ChoiceField(
        label=_("State"), required=False, choices=[("", _("all")), *WebhookDelivery.State.choices]
    )

    @property
    def filters(self) -> dict[str, Any]:
        """Of a queryset of deliveries; what cannot be asked for chooses all."""
        self.is_valid()
        state = self.cleaned_data.get("state")
        return {"state": state} if state else {}

    @property
    def query(self) -> str:
        return urlencode(self.filters)
