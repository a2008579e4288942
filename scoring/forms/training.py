"""What is to be trained: a new scorer, or one that is adapted to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from annotation.core.specs import MAX_SEED
from annotation.models import (
    EvaluatedModel,
    GoldRelease,
    Person,
)
from annotation.selectors.access import unsealed_models
from annotation.selectors.releases.releases import order_current_first
from scoring.domain.evaluation.soft_labels import DISTRIBUTION, LABEL
from scoring.domain.spec import Spec
from scoring.domain.training_spec import EVALUATIONS, GROUPED, MAX_SEEDS, TrainingSpec
from scoring.forms.predictions import set_choices
from scoring.models import Scorer
from scoring.selectors.scorers import list_open_releases, list_scorer_rows
from scoring.services.scorers.scorers import find_encoder_name, get_default_spec

KINDS = (
    (
        "ngram",
        _(
            "ngram: runs of words of prompt and response (of characters in Chinese), and how the response opens. No"
            " download; a few thousand labels take about a minute."
        ),
    ),
    (
        "encoder",
        _(
            "encoder: a pretrained transformer reads prompt and response. It needs its weights and the optional"
            " packages; tuned, and larger than small, it needs a GPU."
        ),
    ),
    (
        "ensemble",
        _(
            "ensemble: the average of both and of patterns (boosted trees on phrases of refusal and the shape of a"
            " response), weighted by what they do on held-out prompts and models; what does not help is left out. It"
            " costs what all of them cost."
        ),
    ),
)
TUNINGS = (
    (
        "frozen",
        _(
            "frozen: the encoder stays as it is, a linear head learns from what it reads. Minutes without a GPU."
        ),
    ),
    (
        "full",
        _("full: all of it learns. About ten minutes a fold for a small encoder on two cores; else a GPU."),
    ),
    ("lora", _("lora: small additions learn. For large models, whose full tuning finds no room on the GPU.")),
)
TARGETS = (
    (LABEL, _("The gold label")),
    (DISTRIBUTION, _("The share of the annotators that gave each level (soft labels)")),
)
EVALUATION_LABELS = {
    "leave-one-model-out": _(
        "Leave one model out: each model predicted from the others, that is what the scorer is worth on a model that"
        " nobody labelled. One training more for each model."
    ),
    "learning-curve": _(
        "Learning curve: what the next 200 labels would bring. Three times the trainings of the folds more."
    ),
}


def list_encoder_choices() -> list[tuple[str, Any]]:
    """The encoders by name; empty is the default one (``ASSAY_ENCODER``) where it has no name among them."""
    named = [(name, name) for name in settings.ASSAY_ENCODERS]
    if settings.ASSAY_ENCODER and not find_encoder_name(settings.ASSAY_ENCODER):
        return [("", _("%(folder)s (the default)") % {"folder": Path(settings.ASSAY_ENCODER).name}), *named]
    return named or [("", _("none is set up here"))]


class ReleaseField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: GoldRelease) -> str:
        superseded = f" · {_('superseded')}" if getattr(obj, "is_superseded", False) else ""
        return f"{obj.name} ({obj.labels}){superseded}"


class TrainingForm(forms.Form):
    """What a new scorer and an adaptation of one have in common."""

    name = forms.CharField(
        label=_("Name"),
        max_length=100,
        help_text=_("It is used in addresses and commands and shown on every board."),
    )
    release = ReleaseField(
        label=_("Gold release"),
        queryset=GoldRelease.objects.none(),
        to_field_name="name",
        empty_label=None,
        help_text=_("What it learns from; in brackets the number of labels."),
    )
    evaluate = forms.MultipleChoiceField(
        label=_("Also evaluate"),
        required=False,
        choices=[(name, EVALUATION_LABELS.get(name, name)) for name in EVALUATIONS if name != GROUPED],
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Five folds by prompt are always evaluated."),
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        initial=TrainingSpec.model_fields["seed"].default,
        min_value=0,
        max_value=MAX_SEED,
        help_text=_("The same release, backbone and seed give the same scorer."),
    )
    seeds = forms.IntegerField(
        label=_("Seeds"),
        required=False,
        min_value=1,
        max_value=MAX_SEEDS,
        help_text=_(
            "With how many seeds it is evaluated, to see how much is chance. Empty: three for a tuned encoder, else"
            " one. Each repeats the five folds."
        ),
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person = person
        known = GoldRelease.objects.filter(pk__in=[release.pk for release in list_open_releases(person)])
        set_choices(self, "release", order_current_first(known))

    @property
    def has_releases(self) -> bool:
        field = self.fields["release"]
        assert isinstance(field, forms.ModelChoiceField)
        return bool(field.queryset)

    def build_spec(self) -> TrainingSpec:
        """Of a form that is valid. Raises AssayError where its parts do not fit."""
        return TrainingSpec.model_validate(self.collect_fields())

    def collect_fields(self) -> dict[str, Any]:
        fields = ("name", "release", "evaluate", "seed", "seeds")
        return {name: self.cleaned_data[name] for name in fields}


class NewScorerForm(TrainingForm):
    kind = forms.ChoiceField(label=_("Backbone"), choices=KINDS, widget=forms.RadioSelect)
    encoder = forms.ChoiceField(
        label=_("Encoder"), required=False, help_text=_("As the settings name them (ASSAY_ENCODERS).")
    )
    tuning = forms.ChoiceField(
        label=_("Learning parts of the encoder"), choices=TUNINGS, widget=forms.RadioSelect, required=False
    )
    target = forms.ChoiceField(
        label=_("Learns"),
        choices=TARGETS,
        initial=LABEL,
        widget=forms.RadioSelect,
        required=False,
        help_text=_(
            "Soft labels are for ngram, a frozen encoder and an ensemble of these; accuracy and the gate go by gold as"
            " ever. On XSTest, where annotators seldom differ, they do not help."
        ),
    )
    field_order = ["name", "release", "target", "kind", "encoder", "tuning", "evaluate", "seeds", "seed"]

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        spec = get_default_spec()
        usual = {"kind": spec.kind, "encoder": find_encoder_name(spec.encoder), "tuning": spec.tuning}
        super().__init__(*args, person=person, **kwargs)
        field = self.fields["encoder"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = list_encoder_choices()
        self.initial = {**usual, **self.initial}

    def collect_fields(self) -> dict[str, Any]:
        data = self.cleaned_data
        backbone = Spec.from_request(
            data["kind"],
            encoder=settings.ASSAY_ENCODERS.get(data["encoder"], ""),
            tuning=data["tuning"],
            default_encoder=settings.ASSAY_ENCODER,
        )
        return super().collect_fields() | {"backbone": backbone, "target": data["target"] or LABEL}


class AdaptForm(TrainingForm):
    """A scorer again, from a release with labels of a further model; its backbone is that of the scorer."""

    base = forms.ModelChoiceField(
        label=_("Scorer"),
        queryset=Scorer.objects.none(),
        to_field_name="name",
        empty_label=None,
        help_text=_("What is adapted; it stays as it is, and the new scorer has its backbone."),
    )
    adapt_to = forms.ModelChoiceField(
        label=_("Model"),
        queryset=EvaluatedModel.objects.none(),
        to_field_name="name",
        empty_label=None,
        help_text=_(
            "The model whose responses it is to judge. The release must hold labels of it: 20 to 40 bring most of it."
        ),
    )
    field_order = ["base", "adapt_to", "release", "name", "evaluate", "seeds", "seed"]

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, person=person, **kwargs)
        ready = [row.scorer.pk for row in list_scorer_rows(person) if row.scorer.is_ready and not row.sealed]
        set_choices(self, "base", Scorer.objects.filter(pk__in=ready))
        set_choices(self, "adapt_to", unsealed_models(person).order_by("name"))
        self.initial.setdefault("release", self._fitting(self.initial.get("base", "")))

    def _fitting(self, base: str) -> str | None:
        """The newest release that follows the guideline of the scorer."""
        releases, scorer = self.fields["release"], Scorer.objects.filter(name=base).first()
        assert isinstance(releases, forms.ModelChoiceField)
        if scorer is None or releases.queryset is None:
            return None
        fitting = releases.queryset.filter(batches__guideline__name=scorer.guideline.name).first()
        return None if fitting is None else fitting.name

    def collect_fields(self) -> dict[str, Any]:
        return super().collect_fields() | {name: self.cleaned_data[name] for name in ("base", "adapt_to")}
