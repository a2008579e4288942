"""Batches: making one, its people, its progress, opening, pausing and closing it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
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
    NamesField,
    describe_part,
    list_manage_refusals,
    pick_models,
    to_answer,
)
from annotation.api.manage.jobs import JobSerializer, accept_job
from annotation.domain.batch_spec import MAX_OVERLAP, BatchSpec, Policy
from annotation.domain.permissions import MANAGE_BATCHES
from annotation.models import ADJUDICATOR, ANNOTATOR, Batch, Job, Membership, Task
from annotation.selectors.access import refuse_blind_judge, sealed_batches
from annotation.selectors.batches import get_batch
from annotation.selectors.batches.members import list_membership_counts
from annotation.selectors.batches.progress import list_batch_rows, measure_annotations, measure_progress
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.people import get_people, get_person
from annotation.services.batches.batches import create_or_enqueue_batch, set_state
from annotation.services.batches.members import join_batch, set_member_active
from annotation.services.idempotency import MadeAnswer

ROLES = (ANNOTATOR, ADJUDICATOR)
SETTABLE = (Batch.State.OPEN, Batch.State.PAUSED, Batch.State.CLOSED)
MAX_LEASE_SECONDS = 7 * 24 * 60 * 60
MAX_PAIRS = 1000


class BatchSerializer(serializers.Serializer[Any]):
    """What is null of a batch is sealed for me, because I work in it and it is not closed."""

    name = serializers.CharField()
    title = serializers.CharField(help_text="May be empty.")
    url = serializers.CharField()
    guideline = serializers.CharField(help_text="Name and version, as in flames@1.1.")
    state = serializers.ChoiceField(choices=Batch.State.choices)
    due = serializers.DateField(allow_null=True)
    tasks = serializers.IntegerField()
    settled = serializers.IntegerField(allow_null=True)
    disputed = serializers.IntegerField(allow_null=True)
    submitted = serializers.IntegerField(help_text="Annotations.")
    needed = serializers.IntegerField(help_text="Annotations that the plan asks for.")
    people = serializers.IntegerField()


class DimensionCountsSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Empty: of no dimension.")
    tasks = serializers.IntegerField()
    settled = serializers.IntegerField()
    disputed = serializers.IntegerField()
    needed = serializers.IntegerField(help_text="Annotations.")
    submitted = serializers.IntegerField(help_text="Annotations.")


class ProgressSerializer(serializers.Serializer[Any]):
    states = serializers.DictField(
        child=serializers.IntegerField(),
        help_text=f"The tasks by their state: {', '.join(Task.State.values)}.",
    )
    dimensions = DimensionCountsSerializer(many=True)
    disputes_waiting = serializers.IntegerField(source="waiting", help_text="That no adjudicator holds now.")
    corrections = serializers.IntegerField(help_text="Requests for correction that wait for a manager.")
    skips = serializers.IntegerField()


class BatchStateSerializer(BatchSerializer):
    progress = ProgressSerializer(allow_null=True)


class NewBatchSerializer(StrictSerializer):
    """What is left out is as the form of the page has it."""

    name = NameField()
    guideline = NameField(max_length=200, help_text="G, the latest published one, or G@V.")
    dataset = NameField()
    models = NamesField(help_text="Only the responses of these; empty: of all.")
    collection = NameField(
        required=False, allow_blank=True, help_text="Only the responses of this collection."
    )
    annotators = NamesField()
    adjudicators = NamesField()
    pairs = serializers.ListField(
        child=serializers.ListField(child=NameField(), max_length=5),
        default=list,
        max_length=MAX_PAIRS,
        help_text="Of the pairing fixed: who works with whom.",
    )
    quota = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=1_000_000,
        help_text="At most so many items for each annotator.",
    )
    draft = serializers.BooleanField(default=False, help_text="Do not open it yet.")
    overlap = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_OVERLAP, help_text="Annotations for each response."
    )
    overlap_share = NumberField(required=False, min_value=0, max_value=1)
    plan = serializers.ChoiceField(choices=Batch.Plan.choices, required=False)
    settling = serializers.ChoiceField(choices=Batch.Settling.choices, required=False)
    tolerance = NumberField(required=False, min_value=0)
    pairing = serializers.ChoiceField(choices=Batch.Pairing.choices, required=False)
    order = serializers.ChoiceField(choices=Batch.Order.choices, required=False)
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    lease_seconds = serializers.IntegerField(required=False, min_value=1, max_value=MAX_LEASE_SECONDS)
    due_date = serializers.DateField(required=False, allow_null=True)


class SetStateSerializer(StrictSerializer):
    state = serializers.ChoiceField(choices=[(state.value, state.label) for state in SETTABLE])


class BatchMemberSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=list(ROLES))
    is_active = serializers.BooleanField(help_text="False: they left.")
    quota = serializers.IntegerField(allow_null=True)
    done = serializers.IntegerField(allow_null=True, help_text="Null where the batch is sealed for me.")
    in_progress = serializers.IntegerField(allow_null=True)
    skipped = serializers.IntegerField(allow_null=True)
    planned = serializers.IntegerField(allow_null=True, help_text="Null where nothing is planned for them.")


class JoinSerializer(StrictSerializer):
    role = serializers.ChoiceField(choices=list(ROLES))
    people = NamesField(default=serializers.empty, allow_empty=False)


class JoinedSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=list(ROLES))
    people = serializers.ListField(child=serializers.CharField())
    planned = serializers.IntegerField(help_text="Items that were planned for others and are for them now.")


class ActiveSerializer(StrictSerializer):
    is_active = serializers.BooleanField(help_text="False: let them go; true: take them in again.")


BatchPart = describe_part(BatchSerializer, "Batch")
BatchMemberPart = describe_part(BatchMemberSerializer, "BatchMember")


class _BatchView(ManageView):
    act = MANAGE_BATCHES

    def describe_all(self, batches: Sequence[Batch]) -> Iterable[dict[str, Any]]:
        for row in list_batch_rows(batches, self.person):
            yield {
                "name": row.batch.name,
                "title": row.batch.title,
                "url": reverse("api-manage-batch", args=[row.batch.name]),
                "guideline": str(row.batch.guideline),
                "state": row.batch.state,
                "due": row.batch.due_date,
                "tasks": row.tasks,
                "settled": row.settled,
                "disputed": row.disputed,
                "submitted": row.overall.submitted,
                "needed": row.overall.needed,
                "people": row.people,
            }

    def describe(self, batch: Batch) -> dict[str, Any]:
        (body,) = self.describe_all([batch])
        return body

    def is_sealed(self, batch: Batch) -> bool:
        return sealed_batches(self.person).filter(pk=batch.pk).exists()


class Batches(_BatchView):
    @extend_schema(
        operation_id="manage_batches",
        summary="The batches of the study with their counts",
        parameters=[ListQuerySerializer],
        responses={200: BatchPart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        return self.answer_part(Batch.objects.select_related("guideline"), self.describe_all, BatchPart)


class BatchState(_BatchView):
    @extend_schema(
        operation_id="manage_batch",
        summary="A batch with its progress",
        responses={200: BatchStateSerializer, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        batch = get_batch(name)
        is_sealed = self.is_sealed(batch)
        counted = measure_annotations(batch, blind=is_sealed)
        body = {
            **self.describe(batch),
            "submitted": counted.submitted,
            "needed": counted.needed,
            "progress": None if is_sealed else measure_progress(batch),
        }
        return Response(BatchStateSerializer(body).data)


class CreateBatch(_BatchView):
    @extend_schema(
        operation_id="manage_batch_create",
        summary="Make a batch and open it, unless it is to be a draft; of very many responses a job makes it",
        parameters=[MAKE_KEY],
        request=NewBatchSerializer,
        responses={201: BatchSerializer, 202: JobSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(NewBatchSerializer).validated_data

        def create() -> MadeAnswer:
            made = create_or_enqueue_batch(self._build_spec(data), actor=self.person)
            if isinstance(made, Job):
                return accept_job(made)
            return to_answer(201, BatchSerializer, self.describe(get_batch(made.name)))

        return self.make_once(create)

    def _build_spec(self, data: dict[str, Any]) -> BatchSpec:
        dataset = get_dataset(data["dataset"])
        if data["models"]:
            refuse_blind_judge(self.person, dataset)
        return BatchSpec.model_validate(
            {
                "name": data["name"],
                "guideline": get_guideline(data["guideline"]),
                "dataset": dataset,
                "models": pick_models(self.person, data["models"]),
                "collection": data.get("collection"),
                "annotators": get_people(data["annotators"]),
                "adjudicators": get_people(data["adjudicators"]),
                "pairs": [get_people(pair) for pair in data["pairs"]],
                "quota": data.get("quota"),
                "policy": {name: data[name] for name in Policy.model_fields if name in data},
                "open_now": not data["draft"],
            }
        )


class SetBatchState(_BatchView):
    @extend_schema(
        operation_id="manage_batch_state",
        summary="Open, pause or close a batch; a closed one stays closed",
        request=SetStateSerializer,
        responses={200: BatchSerializer, **list_manage_refusals(404, 409, 413, 415)},
    )
    def post(self, request: Request, name: str) -> Response:
        batch = get_batch(name)
        set_state(
            batch=batch, state=self.parse(SetStateSerializer).validated_data["state"], actor=self.person
        )
        return Response(BatchSerializer(self.describe(get_batch(name))).data)


class BatchMembers(_BatchView):
    @extend_schema(
        operation_id="manage_batch_members",
        summary="Who works in the batch, and how much of it",
        parameters=[ListQuerySerializer],
        responses={200: BatchMemberPart, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        batch = get_batch(name)
        members = Membership.objects.filter(batch=batch).select_related("person")
        is_sealed = self.is_sealed(batch)

        def describe(listed: Sequence[Membership]) -> Iterable[dict[str, Any]]:
            ids = [member.pk for member in listed]
            counts = {} if is_sealed else list_membership_counts(Membership.objects.filter(pk__in=ids))
            for member in listed:
                counted = counts.get(member.pk)
                yield {
                    "name": member.person.username,
                    "role": member.role,
                    "is_active": member.active,
                    "quota": member.quota,
                    "done": None if counted is None else counted.done,
                    "in_progress": None if counted is None else counted.live,
                    "skipped": None if counted is None else counted.skipped,
                    "planned": None if counted is None else counted.planned,
                }

        return self.answer_part(members, describe, BatchMemberPart)


class JoinBatch(_BatchView):
    @extend_schema(
        operation_id="manage_batch_join",
        summary="Add people to a batch, also while it runs",
        parameters=[MAKE_KEY],
        request=JoinSerializer,
        responses={201: JoinedSerializer, **MAKE},
    )
    def post(self, request: Request, name: str) -> Response:
        batch = get_batch(name)
        data = self.parse(JoinSerializer).validated_data

        def join() -> MadeAnswer:
            people = get_people(data["people"])
            planned = join_batch(batch=batch, role=data["role"], people=people, actor=self.person)
            names = [person.username for person in people]
            return to_answer(
                201, JoinedSerializer, {"role": data["role"], "people": names, "planned": planned}
            )

        return self.make_once(join)


class SetMemberActive(_BatchView):
    @extend_schema(
        operation_id="manage_batch_member",
        summary="Let a member go, which gives their live claims back, or take them in again; twice is once",
        request=ActiveSerializer,
        responses={200: JoinedSerializer, **list_manage_refusals(404, 409, 413, 415)},
    )
    def post(self, request: Request, name: str, username: str, role: str) -> Response:
        batch, person = get_batch(name), get_person(username)
        is_active = self.parse(ActiveSerializer).validated_data["is_active"]
        planned = set_member_active(
            batch=batch, person=person, role=role, active=is_active, actor=self.person
        )
        body = {"role": role, "people": [person.username], "planned": planned}
        return Response(JoinedSerializer(body).data)
