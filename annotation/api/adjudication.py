from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api import annotation_loop as s
from annotation.api.annotation_loop import (
    EvidenceSerializer,
    HandoutSerializer,
    LoopView,
    VerdictSerializer,
    build_item_body,
    receipt_response,
)
from annotation.api.base import KEY, NumberField, StrictSerializer, list_refusals
from annotation.domain.permissions import ADJUDICATE
from annotation.selectors.adjudication import (
    BY_PROMPT,
    OLDEST_FIRST,
    Dispute,
    DisputeFilter,
    build_dispute,
    get_open_dispute,
    list_reasons,
)
from annotation.selectors.batches import get_batch
from annotation.services import assignments
from annotation.services.adjudication.disputes import adjudicate, record_verdict


class NextDisputeSerializer(StrictSerializer):
    dimension = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=100,
        help_text="Only disputes of this dimension; empty: of any.",
    )
    order = serializers.ChoiceField(
        choices=[BY_PROMPT, OLDEST_FIRST],
        default=BY_PROMPT,
        help_text="What a manager put first is first; then prompt by prompt, or the oldest.",
    )


class DecisionSerializer(VerdictSerializer):
    reason = serializers.CharField(
        max_length=50, help_text="The key of one of the reasons that came with the dispute."
    )


class SideSerializer(serializers.Serializer[Any]):
    letter = serializers.CharField(help_text="A, B, ..: in an order that tells nothing.")
    labels = serializers.DictField(child=NumberField())
    rationale = serializers.CharField()
    evidence = serializers.ListField(child=EvidenceSerializer())
    flags = serializers.ListField(child=serializers.CharField())


class OwnVerdictSerializer(serializers.Serializer[Any]):
    labels = serializers.DictField(child=NumberField())
    rationale = serializers.CharField()


class ReasonSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    words = serializers.CharField(help_text="In the language that was asked for.")


class DisputeSerializer(HandoutSerializer):
    verdict = OwnVerdictSerializer(allow_null=True, help_text="Mine; null until I gave one.")
    sides = SideSerializer(many=True, allow_null=True, help_text="Null until I gave my verdict.")
    reasons = ReasonSerializer(many=True, help_text="Why annotators differ: a decision names one by its key.")


def build_dispute_body(dispute: Dispute) -> dict[str, Any]:
    """What ``DisputeSerializer`` describes."""
    has_verdict = dispute.verdict is not None
    return {
        **build_item_body(dispute.item),
        "verdict": OwnVerdictSerializer(dispute.verdict).data if has_verdict else None,
        "sides": SideSerializer(dispute.sides, many=True).data if has_verdict else None,
        "reasons": ReasonSerializer(list_reasons(), many=True).data,
    }


class NextDispute(LoopView):
    act = ADJUDICATE

    @extend_schema(
        operation_id="batches_next_dispute",
        summary="The dispute I am deciding, else a new one; with its annotations as A and B after my verdict",
        request=NextDisputeSerializer,
        responses={
            200: DisputeSerializer,
            204: OpenApiResponse(description="No dispute waits for this person now."),
            **list_refusals(400, 401, 403, 404),
        },
    )
    def post(self, request: Request, name: str) -> Response:
        dispute_filter = DisputeFilter(**self.parse(NextDisputeSerializer).validated_data)
        claim = assignments.claim_next_dispute(
            batch=get_batch(name), person=self.person, dispute_filter=dispute_filter
        )
        if claim is None:
            return Response(status=204)
        return Response(build_dispute_body(build_dispute(claim)))


class GiveVerdict(LoopView):
    act = ADJUDICATE

    @extend_schema(
        operation_id="assignments_verdict",
        summary="Say what I think of a dispute, before I see its annotations; once",
        request=s.VerdictSerializer,
        responses={200: DisputeSerializer, **list_refusals(400, 401, 403, 404, 409, 422)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.parse(s.VerdictSerializer).work(self.channel)
        record_verdict(assignment_id=assignment_id, person=self.person, work=work)
        return Response(build_dispute_body(build_dispute(get_open_dispute(assignment_id, self.person))))


class Adjudicate(LoopView):
    act = ADJUDICATE

    @extend_schema(
        operation_id="assignments_adjudicate",
        summary="Decide the disputed criteria of an item, after my verdict",
        parameters=[KEY],
        request=DecisionSerializer,
        responses={
            201: s.ReceiptSerializer,
            200: OpenApiResponse(s.ReceiptSerializer, "This key was answered before."),
            **list_refusals(400, 401, 403, 404, 409, 422),
        },
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.parse(DecisionSerializer).work(self.channel)
        receipt = adjudicate(assignment_id=assignment_id, person=self.person, key=self.key(), work=work)
        return receipt_response(receipt)
