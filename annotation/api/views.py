"""The endpoints: validate, call one service, answer with what a selector hands out."""

from __future__ import annotations

from typing import Any, TypeVar, cast
from uuid import UUID

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from annotation.api import serializers as s
from annotation.api.fields import StrictSerializer
from annotation.api.parsers import JSONParser
from annotation.errors import N_, AssayError
from annotation.models import Assignment, Channel, Person
from annotation.selectors.batches import batch_at_work, batch_named
from annotation.selectors.dispute_queue import Wanted
from annotation.selectors.disputes import dispute, my_dispute
from annotation.selectors.guidelines import guideline_at_work
from annotation.selectors.work import handout, my_batches
from annotation.services import distribution
from annotation.services.adjudications import adjudicate, record_verdict
from annotation.services.annotations import Receipt, revise, submit
from annotation.services.distribution import TooLate

LONGEST_KEY = 200
S = TypeVar("S", bound=StrictSerializer)

KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    required=True,
    description="Any text of yours up to 200 characters, a new one for each submission: a retry with the same "
    "key and body changes nothing and gets the same receipt.",
)
REFUSALS = {
    code: OpenApiResponse(s.ErrorSerializer, why)
    for code, why in (
        (400, "The content is not what this call takes."),
        (401, "Nobody is signed in."),
        (
            403,
            "The batch is not open, the person has not this role, or the token's scope does not reach this call.",
        ),
        (404, "There is no such thing for this person."),
        (409, "It comes too late, or was submitted before (with the receipt)."),
        (422, "Labels that the guideline does not allow, or the same key with other content."),
    )
}


def refusals(*codes: int) -> dict[int, OpenApiResponse]:
    return {code: REFUSALS[code] for code in codes}


class AssayView(APIView):
    parser_classes = (JSONParser,)

    @property
    def person(self) -> Person:
        return cast("Person", self.request.user)

    def read(self, serializer: type[S]) -> S:
        """The validated content of the request, or 400."""
        given = serializer(data=self.request.data)
        given.is_valid(raise_exception=True)
        return given

    def key(self) -> str:
        key: str = self.request.headers.get("Idempotency-Key", "")
        if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
            raise AssayError(
                N_("Send an Idempotency-Key header of 1 to {longest} printable characters."),
                longest=LONGEST_KEY,
            )
        return key


class LoopView(AssayView):
    """Of the annotation loop: what a token of the scope ``work`` reaches."""

    in_loop = True

    @property
    def channel(self) -> Channel:
        """By a token, or by a page: whoever is signed in by a session sits at a browser."""
        return Channel.TOKEN if self.request.auth else Channel.PAGE


class Batches(LoopView):
    @extend_schema(
        operation_id="batches_mine",
        summary="The open batches in which I work, with my progress",
        responses={200: s.MyBatchSerializer(many=True), **refusals(401, 403)},
    )
    def get(self, request: Request) -> Response:
        return Response(s.MyBatchSerializer(my_batches(self.person), many=True).data)


class BatchGuideline(LoopView):
    @extend_schema(
        operation_id="batches_guideline",
        summary="The guideline of a batch in which I work, with its introduction",
        responses={200: s.GuidelineSerializer, **refusals(401, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(s.GuidelineSerializer(guideline_at_work(name, self.person).document).data)


class Next(LoopView):
    @extend_schema(
        operation_id="batches_next",
        summary="My oldest live claim, else a new one",
        request=s.NextSerializer,
        responses={
            200: s.HandoutSerializer,
            204: OpenApiResponse(description="There is nothing for this person now."),
            **refusals(400, 401, 403, 404),
        },
    )
    def post(self, request: Request, name: str) -> Response:
        ahead = self.read(s.NextSerializer).validated_data["ahead"]
        claim = distribution.next_assignment(batch=batch_at_work(name), person=self.person, ahead=ahead)
        if claim is None:
            return Response(status=204)
        return Response(s.handout_body(handout(claim)))


class NextDispute(LoopView):
    @extend_schema(
        operation_id="batches_next_dispute",
        summary="The dispute I am deciding, else a new one; with its annotations as A and B after my verdict",
        request=s.NextDisputeSerializer,
        responses={
            200: s.DisputeSerializer,
            204: OpenApiResponse(description="No dispute waits for this person now."),
            **refusals(400, 401, 403, 404),
        },
    )
    def post(self, request: Request, name: str) -> Response:
        wanted = Wanted(**self.read(s.NextDisputeSerializer).validated_data)
        claim = distribution.next_dispute(batch=batch_named(name), person=self.person, wanted=wanted)
        if claim is None:
            return Response(status=204)
        return Response(s.dispute_body(dispute(claim)))


class Submit(LoopView):
    @extend_schema(
        operation_id="assignments_submit",
        summary="Submit the annotation of an item",
        parameters=[KEY],
        request=s.WorkSerializer,
        responses={
            201: s.ReceiptSerializer,
            200: OpenApiResponse(s.ReceiptSerializer, "This key was answered before."),
            **refusals(400, 401, 403, 404, 409, 422),
        },
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.read(s.WorkSerializer).work(self.channel)
        try:
            receipt = submit(assignment_id=assignment_id, person=self.person, key=self.key(), work=work)
        except TooLate as refusal:
            raise KeptAsDraft(refusal.template, **refusal.params) from refusal
        return _receipt(receipt)


class KeptAsDraft(TooLate):
    """What ``submit`` refused it has kept; the answer says so."""

    draft = True


class Revise(LoopView):
    @extend_schema(
        operation_id="assignments_revise",
        summary="Correct what I submitted",
        description=(
            "A new revision while the item is shown open to you. In a batch with gold checks items are shown closed"
            " some at a time: the revision is taken and read back, and where the item was settled before, it does not"
            " count and the manager reads it."
        ),
        parameters=[KEY],
        request=s.CorrectionSerializer,
        responses={
            201: s.ReceiptSerializer,
            200: OpenApiResponse(s.ReceiptSerializer, "This key was answered before."),
            202: OpenApiResponse(s.PassedOnSerializer, "The item is closed: the manager reads the request."),
            **refusals(400, 401, 403, 404, 409, 422),
        },
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.read(s.CorrectionSerializer).work(self.channel)
        receipt = revise(assignment_id=assignment_id, person=self.person, key=self.key(), work=work)
        if receipt is None:
            return Response({"message": _("This item is closed. Your correction went to the manager.")}, 202)
        return _receipt(receipt)


class GiveVerdict(LoopView):
    @extend_schema(
        operation_id="assignments_verdict",
        summary="Say what I think of a dispute, before I see its annotations; once",
        request=s.VerdictSerializer,
        responses={200: s.DisputeSerializer, **refusals(400, 401, 403, 404, 409, 422)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.read(s.VerdictSerializer).work(self.channel)
        record_verdict(assignment_id=assignment_id, person=self.person, work=work)
        return Response(s.dispute_body(dispute(my_dispute(assignment_id, self.person))))


class Adjudicate(LoopView):
    @extend_schema(
        operation_id="assignments_adjudicate",
        summary="Decide the disputed criteria of an item, after my verdict",
        parameters=[KEY],
        request=s.DecisionSerializer,
        responses={
            201: s.ReceiptSerializer,
            200: OpenApiResponse(s.ReceiptSerializer, "This key was answered before."),
            **refusals(400, 401, 403, 404, 409, 422),
        },
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.read(s.DecisionSerializer).work(self.channel)
        receipt = adjudicate(assignment_id=assignment_id, person=self.person, key=self.key(), work=work)
        return _receipt(receipt)


class Skip(LoopView):
    @extend_schema(
        operation_id="assignments_skip",
        summary="Give an item back for good, saying why",
        request=s.SkipSerializer,
        responses={200: s.ClaimSerializer, **refusals(400, 401, 403, 404, 409)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        reason = self.read(s.SkipSerializer).validated_data["reason"]
        claim = distribution.release(assignment_id=assignment_id, person=self.person, skip_reason=reason)
        return _claim(claim)


class Release(LoopView):
    @extend_schema(
        operation_id="assignments_release",
        summary="Give an item back for now; it may come again",
        request=s.NothingSerializer,
        responses={200: s.ClaimSerializer, **refusals(400, 401, 403, 404, 409)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        self.read(s.NothingSerializer)
        return _claim(distribution.release(assignment_id=assignment_id, person=self.person))


class Extend(LoopView):
    @extend_schema(
        operation_id="assignments_extend",
        summary="Start the lease of an item anew",
        request=s.NothingSerializer,
        responses={200: s.ClaimSerializer, **refusals(400, 401, 403, 404, 409)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        self.read(s.NothingSerializer)
        return _claim(distribution.extend_lease(assignment_id=assignment_id, person=self.person))


@extend_schema(exclude=True)
class Nowhere(APIView):
    """Any other address below the API: refused in the API's own shape, not as a page."""

    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound


def _receipt(receipt: Receipt) -> Response:
    return Response(s.ReceiptSerializer(receipt).data, status=201 if receipt.created else 200)


def _claim(claim: Assignment) -> Response:
    held = claim.state == Assignment.State.CLAIMED
    body = {
        "assignment": claim.pk,
        "state": claim.state,
        "lease_expires": claim.lease_expires if held else None,
    }
    return Response(s.ClaimSerializer(body).data)
