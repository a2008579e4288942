from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

LARGEST = 2_000_000  # bytes; the Flames guideline has 60,000


class GuidelineForm(forms.Form):
    """A guideline as a file or pasted; a file wins, and its text then stands in the text area."""

    file = forms.FileField(label=_("YAML file"), required=False)
    text = forms.CharField(
        label=_("Or the text itself"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "class": "code"}),
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        upload: UploadedFile[bytes] | None = data.get("file")
        if upload is None and not data.get("text", "").strip():
            raise ValidationError(_now("Choose a file, or paste the text of the guideline."))
        if upload is not None and (upload.size or 0) > LARGEST:
            raise ValidationError(_now("This file is too large for a guideline."))
        if upload is not None:
            data["text"] = self._text(upload.read())
        elif len(data["text"].encode()) > LARGEST:
            raise ValidationError(_now("This text is too large for a guideline."))
        return data

    def _text(self, content: bytes) -> str:
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            message = _now("Line {line}: this is not UTF-8 text; save the guideline as UTF-8.")
            raise ValidationError(message.format(line=line)) from error

    @property
    def file_name(self) -> str:
        upload: UploadedFile[bytes] | None = self.cleaned_data.get("file")
        return (upload.name if upload is not None else None) or _now("text")
