"""The forms that add gold questions to a batch, and decide on somebody's qualification."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import Batch, GoldLabel, GoldQuestion, GoldRelease, Person
from annotation.selectors.access import sealed_batches
from annotation.selectors.releases.releases import list_releases
from annotation.services.batches.members import MAX_REASON_LENGTH
from annotation.services.gold_questions.gold_questions import MAX_ITEMS
from annotation.services.gold_questions.sources import RELIABLE_SOURCES

MAX_FILE_BYTES = 20 * 1024 * 1024
FROM_GOLD, FROM_FILE = "gold", "file"
LET_IN, AGAIN = "let_in", "again"


class KindForm(forms.Form):
    kind = forms.ChoiceField(
        label=_("Purpose"),
        choices=[
            (GoldQuestion.Kind.CHECK, _("Gold checks, mixed into the work")),
            (GoldQuestion.Kind.QUALIFICATION, _("The qualification before the work")),
        ],
        widget=forms.RadioSelect,
        initial=GoldQuestion.Kind.CHECK,
    )


class GoldForm(KindForm):
    """Which gold the items are drawn from: a release, or closed batches, that the person may open."""

    release = forms.ModelChoiceField(
        GoldRelease.objects.none(), label=_("Gold release"), required=False, to_field_name="name"
    )
    batches = forms.ModelMultipleChoiceField(
        Batch.objects.none(), label=_("Or closed batches"), required=False, to_field_name="name"
    )
    sources = forms.MultipleChoiceField(
        label=_("Gold that was"),
        choices=GoldLabel.Source.choices,
        widget=forms.CheckboxSelectMultiple,
        initial=list(RELIABLE_SOURCES),
    )
    number = forms.IntegerField(
        label=_("Number of items"),
        min_value=1,
        max_value=MAX_ITEMS,
        initial=50,
        help_text=_("Drawn so that each dimension and each level comes as often as it can."),
    )

    def __init__(self, data: Any = None, *, batch: Batch, reader: Person) -> None:
        super().__init__(data, prefix=FROM_GOLD)
        open_releases = [listed.release.pk for listed in list_releases(reader) if not listed.sealed]
        closed = Batch.objects.filter(state=Batch.State.CLOSED, guideline=batch.guideline_id)
        releases, batches = self.fields["release"], self.fields["batches"]
        assert isinstance(releases, forms.ModelChoiceField)
        assert isinstance(batches, forms.ModelMultipleChoiceField)
        releases.queryset = GoldRelease.objects.filter(pk__in=open_releases)
        batches.queryset = closed.exclude(pk=batch.pk).exclude(pk__in=sealed_batches(reader))

    @property
    def has_choices(self) -> bool:
        releases, batches = self.fields["release"], self.fields["batches"]
        assert isinstance(releases, forms.ModelChoiceField)
        assert isinstance(batches, forms.ModelChoiceField)
        return bool(releases.queryset or batches.queryset)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not self.errors and bool(data.get("release")) == bool(data.get("batches")):
            self.add_error("release", _("Choose a gold release or closed batches, one of the two."))
        return data


class GoldFileForm(KindForm):
    file = forms.FileField(
        label=_("File"),
        help_text=_(
            "JSON lines or CSV in UTF-8: prompt_id or prompt, model, labels (in CSV label.CRITERION), and explanation."
        ),
    )

    def __init__(self, data: Any = None, files: Any = None) -> None:
        super().__init__(data, files, prefix=FROM_FILE)

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file.size > MAX_FILE_BYTES:
            raise forms.ValidationError(_("This file is larger than 20 MiB; add the items in parts."))
        return file


class QualificationForm(forms.Form):
    """What becomes of somebody's qualification, and why."""

    action = forms.ChoiceField(choices=[(LET_IN, LET_IN), (AGAIN, AGAIN)])
    reason = forms.CharField(label=_("Reason"), max_length=MAX_REASON_LENGTH)
