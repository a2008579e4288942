"""The studies of whoever calls: which addresses a program may ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.manage.base import (
    ListQuerySerializer,
    ManageView,
    describe_part,
    list_manage_refusals,
)
from annotation.core.http import build_study_url
from annotation.domain.permissions import ROLES
from annotation.models import Study, StudyMembership
from annotation.selectors.access import list_visible_studies


class StudySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField(help_text="May be empty.")
    roles = serializers.ListField(
        child=serializers.ChoiceField(choices=list(ROLES)), help_text="Mine; an admin needs none."
    )
    url = serializers.CharField(
        help_text="Put it before the addresses of the API to say which study is meant."
    )


StudyPart = describe_part(StudySerializer, "Study")


class Studies(ManageView):
    @extend_schema(
        operation_id="manage_studies",
        summary="The studies in which I have a role",
        parameters=[ListQuerySerializer],
        responses={200: StudyPart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        visible = Study.objects.filter(pk__in=list_visible_studies(self.person), archived_at=None)
        return self.answer_part(visible, self._describe, StudyPart)

    def _describe(self, studies: Sequence[Study]) -> Iterable[dict[str, Any]]:
        memberships = StudyMembership.objects.filter(person=self.person, study__in=studies).order_by("role")
        roles: dict[int, list[str]] = {}
        for study_id, role in memberships.values_list("study", "role"):
            roles.setdefault(study_id, []).append(role)
        for study in studies:
            yield {
                "name": study.name,
                "title": study.title,
                "roles": roles.get(study.pk, []),
                "url": build_study_url(study.name),
            }
