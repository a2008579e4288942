"""Scorers for programs: their cards, training one, and having the gate judge it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import NumberField, StrictSerializer
from annotation.api.manage.base import (
    MAKE,
    MAKE_KEY,
    READ,
    ListQuerySerializer,
    ManageView,
    NameField,
    describe_part,
    list_manage_refusals,
    to_answer,
)
from annotation.api.manage.jobs import JobSerializer, accept_job, find_job_url
from annotation.core.specs import MAX_SEED
from annotation.domain.permissions import PROMOTE_SCORER, READ_SCORERS, TRAIN_SCORER
from annotation.models import Job
from annotation.selectors.releases.releases import get_release_for
from annotation.services.idempotency import MadeAnswer
from scoring.domain.evaluation.soft_labels import LABEL, TARGETS
from scoring.domain.gate import MARGIN, MAX_MARGIN, MIN_MARGIN
from scoring.domain.training_spec import EVALUATIONS, GROUPED, MAX_SEEDS
from scoring.forms.training import KINDS, TUNINGS, AdaptForm, NewScorerForm
from scoring.models import Scorer
from scoring.selectors.gate import describe_promotion
from scoring.selectors.scorers import (
    get_scorer_for,
    list_scorer_rows,
    list_scorer_statuses,
    select_scorers,
)
from scoring.services import create_scorer, promote
from scoring.services.scorers.promotion import MAX_REASON_CHARACTERS
from scoring.services.scorers.scorers import find_encoder_name, get_default_spec

STATES = ("ready", *Job.State.values)


class ScorerSerializer(serializers.Serializer[Any]):
    """Of a scorer that is sealed for me, because I judge its responses blind, the name alone; the rest is null."""

    name = serializers.CharField()
    url = serializers.CharField()
    is_sealed = serializers.BooleanField()
    title = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(
        choices=list(STATES), allow_null=True, help_text="ready, or that of the job that trains it."
    )
    job = serializers.CharField(allow_null=True, help_text="The address of the job that trains it.")
    guideline = serializers.CharField(allow_null=True)
    release = serializers.CharField(allow_null=True)
    backbone = serializers.CharField(allow_null=True)
    standing = serializers.ChoiceField(
        choices=["current", "former", "never"],
        allow_null=True,
        help_text="Whether it is the current one of its guideline, was, or never.",
    )
    ready_at = serializers.DateTimeField(allow_null=True)


class ScorerCardSerializer(ScorerSerializer):
    card = serializers.DictField(help_text="What it is and how good; empty until it is ready.")
    evaluation = serializers.DictField(help_text="As the command train_scorer prints it.")
    promotion = serializers.DictField(
        allow_null=True, help_text="How it became the current one; null where it never did."
    )


class TrainSerializer(StrictSerializer):
    """A new scorer; with `base` and `adapt_to` an adaptation of a scorer to a model, on the backbone of the base."""

    name = NameField()
    release = NameField(help_text="The gold release it learns from.")
    backbone = serializers.ChoiceField(
        choices=[name for name, _label in KINDS], required=False, help_text="Usually the default one."
    )
    encoder = NameField(required=False, allow_blank=True, help_text="A name of ASSAY_ENCODERS.")
    tuning = serializers.ChoiceField(choices=[name for name, _label in TUNINGS], required=False)
    evaluate = serializers.ListField(
        child=serializers.ChoiceField(choices=list(EVALUATIONS)),
        default=list,
        max_length=len(EVALUATIONS),
        help_text=f"{GROUPED} is always done.",
    )
    seed = serializers.IntegerField(default=0, min_value=0, max_value=MAX_SEED)
    seeds = serializers.IntegerField(required=False, min_value=1, max_value=MAX_SEEDS)
    target = serializers.ChoiceField(choices=list(TARGETS), default=LABEL)
    base = NameField(required=False)
    adapt_to = NameField(required=False)


class TrainingSerializer(ScorerSerializer):
    """The scorer that is trained; ask its job how far it is."""


class PromoteSerializer(StrictSerializer):
    margin = NumberField(
        default=MARGIN,
        min_value=MIN_MARGIN,
        max_value=MAX_MARGIN,
        help_text="The loss of accuracy that is small enough, a fraction.",
    )
    reason = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=MAX_REASON_CHARACTERS,
        help_text="Promote also what is not listed to be as good; it stands with the promotion.",
    )


ScorerPart = describe_part(ScorerSerializer, "Scorer")


def describe_scorers(scorers: Sequence[Scorer], sealed: Iterable[int] = ()) -> Iterable[dict[str, Any]]:
    """What ``ScorerSerializer`` describes; of those whose ids are ``sealed`` the name alone."""
    hidden = frozenset(sealed)
    statuses = list_scorer_statuses([scorer for scorer in scorers if scorer.pk not in hidden])
    for scorer in scorers:
        is_sealed = scorer.pk in hidden
        body = {
            "name": scorer.name,
            "url": reverse("api-manage-scorer", args=[scorer.name]),
            "is_sealed": is_sealed,
        }
        names = ("title", "state", "job", "guideline", "release", "backbone", "standing", "ready_at")
        facts: dict[str, Any] = dict.fromkeys(names)
        if not is_sealed:
            facts = {
                "title": scorer.title,
                "state": scorer.state,
                "job": find_job_url(scorer.job),
                "guideline": str(scorer.guideline),
                "release": scorer.release.name,
                "backbone": scorer.backbone,
                "standing": statuses[scorer.pk].state,
                "ready_at": scorer.ready_at,
            }
        yield body | facts


def describe_scorer(scorer: Scorer) -> dict[str, Any]:
    (body,) = describe_scorers([scorer])
    return body


class Scorers(ManageView):
    act = READ_SCORERS

    @extend_schema(
        operation_id="manage_scorers",
        summary="The scorers of the study",
        parameters=[ListQuerySerializer],
        responses={200: ScorerPart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        return self.answer_part(select_scorers().defer("evaluation", "card"), self._describe, ScorerPart)

    def _describe(self, scorers: Sequence[Scorer]) -> Iterable[dict[str, Any]]:
        listed = select_scorers().filter(pk__in=[scorer.pk for scorer in scorers])
        rows = list_scorer_rows(self.person, listed)
        return describe_scorers(scorers, [row.scorer.pk for row in rows if row.sealed])


class ScorerCard(ManageView):
    act = READ_SCORERS

    @extend_schema(
        operation_id="manage_scorer",
        summary="A scorer with its card",
        description="Whoever reads it opens the results of its release: they cannot judge its batches any more.",
        responses={200: ScorerCardSerializer, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        scorer = get_scorer_for(self.person, name)
        body = {
            **describe_scorer(scorer),
            "card": scorer.card,
            "evaluation": scorer.evaluation,
            "promotion": describe_promotion(scorer, self.person),
        }
        return Response(ScorerCardSerializer(body).data)


class TrainScorer(ManageView):
    act = TRAIN_SCORER

    @extend_schema(
        operation_id="manage_scorer_train",
        summary="Train a scorer from a gold release: a job, which evaluates and registers it",
        parameters=[MAKE_KEY],
        request=TrainSerializer,
        responses={202: TrainingSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(TrainSerializer).validated_data
        # In a transaction of its own: who opened results has, also where the training is refused.
        get_release_for(self.person, data["release"])
        if "base" in data:
            get_scorer_for(self.person, data["base"])

        def train() -> MadeAnswer:
            form = self._build_form(data)
            if not form.is_valid():
                raise ValidationError(_name_errors(form.errors))
            scorer, job = create_scorer(form.build_spec(), actor=self.person)
            scorer.job = job
            return to_answer(202, TrainingSerializer, describe_scorer(scorer))

        return self.make_once(train)

    def _build_form(self, data: Mapping[str, Any]) -> AdaptForm | NewScorerForm:
        """The form of the page, filled in with what was sent and else with its usual values."""
        evaluate = [name for name in data["evaluate"] if name != GROUPED]
        fields = {**data, "evaluate": evaluate}
        if "base" in data or "adapt_to" in data:
            return AdaptForm(fields, person=self.person)
        spec = get_default_spec()
        usual = {"encoder": find_encoder_name(spec.encoder), "tuning": spec.tuning}
        if "backbone" in data and data["backbone"] != spec.kind:
            usual = {}
        return NewScorerForm({**usual, **fields, "kind": data.get("backbone", spec.kind)}, person=self.person)


def _name_errors(errors: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """By the names that the fields have here."""
    names = {"kind": "backbone"}
    return {names.get(name, name): [str(message) for message in listed] for name, listed in errors.items()}


class PromoteScorer(ManageView):
    act = PROMOTE_SCORER

    @extend_schema(
        operation_id="manage_scorer_promote",
        summary="Have the gate judge the scorer: a job, which makes it the current one if it passes",
        parameters=[MAKE_KEY],
        request=PromoteSerializer,
        responses={202: JobSerializer, **MAKE},
    )
    def post(self, request: Request, name: str) -> Response:
        scorer = get_scorer_for(self.person, name)
        data = self.parse(PromoteSerializer).validated_data

        def judge() -> MadeAnswer:
            job = promote(scorer=scorer, actor=self.person, margin=data["margin"], reason=data["reason"])
            return accept_job(job)

        return self.make_once(judge)
