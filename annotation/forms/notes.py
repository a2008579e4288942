from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.guidelines import GuidelineDocument, localized
from annotation.models import Note
from annotation.services.notes import LONGEST_NOTE

STATES = (
    ("open", pgettext_lazy("note", "Open")),
    ("resolved", pgettext_lazy("note", "Resolved")),
    ("all", pgettext_lazy("note", "All")),
)


def clause_value(criterion: str, level: float | None) -> str:
    """A clause as a form field holds it: empty for the whole, ``criterion``, or ``criterion:level``."""
    return criterion if level is None else f"{criterion}:{level:g}"


def clause_words(criterion: str, level: str) -> str:
    """A level of a criterion as people read it: ``Fairness: 2 Unnoticed``."""
    return _now("{criterion}: {level}").format(criterion=criterion, level=level)


class NoteForm(forms.Form):
    """A manager's own note on a clause of this document, its choices in this language."""

    clause = forms.ChoiceField(label=_("On"), required=False)
    text = forms.CharField(
        label=_("Note"), max_length=LONGEST_NOTE, widget=forms.Textarea(attrs={"rows": 3}), required=True
    )

    def __init__(self, *args: Any, document: GuidelineDocument, language: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: list[tuple[str, Any]] = [("", _("the whole guideline"))]
        for one in document.criteria:
            label = localized(one.label, language)
            choices.append((one.name, label))
            for level in one.scale:
                words = f"{level.value:g} {localized(level.name, language)}"
                choices.append((clause_value(one.name, level.value), clause_words(label, words)))
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
        label=_("Source"), choices=[("", _("all sources")), *Note.Source.choices], required=False
    )
