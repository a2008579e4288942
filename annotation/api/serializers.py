"""What the API takes and gives. Handouts are the frozen values of the selectors, never the models."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from annotation.api.fields import LabelsField, NumberField, StrictSerializer
from annotation.flags import FLAGS
from annotation.guidelines import Criterion
from annotation.models import Channel
from annotation.selectors.dispute_queue import BY_PROMPT, OLDEST_FIRST
from annotation.selectors.disputes import Dispute, reasons
from annotation.selectors.work import Handout
from annotation.services.work import Work

LONGEST_TEXT = 20_000
LONGEST_REASON = 500
DAY = 24 * 60 * 60


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
    level = NumberField(required=False, help_text="The level that it speaks for; else the one of the label.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["end"] <= attrs["start"]:
            raise serializers.ValidationError({"end": ["The end comes after the start."]})
        return attrs


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


class VerdictSerializer(StrictSerializer):
    labels = LabelsField(help_text="A level value for each disputed criterion.")
    rationale = serializers.CharField(
        default="", allow_blank=True, max_length=LONGEST_TEXT, trim_whitespace=False
    )
    seconds = NumberField(default=None, allow_null=True, min_value=0, max_value=DAY)

    def work(self, channel: Channel) -> Work:
        return Work(**self.validated_data, channel=channel)


class DecisionSerializer(VerdictSerializer):
    reason = serializers.CharField(
        max_length=50, help_text="The key of one of the reasons that came with the dispute."
    )


class WorkSerializer(VerdictSerializer):
    labels = LabelsField(help_text="A level value for each criterion that was handed out.")
    evidence = EvidenceSerializer(many=True, default=list)
    flags = serializers.ListField(
        child=serializers.ChoiceField(choices=sorted(FLAGS)), default=list, max_length=len(FLAGS)
    )


class CorrectionSerializer(WorkSerializer):
    reason = serializers.CharField(default="", allow_blank=True, max_length=LONGEST_REASON)


class SkipSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=LONGEST_REASON)


class NothingSerializer(StrictSerializer):
    """For calls that take no content."""


class LevelSerializer(serializers.Serializer[Any]):
    value = NumberField()
    requires = serializers.ListField(
        child=serializers.ChoiceField(choices=["evidence", "rationale"]),
        help_text="What a label with this value must bring along.",
    )
    name = serializers.DictField(child=serializers.CharField(), help_text="By language.")
    definition = serializers.DictField(child=serializers.CharField(), help_text="By language.")


class CriterionSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    question = serializers.DictField(child=serializers.CharField(), help_text="By language.")
    measurement = serializers.ChoiceField(choices=["nominal", "ordinal", "interval"])
    values = serializers.ListField(child=NumberField(), help_text="Every value that a label may take.")
    scale = LevelSerializer(many=True)


class TurnSerializer(serializers.Serializer[Any]):
    role = serializers.CharField(help_text="assistant: what is judged; user: what it answers.")
    text = serializers.CharField()


class HandoutSerializer(serializers.Serializer[Any]):
    assignment = serializers.UUIDField()
    lease_expires = serializers.DateTimeField()
    prompt = serializers.CharField()
    turns = TurnSerializer(many=True)
    criteria = CriterionSerializer(many=True)


def handout_body(item: Handout) -> dict[str, Any]:
    """What ``HandoutSerializer`` describes. A criterion of a published guideline is the same for ever, and long."""
    return {
        "assignment": item.assignment,
        "lease_expires": item.lease_expires,
        "prompt": item.prompt,
        "turns": [{"role": turn.role, "text": turn.text} for turn in item.turns],
        "criteria": [_criterion_body(item.guideline, criterion) for criterion in item.criteria],
    }


_CRITERIA: dict[tuple[str, str], Any] = {}


def _criterion_body(guideline: str, criterion: Criterion) -> Any:
    body = _CRITERIA.get((guideline, criterion.name))
    if body is None:
        body = _CRITERIA[guideline, criterion.name] = CriterionSerializer(criterion).data
    return body


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


def dispute_body(found: Dispute) -> dict[str, Any]:
    """What ``DisputeSerializer`` describes."""
    seen = found.verdict is not None
    return {
        **handout_body(found.handout),
        "verdict": OwnVerdictSerializer(found.verdict).data if seen else None,
        "sides": SideSerializer(found.sides, many=True).data if seen else None,
        "reasons": ReasonSerializer(reasons(), many=True).data,
    }


class FeedbackSerializer(serializers.Serializer[Any]):
    """This was an item whose labels are known. What was submitted stands."""

    given = serializers.DictField(child=NumberField(), help_text="What I said, by criterion.")
    known = serializers.DictField(child=NumberField(), help_text="What is right, by criterion.")
    explanation = serializers.CharField(help_text="Why; may be empty.")


class ReceiptSerializer(serializers.Serializer[Any]):
    receipt = serializers.UUIDField()
    assignment = serializers.UUIDField()
    revision = serializers.IntegerField()
    at = serializers.DateTimeField()
    feedback = FeedbackSerializer(
        allow_null=True,
        default=None,
        help_text="After a known item, where the batch tells people; else null.",
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


class ErrorDetailSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    fields = serializers.DictField(required=False, help_text="What is wrong in which field.")  # type: ignore[assignment]
    receipt = serializers.UUIDField(required=False, help_text="Of what was submitted before (409).")
    draft = serializers.BooleanField(
        required=False, help_text="True where what came too late is kept in the person's history (409)."
    )


class ErrorSerializer(serializers.Serializer[Any]):
    error = ErrorDetailSerializer()
