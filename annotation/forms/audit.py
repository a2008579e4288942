"""How a person narrows the audit trail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from annotation.core.http import DayField, parse_int
from annotation.domain.audit import CATEGORY_LABELS, KINDS, list_verbs
from annotation.models import Study
from annotation.selectors.audit import TrailFilter


class AuditFilterForm(forms.Form):
    """What the address of the page says; what nobody could have chosen is left out of account."""

    since = DayField(label=_("From day"))
    until = DayField(label=_("To day"))
    person = forms.CharField(label=_("By"), max_length=150, required=False)
    category = forms.ChoiceField(label=_("Category"), required=False)
    verb = forms.ChoiceField(label=_("Act"), required=False)
    kind = forms.ChoiceField(label=_("Kind of target"), required=False)
    key = forms.CharField(label=_("Name of target"), max_length=200, required=False)
    study = forms.ModelChoiceField(
        Study.objects.none(), label=_("Study"), required=False, empty_label=_("all")
    )

    def __init__(self, data: Mapping[str, Any], studies: Sequence[Study]) -> None:
        super().__init__(data)
        self.kinds = group_kinds()
        self._set_choices("category", [(name.value, gettext(text)) for name, text in CATEGORY_LABELS.items()])
        self._set_choices(
            "verb",
            sorted(
                ((verb.value, describe_verb(verb.meaning.sentence)) for verb in list_verbs()),
                key=lambda choice: choice[1],
            ),
        )
        self._set_choices(
            "kind",
            sorted(((names[0], label) for label, names in self.kinds.items()), key=lambda choice: choice[1]),
        )
        self.fields["study"].queryset = Study.objects.filter(pk__in=[study.pk for study in studies])  # type: ignore[attr-defined]
        if len(studies) < 2:
            del self.fields["study"]

    def _set_choices(self, name: str, choices: Sequence[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("all")), *choices]

    def read(self) -> TrailFilter:
        self.is_valid()
        data = self.cleaned_data
        kind, study = data.get("kind", ""), data.get("study")
        return TrailFilter(
            since=data.get("since"),
            until=data.get("until"),
            person=data.get("person", "").strip(),
            category=data.get("category", ""),
            verb=data.get("verb", ""),
            kinds=next((names for names in self.kinds.values() if kind in names), ()),
            key=data.get("key", "").strip(),
            study=None if study is None else study.pk,
            before=parse_int(self.data.get("before", "")),
            after=parse_int(self.data.get("after", "")),
        )


def group_kinds() -> dict[str, tuple[str, ...]]:
    """The kinds of targets by what they are called: a row of a list has a second name in some events."""
    groups: dict[str, tuple[str, ...]] = {}
    for kind in KINDS.values():
        label = gettext(kind.label).format(key="").strip()
        if label:
            groups[label] = (*groups.get(label, ()), kind.name)
    return groups


def describe_verb(sentence: str) -> str:
    """The sentence without who did it to what."""
    return gettext(sentence).format(actor="…", target="…")
