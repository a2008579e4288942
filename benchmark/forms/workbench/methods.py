"""An attack method of a study."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from benchmark.models import AttackMethod
from benchmark.services.workbench.campaigns import MAX_METHOD_CHARACTERS

LANGUAGES = ("zh", "en")
PARTS = ("label", "definition", "examples")


class MethodForm(forms.Form):
    """An attack method: its texts in both languages. The name is kept by prompts, so it never changes."""

    name = forms.CharField(
        label=pgettext_lazy("of a method", "Name"),
        max_length=100,
        help_text=gettext_lazy("In files and commands; it never changes. Such as role_play."),
    )
    label_zh = forms.CharField(
        label=gettext_lazy("Label in Chinese"),
        max_length=100,
        required=False,
        widget=forms.TextInput({"lang": "zh"}),
    )
    label_en = forms.CharField(label=gettext_lazy("Label in English"), max_length=100, required=False)
    definition_zh = forms.CharField(
        label=gettext_lazy("Definition in Chinese"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "lang": "zh"}),
    )
    definition_en = forms.CharField(
        label=gettext_lazy("Definition in English"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    examples_zh = forms.CharField(
        label=gettext_lazy("Examples in Chinese"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "lang": "zh"}),
        help_text=gettext_lazy("One in each line."),
    )
    examples_en = forms.CharField(
        label=gettext_lazy("Examples in English"),
        max_length=MAX_METHOD_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("One in each line."),
    )

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        if not name.isprintable():
            raise ValidationError(_("A name has no line breaks and no invisible characters."))
        return name

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for part, words in (
            ("label", _("Give a label in at least one language.")),
            ("definition", _("Give a definition in at least one language.")),
        ):
            names = [f"{part}_{language}" for language in LANGUAGES]
            if not any(data.get(name) for name in names) and not set(names) & self.errors.keys():
                self.add_error(names[0], words)
        return data

    def read_texts(self) -> dict[str, dict[str, str]]:
        """By part, its text by language."""
        data = self.cleaned_data
        return {
            part: {language: data[f"{part}_{language}"].replace("\r\n", "\n") for language in LANGUAGES}
            for part in PARTS
        }


def method_to_fields(method: AttackMethod) -> dict[str, str]:
    """What ``MethodForm`` begins with."""
    return {"name": method.name} | {
        f"{part}_{language}": getattr(method, part).get(language, "")
        for part in PARTS
        for language in LANGUAGES
    }
