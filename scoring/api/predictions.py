"""What the API of scoring takes and gives.

The endpoints: validate, call one service, answer with the row.
"""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import (
    ErrorSerializer,
    JSONParser,
    NumberField,
    StrictSerializer,
)
from annotation.api.manage.base import ManageView
from annotation.domain.permissions import REQUEST_PREDICTIONS
from annotation.models import Job
from scoring.models import PredictionRequest, Scorer
from scoring.selectors.predictions import get_prediction_request
from scoring.selectors.scorers import get_current_scorer, get_scorer
from scoring.services.predictions.requests import (
    MAX_ITEMS,
    OUT_OF_FOLD,
    UNSEEN,
    PredictionItem,
    request_predictions,
)

MAX_TEXT_CHARACTERS = 100_000
MAX_TURNS = 200
MAX_ERRORS = 20


class TextTurnSerializer(StrictSerializer):
    role = serializers.CharField(max_length=50)
    text = serializers.CharField(max_length=MAX_TEXT_CHARACTERS, allow_blank=True, trim_whitespace=False)


class ItemListSerializer(serializers.ListSerializer[Any]):
    """Says what is wrong by the place of the item (from 0), and of the first of them alone."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return super().to_internal_value(data)
        except ValidationError as error:
            if not isinstance(error.detail, list):
                raise
            wrong = [
                (str(place), error_detail) for place, error_detail in enumerate(error.detail) if error_detail
            ]
            raise ValidationError(dict(wrong[:MAX_ERRORS])) from error


class ItemSerializer(StrictSerializer):
    """A prompt with a response, or with the turns of a dialogue in its place."""

    prompt = serializers.CharField(max_length=MAX_TEXT_CHARACTERS, trim_whitespace=False)
    response = serializers.CharField(
        required=False, max_length=MAX_TEXT_CHARACTERS, allow_blank=True, trim_whitespace=False
    )
    turns = TextTurnSerializer(  # type: ignore[call-arg]
        many=True, required=False, allow_empty=False, max_length=MAX_TURNS
    )
    dimension = serializers.CharField(
        required=False,
        max_length=100,
        help_text="Of the prompt; needed where the guideline asks by dimension.",
    )

    class Meta:
        list_serializer_class = ItemListSerializer

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("response" in attrs) == ("turns" in attrs):
            raise ValidationError({"response": [_("Give either the response or the turns of a dialogue.")]})
        return attrs


class AskSerializer(StrictSerializer):
    """Name the scorer, or a guideline whose current scorer is to predict."""

    scorer = serializers.CharField(required=False, max_length=100)
    guideline = serializers.CharField(
        required=False, max_length=100, help_text="In place of the scorer: its current one."
    )
    items = ItemSerializer(many=True, allow_empty=False, max_length=MAX_ITEMS)  # type: ignore[call-arg]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("scorer" in attrs) == ("guideline" in attrs):
            raise ValidationError({"scorer": [_("Name either a scorer or a guideline.")]})
        return attrs

    def build_items(self) -> list[PredictionItem]:
        return [_build_item(item) for item in self.validated_data["items"]]


def _build_item(data: dict[str, Any]) -> PredictionItem:
    return PredictionItem(
        prompt=data["prompt"],
        response=data.get("response", ""),
        turns=tuple((turn["role"], turn["text"]) for turn in data.get("turns", ())),
        dimension=data.get("dimension"),
    )


class AskedSerializer(serializers.Serializer[Any]):
    """A request that was taken. Ask its address again until ``state`` is done, failed or cancelled."""

    id = serializers.IntegerField()
    url = serializers.CharField(help_text="The address of the request.")
    state = serializers.ChoiceField(choices=Job.State.choices)


class CriterionAnswerSerializer(serializers.Serializer[Any]):
    value = NumberField(help_text="The most likely level.")
    probabilities = serializers.DictField(child=NumberField(), help_text="By level.")
    set = serializers.ListField(
        child=NumberField(),
        allow_null=True,
        help_text="The levels that hold the true one nine times in ten, for responses like those that were labelled; "
        "it promises nothing for a model without labels. Null where the scorer's card has no thresholds.",
    )
    abstained = serializers.BooleanField(
        allow_null=True, help_text="The set is not a single level: a person should decide."
    )


class AnswerSerializer(serializers.Serializer[Any]):
    basis = serializers.ChoiceField(
        choices=[OUT_OF_FOLD, UNSEEN],
        help_text="out_of_fold: these texts are in the scorer's release, and a model that had not seen them answers.",
    )
    criteria = serializers.DictField(
        child=CriterionAnswerSerializer(allow_null=True),
        help_text="By criterion; null where the scorer had no labels to learn it from.",
    )


class RequestSerializer(AskedSerializer):
    scorer = serializers.CharField()
    guideline = serializers.CharField()
    progress = NumberField(help_text="From 0 to 1.")
    error = serializers.CharField(help_text="Why it failed; else empty.")
    results = serializers.ListField(
        child=AnswerSerializer(),
        allow_null=True,
        help_text="One for each item, in order; null until it is done.",
    )


REFUSALS = {
    code: OpenApiResponse(ErrorSerializer, description)
    for code, description in (
        (
            400,
            "The content is not what this call takes; `fields` names the items that are wrong by their place.",
        ),
        (401, "Nobody is signed in."),
        (
            403,
            "Neither a researcher nor a manager, the scorer's results are sealed, or the token's scope is too narrow.",
        ),
        (404, "There is no such thing for this person."),
        (409, "The scorer is not trained to its end, or the guideline has no current one."),
        (413, "The content is larger than 8 MiB."),
        (422, "An item's dimension does not fit the guideline."),
    )
}


def refusals(*codes: int) -> dict[int, OpenApiResponse]:
    return {code: REFUSALS[code] for code in codes}


class LargeJSONParser(JSONParser):
    """Thousands of texts at once."""

    largest = 8 * 1024 * 1024


class Predictions(ManageView):
    act = REQUEST_PREDICTIONS
    parser_classes = (LargeJSONParser,)

    @extend_schema(
        operation_id="predictions_ask",
        summary="Have a scorer predict texts: a job, whose results are read at the address in the answer",
        request=AskSerializer,
        responses={202: AskedSerializer, **refusals(400, 401, 403, 404, 409, 413, 422)},
    )
    def post(self, request: Request) -> Response:
        serializer = self.parse(AskSerializer)
        prediction_request = request_predictions(
            scorer=_get_scorer(serializer.validated_data), items=serializer.build_items(), actor=self.person
        )
        body = _describe_request(prediction_request)
        return Response(AskedSerializer(body).data, status=202, headers={"Location": body["url"]})


class PredictionResult(ManageView):
    act = REQUEST_PREDICTIONS

    @extend_schema(
        operation_id="predictions_result",
        summary="My request: its state and progress, and when it is done the predictions",
        responses={200: RequestSerializer, **refusals(401, 403, 404)},
    )
    def get(self, request: Request, request_id: int) -> Response:
        prediction_request = get_prediction_request(self.person, request_id)
        done = prediction_request.job.state == "done"
        body = {
            **_describe_request(prediction_request),
            "scorer": prediction_request.scorer.name,
            "guideline": prediction_request.scorer.guideline.name,
            "progress": prediction_request.job.progress,
            "error": prediction_request.job.error_text,
            "results": prediction_request.results if done else None,
        }
        return Response(RequestSerializer(body).data)


def _get_scorer(data: dict[str, Any]) -> Scorer:
    if "scorer" in data:
        return get_scorer(data["scorer"])
    return get_current_scorer(data["guideline"])


def _describe_request(prediction_request: PredictionRequest) -> dict[str, Any]:
    url = reverse("api-prediction", args=[prediction_request.pk])
    return {"id": prediction_request.pk, "url": url, "state": prediction_request.job.state}
