from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.models import GuidelineNote
from annotation.services.guidelines import MAX_NOTE_LENGTH

MAX_BYTES = 2_000_000  # bytes; the Flames guideline has 60,000


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
        if upload is not None and (upload.size or 0) > MAX_BYTES:
            raise ValidationError(_now("This file is too large for a guideline."))
        if upload is not None:
            data["text"] = self._text(upload.read())
        elif len(data["text"].encode()) > MAX_BYTES:
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


STATES = (
    ("open", pgettext_lazy("note", "Open")),
    ("resolved", pgettext_lazy("note", "Resolved")),
    ("all", pgettext_lazy("note", "All")),
)


def clause_value(criterion: str, level: float | None) -> str:
    """A clause as a form field holds it: empty for the whole, ``criterion``, or ``criterion:level``."""
    return criterion if level is None else f"{criterion}:{level:g}"


def format_clause(criterion: str, level: str) -> str:
    """A level of a criterion as people read it: ``Fairness: 2 Unnoticed``."""
    return _now("{criterion}: {level}").format(criterion=criterion, level=level)


class NoteForm(forms.Form):
    """A manager's own note on a clause of this document, its choices in this language."""

    clause = forms.ChoiceField(label=_("On"), required=False)
    text = forms.CharField(
        label=_("Note"), max_length=MAX_NOTE_LENGTH, widget=forms.Textarea(attrs={"rows": 3}), required=True
    )

    def __init__(self, *args: Any, document: GuidelineDocument, language: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: list[tuple[str, Any]] = [("", _("the whole guideline"))]
        for criterion in document.criteria:
            label = localize(criterion.label, language)
            choices.append((criterion.name, label))
            for level in criterion.scale:
                words = f"{level.value:g} {localize(level.name, language)}"
                choices.append((clause_value(criterion.name, level.value), format_clause(label, words)))
        field = self.fields["clause"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def place(self) -> tuple[str, float | None]:
        """The criterion and level that were chosen."""
        criterion, _colon, level = self.cleaned_data["clause"].partition(":")
        return criterion, float(level) if level else None


class NoteFilterForm(forms.Form):
    state = forms.ChoiceField(label=_("State"), choices=STATES, required=False)
    source = forms.ChoiceField(
        label=_("Source"), choices=[("", _("all sources")), *GuidelineNote.Source.choices], required=False
    )
