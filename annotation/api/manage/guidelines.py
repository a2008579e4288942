"""Guidelines: their versions, and putting one in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import StrictSerializer
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
from annotation.domain.permissions import READ_GUIDELINES, WRITE_GUIDELINES
from annotation.models import Guideline
from annotation.selectors.access import may
from annotation.selectors.guidelines import get_guideline_version
from annotation.services.guidelines import load_guideline, publish_guideline
from annotation.services.idempotency import MadeAnswer

MAX_SOURCE_CHARACTERS = 500_000


class GuidelineVersionSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.CharField()
    url = serializers.CharField()
    title = serializers.DictField(child=serializers.CharField(), help_text="By language.")
    sha256 = serializers.CharField()
    published_at = serializers.DateTimeField(
        allow_null=True, help_text="From then on it never changes; null: a draft, which managers alone see."
    )


class GuidelineTextSerializer(GuidelineVersionSerializer):
    text = serializers.CharField(help_text="The YAML as it was loaded.")


class LoadGuidelineSerializer(StrictSerializer):
    text = serializers.CharField(
        max_length=MAX_SOURCE_CHARACTERS, trim_whitespace=False, help_text="The YAML document."
    )
    file_name = NameField(default="guideline.yaml", help_text="What errors call the document.")
    publish = serializers.BooleanField(default=False, help_text="Publish it at once: it never changes after.")


GuidelinePart = describe_part(GuidelineVersionSerializer, "GuidelineVersion")


def describe_guideline(guideline: Guideline) -> dict[str, Any]:
    """What ``GuidelineVersionSerializer`` describes."""
    return {
        "name": guideline.name,
        "version": guideline.version,
        "url": reverse("api-manage-guideline", args=[guideline.name, guideline.version]),
        "title": guideline.document.title,
        "sha256": guideline.sha256,
        "published_at": guideline.published_at,
    }


def _describe_all(guidelines: Sequence[Guideline]) -> Iterable[dict[str, Any]]:
    return (describe_guideline(guideline) for guideline in guidelines)


class Guidelines(ManageView):
    act = READ_GUIDELINES

    @extend_schema(
        operation_id="manage_guidelines",
        summary="The versions of all guidelines; drafts are for managers",
        parameters=[ListQuerySerializer],
        responses={200: GuidelinePart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        guidelines = Guideline.objects.defer("source")
        if not may(self.person, WRITE_GUIDELINES):
            guidelines = guidelines.exclude(published_at=None)
        return self.answer_part(guidelines, _describe_all, GuidelinePart)


class ReadGuideline(ManageView):
    act = READ_GUIDELINES

    @extend_schema(
        operation_id="manage_guideline",
        summary="A version of a guideline, with its YAML document",
        responses={200: GuidelineTextSerializer, **READ},
    )
    def get(self, request: Request, name: str, version: str) -> Response:
        guideline = get_guideline_version(name, version, drafts=may(self.person, WRITE_GUIDELINES))
        body = {**describe_guideline(guideline), "text": guideline.source}
        return Response(GuidelineTextSerializer(body).data)


class LoadGuideline(ManageView):
    act = WRITE_GUIDELINES

    @extend_schema(
        operation_id="manage_guideline_load",
        summary="Check and store a guideline version; a draft of this version is replaced",
        parameters=[MAKE_KEY],
        request=LoadGuidelineSerializer,
        responses={201: GuidelineVersionSerializer, **MAKE},
    )
    def post(self, request: Request) -> Response:
        data = self.parse(LoadGuidelineSerializer).validated_data

        def load() -> MadeAnswer:
            guideline = load_guideline(
                text=data["text"], path=data["file_name"], publish=data["publish"], actor=self.person
            )
            return to_answer(201, GuidelineVersionSerializer, describe_guideline(guideline))

        return self.make_once(load)


class PublishGuideline(ManageView):
    act = WRITE_GUIDELINES

    @extend_schema(
        operation_id="manage_guideline_publish",
        summary="Publish a version: it never changes after; twice changes nothing",
        request=None,
        responses={200: GuidelineVersionSerializer, **list_manage_refusals(404, 409, 413, 415)},
    )
    def post(self, request: Request, name: str, version: str) -> Response:
        guideline = get_guideline_version(name, version, drafts=True)
        published = publish_guideline(guideline=guideline, actor=self.person)
        return Response(GuidelineVersionSerializer(describe_guideline(published)).data)
