"""What may be chosen for an export: of all options those that its format heeds."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy as _

from annotation.services.exports import Options, Writer

LICENSE = RegexValidator(
    r"^[a-z0-9][a-z0-9.-]{0,49}$", _("Small letters, digits, points and hyphens: cc-by-4.0, mit, other.")
)


class ExportForm(forms.Form):
    """``may_name``: whether this person may have the real names of people in a file."""

    table = forms.ChoiceField(label=_("Table"), choices=[("csv", "CSV"), ("jsonl", "JSONL")], initial="csv")
    license = forms.CharField(
        label=_("License"),
        initial="other",
        validators=[LICENSE],
        help_text=_("The identifier that Hugging Face uses: cc-by-4.0, mit, other."),
    )
    rationales = forms.BooleanField(
        label=_("With rationales and evidence"),
        required=False,
        help_text=_("What people wrote and marked beside their labels."),
    )
    times = forms.BooleanField(
        label=_("With the time of each label"),
        required=False,
        help_text=_("Otherwise nobody reads when people worked."),
    )
    real_names = forms.BooleanField(
        label=_("With the names of people"),
        required=False,
        help_text=_("Otherwise people stand under pseudonyms: annotator-01, annotator-02."),
    )

    def __init__(self, *args: Any, writer: Writer, may_name: bool, **kwargs: Any) -> None:
        kwargs.setdefault("auto_id", f"id_{writer.name}_%s")
        super().__init__(*args, **kwargs)
        heeded = writer.options if may_name else writer.options - {"real_names"}
        for name in [name for name in self.fields if name not in heeded]:
            del self.fields[name]

    @property
    def options(self) -> Options:
        return Options(**self.cleaned_data)
