"""What the pages of scoring take in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import GoldRelease, Person
from annotation.selectors.gold import current_first
from scoring.selectors.scorers import releases_open_to
from scoring.services.scorers import GROUPED, LARGEST_SEED, LEAVE_ONE_MODEL_OUT

EMBEDDED, OWN = "embedded", "own"


class ReleaseField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: GoldRelease) -> str:
        superseded = f" · {_('superseded')}" if getattr(obj, "is_superseded", False) else ""
        return f"{obj.name} ({obj.labels}){superseded}"


class NewScorerForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("It stands in addresses, commands and on every board.")
    )
    release = ReleaseField(
        label=_("Gold release"),
        queryset=GoldRelease.objects.none(),
        to_field_name="name",
        empty_label=None,
        help_text=_("What it learns from; in brackets the number of labels."),
    )
    kind = forms.ChoiceField(
        label=_("Backbone"),
        choices=[
            (EMBEDDED, _("Embedded: char-ngram, no pretrained weights")),
            (OWN, _("A pretrained transformer")),
        ],
        initial=EMBEDDED,
        widget=forms.RadioSelect,
        help_text=_(
            "The embedded one learns from runs of characters alone, in any language. It needs no download and is "
            "trained in about a minute on two cores. A pretrained transformer reads better; it needs its weights, "
            "the optional packages, and for more than small models a GPU."
        ),
    )
    backbone = forms.CharField(
        label=_("Folder or hub name of the transformer"),
        required=False,
        max_length=300,
        help_text=_(
            "A folder on the worker's machine, or a name on the Hugging Face hub such as xlm-roberta-base."
        ),
    )
    leave_one_model_out = forms.BooleanField(
        label=_("Leave one model out as well"),
        required=False,
        help_text=_(
            "Five folds by prompt are always evaluated. This also predicts each model from the others: what the "
            "scorer is worth on a model that nobody labelled. It takes a training more for each model."
        ),
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        initial=0,
        min_value=0,
        max_value=LARGEST_SEED,
        help_text=_("The same release, backbone and seed give the same scorer."),
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["release"]
        assert isinstance(field, forms.ModelChoiceField)
        known = GoldRelease.objects.filter(pk__in=[one.pk for one in releases_open_to(person)])
        field.queryset = current_first(known)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("kind") == OWN and not cleaned.get("backbone"):
            self.add_error("backbone", _("Say which: a folder or a hub name."))
        return cleaned

    def options(self) -> dict[str, Any]:
        """What ``create_scorer`` takes."""
        given = self.cleaned_data
        evaluate = [GROUPED, LEAVE_ONE_MODEL_OUT] if given["leave_one_model_out"] else [GROUPED]
        return {
            "name": given["name"],
            "release": given["release"],
            "backbone": given["backbone"] if given["kind"] == OWN else "",
            "evaluate": evaluate,
            "seed": given["seed"],
        }
