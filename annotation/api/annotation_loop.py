"""The endpoints of the annotation loop and their serializers.

An endpoint validates, calls one service, and answers with the frozen values of a selector, never with a model.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api import base
from annotation.api.base import (
    KEY,
    AssayView,
    LabelField,
    LabelsField,
    NumberField,
    StrictSerializer,
    list_refusals,
)
from annotation.domain.annotations import FLAGS, Submission
from annotation.domain.guidelines import Criterion
from annotation.domain.permissions import HANDLE_CLAIMS, LABEL, READ_OWN_GUIDELINE, READ_OWN_LABELS
from annotation.models import Assignment, Channel
from annotation.selectors.assignments.items import WorkItem, build_item
from annotation.selectors.batches import get_working_batch
from annotation.selectors.batches.own_progress import list_own_batches
from annotation.selectors.guidelines import get_working_guideline
from annotation.services import assignments
from annotation.services.annotations.submission import Receipt, revise, submit
from annotation.services.assignments import TooLate
from annotation.services.guidelines import record_introduction

MAX_TEXT_CHARACTERS = 20_000
MAX_REASON_CHARACTERS = 500
MAX_SECONDS = 24 * 60 * 60


class NextSerializer(StrictSerializer):
    ahead = serializers.BooleanField(default=False, help_text="Claim one more, at most two live.")


class EvidenceSerializer(StrictSerializer):
    """A span of a turn, in Unicode code points; ``end`` is the first one after it."""

    turn = serializers.IntegerField(min_value=0, max_value=1000)
    start = serializers.IntegerField(min_value=0, max_value=10_000_000)
    end = serializers.IntegerField(min_value=1, max_value=10_000_000)
    criterion = serializers.CharField(
        required=False,
        max_length=100,
        help_text="Of what it is evidence; may be left out where one is asked.",
    )
    level = NumberField(
        required=False,
        allow_null=True,
        help_text="The level, or option, that it speaks for; else the one of the label. Of a text null.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["end"] <= attrs["start"]:
            raise serializers.ValidationError({"end": ["The end comes after the start."]})
        return attrs


class VerdictSerializer(StrictSerializer):
    labels = LabelsField(help_text="A level value for each disputed criterion.")
    rationale = serializers.CharField(
        default="", allow_blank=True, max_length=MAX_TEXT_CHARACTERS, trim_whitespace=False
    )
    seconds = NumberField(default=None, allow_null=True, min_value=0, max_value=MAX_SECONDS)

    def work(self, channel: Channel) -> Submission:
        return Submission(**self.validated_data, channel=channel)


class WorkSerializer(VerdictSerializer):
    labels = LabelsField(
        help_text=(
            "An answer for each criterion that was assigned: the value of a level, the options that were chosen (a list"
            " of them or their sum), or a text; about a slate the place of an entry, or a ranking."
        )
    )
    evidence = EvidenceSerializer(many=True, default=list)
    flags = serializers.ListField(
        child=serializers.ChoiceField(choices=sorted(FLAGS)), default=list, max_length=len(FLAGS)
    )


class CorrectionSerializer(WorkSerializer):
    reason = serializers.CharField(default="", allow_blank=True, max_length=MAX_REASON_CHARACTERS)


class SkipSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=MAX_REASON_CHARACTERS)


class LevelSerializer(serializers.Serializer[Any]):
    value = NumberField()
    requires = serializers.ListField(
        child=serializers.ChoiceField(choices=["evidence", "rationale"]),
        help_text="What a label with this value must bring along.",
    )
    name = serializers.DictField(child=serializers.CharField(), help_text="By language.")
    definition = serializers.DictField(child=serializers.CharField(), help_text="By language.")


class AskedIfSerializer(serializers.Serializer[Any]):
    criterion = serializers.CharField()
    comparison = serializers.ChoiceField(choices=["is", "at_most", "at_least"])
    value = NumberField()


class CriterionSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    question = serializers.DictField(child=serializers.CharField(), help_text="By language.")
    kind = serializers.ChoiceField(
        choices=["level", "choice", "text"], help_text="Of what the answer is: a level, an option, or a text."
    )
    several = serializers.BooleanField(help_text="Whether several of the options may be chosen.")
    turn = serializers.IntegerField(
        allow_null=True, help_text="The turn that is asked about, counted from 0; null: the whole response."
    )
    max_length = serializers.IntegerField(
        source="text_limit", allow_null=True, help_text="The most characters of a text; else null."
    )
    measurement = serializers.ChoiceField(choices=["nominal", "ordinal", "interval"])
    values = serializers.ListField(
        child=NumberField(), help_text="Every value that a label may take, or every option; of a text none."
    )
    scale = LevelSerializer(many=True)
    na = serializers.BooleanField(help_text='Whether "na", not applicable, is an answer, too.')
    optional = serializers.BooleanField(help_text="Whether it may be left out.")
    asked_if = AskedIfSerializer(
        allow_null=True, help_text="Beside which answer it is asked; beside another it must be left out."
    )
    or_if = AskedIfSerializer(allow_null=True, help_text="A second answer beside which it is asked.")
    entries = serializers.ChoiceField(
        choices=["best", "ranking"],
        allow_null=True,
        help_text=(
            "What is asked about the entries of a slate. best: the place of the best; with several, places as 1, 2, 4,"
            " 8, 16. ranking: the rank of each entry from 1, the best, in the order of their places, as digits of a"
            " number or as a list. Null: nothing."
        ),
    )
    none = serializers.BooleanField(help_text="Whether 0 is an answer: no entry is good enough.")
    ties = serializers.BooleanField(
        help_text="Whether -1 is an answer, that no entry is better, or ranks may be shared."
    )


class EntrySerializer(serializers.Serializer[Any]):
    """A response of a slate."""

    place = serializers.IntegerField(help_text="What labels call it by, whatever the order.")
    turns = serializers.ListField(
        child=serializers.IntegerField(), help_text="Which of the turns are its own, counted from 0."
    )


class TurnSerializer(serializers.Serializer[Any]):
    role = serializers.CharField(help_text="assistant: what is judged; user: what it answers.")
    text = serializers.CharField()


class HandoutSerializer(serializers.Serializer[Any]):
    assignment = serializers.UUIDField()
    lease_expires = serializers.DateTimeField()
    prompt = serializers.CharField()
    turns = TurnSerializer(many=True)
    entries = EntrySerializer(
        many=True, help_text="Of a slate its responses, in the order in which to show them; else empty."
    )
    criteria = CriterionSerializer(many=True)


def build_item_body(item: WorkItem) -> dict[str, Any]:
    """What ``HandoutSerializer`` describes. A criterion of a published guideline is the same for ever, and long."""
    return {
        "assignment": item.assignment,
        "lease_expires": item.lease_expires,
        "prompt": item.prompt,
        "turns": [{"role": turn.role, "text": turn.text} for turn in item.turns],
        "entries": [{"place": place, "turns": turns} for place, turns in item.entries],
        "criteria": [find_criterion_body(item, criterion) for criterion in item.criteria],
    }


_CRITERIA: dict[tuple[str, str, str, tuple[int, ...]], Any] = {}


def find_criterion_body(item: WorkItem, criterion: Criterion) -> Any:
    subcomponent = item.subcomponent if criterion.has_subcomponent_texts else ""
    # How many answers there are, and what an entry is called, depend on the slate and its order.
    key = (item.guideline, criterion.name, subcomponent, item.order.places)
    body = _CRITERIA.get(key)
    if body is None:
        body = _CRITERIA[key] = CriterionSerializer(criterion).data
    return body


class FeedbackSerializer(serializers.Serializer[Any]):
    """This was an item whose labels are known. What was submitted stands."""

    given = serializers.DictField(source="labels", child=LabelField(), help_text="What I said, by criterion.")
    known = serializers.DictField(child=LabelField(), help_text="What is right, by criterion.")
    explanation = serializers.CharField(help_text="Why; may be empty.")


class ReceiptSerializer(serializers.Serializer[Any]):
    receipt = serializers.UUIDField()
    assignment = serializers.UUIDField()
    revision = serializers.IntegerField()
    at = serializers.DateTimeField()
    feedback = FeedbackSerializer(
        allow_null=True,
        default=None,
        help_text="After a gold question, where the batch tells people; else null.",
    )


class PassedOnSerializer(serializers.Serializer[Any]):
    message = serializers.CharField()


class ClaimSerializer(serializers.Serializer[Any]):
    """What became of a claim. ``lease_expires`` is null when it is no longer held."""

    assignment = serializers.UUIDField()
    state = serializers.ChoiceField(choices=["claimed", "released", "expired"])
    lease_expires = serializers.DateTimeField(allow_null=True)


class MyBatchSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(source="batch.name")
    role = serializers.ChoiceField(choices=["annotator", "adjudicator"])
    done = serializers.IntegerField(help_text="What this person finished.")
    left = serializers.IntegerField(help_text="What is there for this person to take.")
    due = serializers.DateField(allow_null=True)
    round = serializers.ChoiceField(
        choices=["", "running", "passed", "failed", "waived"],
        help_text="Of the qualification before the work; done and left count it while it runs. Empty: there is none.",
    )


class GuidelineSerializer(serializers.Serializer[Any]):
    """The version that a batch works with. The criteria of an item come with it."""

    name = serializers.CharField()
    version = serializers.CharField()
    sha256 = serializers.CharField()
    title = serializers.DictField(child=serializers.CharField(), help_text="By language.")
    introduction = serializers.DictField(
        child=serializers.CharField(), help_text="The rules, by language: read them before the first item."
    )


class LoopView(AssayView):
    """Of the annotation loop: what a token of the scope ``work`` reaches."""

    in_loop = True

    @property
    def channel(self) -> Channel:
        """By a token, or by a page: whoever is signed in by a session sits at a browser."""
        return Channel.TOKEN if self.request.auth else Channel.PAGE


class OwnBatches(LoopView):
    @extend_schema(
        operation_id="batches_mine",
        summary="The open batches in which I work, with my progress",
        responses={200: MyBatchSerializer(many=True), **list_refusals(401, 403)},
    )
    def get(self, request: Request) -> Response:
        return Response(MyBatchSerializer(list_own_batches(self.person), many=True).data)


class BatchGuideline(LoopView):
    act = READ_OWN_GUIDELINE

    @extend_schema(
        operation_id="batches_guideline",
        summary="The guideline of a batch in which I work, with its introduction",
        responses={200: GuidelineSerializer, **list_refusals(401, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(GuidelineSerializer(get_working_guideline(name, self.person).document).data)

    @extend_schema(
        operation_id="batches_guideline_read",
        summary="I have read the introduction of the batch's guideline",
        request=None,
        responses={
            204: OpenApiResponse(description="It is recorded; twice is once."),
            **list_refusals(401, 404),
        },
    )
    def post(self, request: Request, name: str) -> Response:
        record_introduction(batch=name, person=self.person)
        return Response(status=204)


class NextItem(LoopView):
    act = LABEL

    @extend_schema(
        operation_id="batches_next",
        summary="My oldest live claim, else a new one",
        request=NextSerializer,
        responses={
            200: HandoutSerializer,
            204: OpenApiResponse(description="There is nothing for this person now."),
            **list_refusals(400, 401, 403, 404),
        },
    )
    def post(self, request: Request, name: str) -> Response:
        ahead = self.parse(NextSerializer).validated_data["ahead"]
        claim = assignments.claim_next_task(batch=get_working_batch(name), person=self.person, ahead=ahead)
        if claim is None:
            return Response(status=204)
        return Response(build_item_body(build_item(claim)))


class Submit(LoopView):
    act = LABEL

    @extend_schema(
        operation_id="assignments_submit",
        summary="Submit the annotation of an item",
        parameters=[KEY],
        request=WorkSerializer,
        responses={
            201: ReceiptSerializer,
            200: OpenApiResponse(ReceiptSerializer, "This key was answered before."),
            **list_refusals(400, 401, 403, 404, 409, 422),
        },
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.parse(WorkSerializer).work(self.channel)
        try:
            receipt = submit(assignment_id=assignment_id, person=self.person, key=self.key(), work=work)
        except TooLate as refusal:
            raise KeptAsDraft(refusal.template, **refusal.params) from refusal
        return receipt_response(receipt)


class KeptAsDraft(TooLate):
    """What ``submit`` refused it has kept; the answer says so."""

    draft = True


class Revise(LoopView):
    act = READ_OWN_LABELS

    @extend_schema(
        operation_id="assignments_revise",
        summary="Correct what I submitted",
        description=(
            "A new revision while the item is shown open to you. In a batch with gold checks items are shown closed"
            " some at a time: the revision is taken and read back, and where the item was settled before, it does not"
            " count and the manager reads it."
        ),
        parameters=[KEY],
        request=CorrectionSerializer,
        responses={
            201: ReceiptSerializer,
            200: OpenApiResponse(ReceiptSerializer, "This key was answered before."),
            202: OpenApiResponse(PassedOnSerializer, "The item is closed: the manager reads the request."),
            **list_refusals(400, 401, 403, 404, 409, 422),
        },
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        work = self.parse(CorrectionSerializer).work(self.channel)
        receipt = revise(assignment_id=assignment_id, person=self.person, key=self.key(), work=work)
        if receipt is None:
            return Response({"message": _("This item is closed. Your correction went to the manager.")}, 202)
        return receipt_response(receipt)


class Skip(LoopView):
    act = HANDLE_CLAIMS

    @extend_schema(
        operation_id="assignments_skip",
        summary="Give an item back for good, saying why",
        request=SkipSerializer,
        responses={200: ClaimSerializer, **list_refusals(400, 401, 403, 404, 409)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        reason = self.parse(SkipSerializer).validated_data["reason"]
        claim = assignments.release_assignment(
            assignment_id=assignment_id, person=self.person, skip_reason=reason
        )
        return claim_response(claim)


class Release(LoopView):
    act = HANDLE_CLAIMS

    @extend_schema(
        operation_id="assignments_release",
        summary="Give an item back for now; it may come again",
        request=base.EmptySerializer,
        responses={200: ClaimSerializer, **list_refusals(400, 401, 403, 404, 409)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        self.parse(base.EmptySerializer)
        return claim_response(assignments.release_assignment(assignment_id=assignment_id, person=self.person))


class Extend(LoopView):
    act = HANDLE_CLAIMS

    @extend_schema(
        operation_id="assignments_extend",
        summary="Start the lease of an item anew",
        request=base.EmptySerializer,
        responses={200: ClaimSerializer, **list_refusals(400, 401, 403, 404, 409)},
    )
    def post(self, request: Request, assignment_id: UUID) -> Response:
        self.parse(base.EmptySerializer)
        return claim_response(assignments.extend_lease(assignment_id=assignment_id, person=self.person))


def receipt_response(receipt: Receipt) -> Response:
    return Response(ReceiptSerializer(receipt).data, status=201 if receipt.created else 200)


def claim_response(claim: Assignment) -> Response:
    held = claim.state == Assignment.State.CLAIMED
    body = {
        "assignment": claim.pk,
        "state": claim.state,
        "lease_expires": claim.lease_expires if held else None,
    }
    return Response(ClaimSerializer(body).data)
