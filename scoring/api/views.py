"""The endpoints: validate, call one service, answer with the row."""

from __future__ import annotations

from typing import Any, cast

from django.urls import reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from annotation.api.parsers import JSONParser
from annotation.api.scopes import InScope
from annotation.api.serializers import ErrorSerializer
from annotation.api.views import AssayView
from annotation.models import MANAGER, RESEARCHER, Person
from annotation.views.access import has_role
from scoring.api import serializers as s
from scoring.models import PredictionRequest, Scorer
from scoring.selectors.promotions import current_scorer_named
from scoring.selectors.requests import request_of
from scoring.selectors.scorers import scorer_named
from scoring.services.requests import request_predictions

REFUSALS = {
    code: OpenApiResponse(ErrorSerializer, why)
    for code, why in (
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


class IsResearchStaff(BasePermission):
    """For researchers and managers; nobody else's schema has these calls."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return has_role(cast("Person", request.user), RESEARCHER, MANAGER)


class Predictions(AssayView):
    permission_classes = (IsAuthenticated, InScope, IsResearchStaff)
    parser_classes = (LargeJSONParser,)

    @extend_schema(
        operation_id="predictions_ask",
        summary="Have a scorer predict texts: a job, whose results are read at the address in the answer",
        request=s.AskSerializer,
        responses={202: s.AskedSerializer, **refusals(400, 401, 403, 404, 409, 413, 422)},
    )
    def post(self, request: Request) -> Response:
        serializer = self.read(s.AskSerializer)
        prediction_request = request_predictions(
            scorer=_get_scorer(serializer.validated_data), items=serializer.build_items(), actor=self.person
        )
        body = _describe_request(prediction_request)
        return Response(s.AskedSerializer(body).data, status=202, headers={"Location": body["url"]})


class PredictionResult(AssayView):
    permission_classes = (IsAuthenticated, InScope, IsResearchStaff)

    @extend_schema(
        operation_id="predictions_result",
        summary="My request: its state and progress, and when it is done the predictions",
        responses={200: s.RequestSerializer, **refusals(401, 403, 404)},
    )
    def get(self, request: Request, request_id: int) -> Response:
        prediction_request = request_of(self.person, request_id)
        done = prediction_request.job.state == "done"
        body = {
            **_describe_request(prediction_request),
            "scorer": prediction_request.scorer.name,
            "guideline": prediction_request.scorer.guideline.name,
            "progress": prediction_request.job.progress,
            "error": prediction_request.job.why,
            "results": prediction_request.results if done else None,
        }
        return Response(s.RequestSerializer(body).data)


def _get_scorer(data: dict[str, Any]) -> Scorer:
    if "scorer" in data:
        return scorer_named(data["scorer"])
    return current_scorer_named(data["guideline"])


def _describe_request(prediction_request: PredictionRequest) -> dict[str, Any]:
    url = reverse("api-prediction", args=[prediction_request.pk])
    return {"id": prediction_request.pk, "url": url, "state": prediction_request.job.state}
