"""The forms of annotator wellbeing: what managers set for everybody, and what everybody sets for themselves."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import ITEM_DISPLAY, Person, WellbeingSettings
from annotation.selectors.guidelines import topic_labels

MAX_POINTS = 10_000
MAX_BREAK_MINUTES = 480  # minutes: a day of work
MAX_CONTACTS_CHARACTERS = 2000
CONTACTS = "contacts_"  # and a language


class WellbeingForm(forms.Form):
    """For everybody. An empty number sets nothing."""

    daily_exposure = forms.IntegerField(
        label=_("Daily reading budget, in points"),
        required=False,
        min_value=0,
        max_value=MAX_POINTS,
        help_text=_(
            "Whoever has read so many points gets no more severe items that day, only those of "
            "severity 0; what is in progress they may finish. Empty: no limit."
        ),
    )
    break_minutes = forms.IntegerField(
        label=_("Minutes until a break is proposed"),
        required=False,
        min_value=1,
        max_value=MAX_BREAK_MINUTES,
        help_text=_("After so many minutes of work the page proposes a break. Empty: never."),
    )
    contacts_zh = forms.CharField(
        label=_("Help contacts, in Chinese"),
        required=False,
        max_length=MAX_CONTACTS_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4, "lang": "zh"}),
    )
    contacts_en = forms.CharField(
        label=_("Help contacts, in English"),
        required=False,
        max_length=MAX_CONTACTS_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4, "lang": "en"}),
        help_text=_(
            "Whom to turn to when something weighs on somebody: names, numbers, hours. One key away on every item."
        ),
    )

    def __init__(self, data: Any = None, *, settings: WellbeingSettings) -> None:
        contacts = {CONTACTS + language: text for language, text in settings.help_contacts.items()}
        numbers = {name: getattr(settings, name) for name in ("daily_exposure", "break_minutes")}
        super().__init__(data, initial=numbers | contacts)

    def settings(self) -> dict[str, Any]:
        """As ``services.care.set_care`` takes them."""
        data = self.cleaned_data
        return {
            "daily_exposure": data["daily_exposure"],
            "break_minutes": data["break_minutes"],
            "help_contacts": {language: data[CONTACTS + language] for language in ("zh", "en")},
        }


class ExposureForm(forms.Form):
    """One person's own budget."""

    daily_exposure = forms.IntegerField(
        label=_("Daily reading budget, in points"),
        required=False,
        min_value=0,
        max_value=MAX_POINTS,
        help_text=_("In place of everybody's. Empty: as everybody."),
    )

    def __init__(self, data: Any = None, *, person: Person) -> None:
        super().__init__(data, initial={"daily_exposure": person.daily_exposure})


class ReadingForm(forms.Form):
    blur = forms.ChoiceField(
        label=_("Blur what is to be read until you open it"),
        choices=Person.Blur.choices,
        widget=forms.RadioSelect,
        help_text=_(
            "How severe an item is, is known from its dimension before anybody reads it; severe is 2 or more, of 3."
        ),
    )
    text_size = forms.ChoiceField(label=_("Text size"), choices=Person.TextSize.choices)
    line_height = forms.ChoiceField(label=_("Line height"), choices=Person.LineHeight.choices)
    latin_serif = forms.BooleanField(
        label=_("Latin letters with serifs"),
        required=False,
        help_text=_("Size, line height and letters are those of prompts and responses, on every page."),
    )
    single_keys = forms.BooleanField(
        label=_("Single keys act"), required=False, help_text=_("Off: every shortcut is pressed with Alt.")
    )

    def __init__(self, data: Any = None, *, person: Person) -> None:
        super().__init__(data, initial={name: getattr(person, name) for name in ITEM_DISPLAY})


class TopicsForm(forms.Form):
    """The dimensions of the person's guidelines, and those that they opted out of wherever these stand."""

    topics = forms.MultipleChoiceField(
        label=_("Topics that you do not read"), required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, data: Any = None, *, person: Person) -> None:
        super().__init__(data, initial={"topics": person.opted_out})
        field = self.fields["topics"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = list(topic_labels(person).items())
