"""The agreement of annotators, as the command prints it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import StrictSerializer
from annotation.api.manage.base import READ, ManageView, NameField, NamesField
from annotation.domain.permissions import READ_AGREEMENT
from annotation.selectors.agreement import FACETS
from annotation.selectors.batches import open_readable_batches
from annotation.selectors.reports import build_agreement


class AgreementQuerySerializer(StrictSerializer):
    batch = NamesField(
        help_text="Only these batches (may be repeated); none: all that I may read.", max_length=100
    )
    by = NameField(
        default="",
        allow_blank=True,
        help_text=f"a,b each grouping by itself, a*b crossed, of {', '.join(FACETS)}.",
    )


class AdjudicatorsSerializer(serializers.Serializer[Any]):
    drawn = serializers.IntegerField()
    waiting = serializers.IntegerField()
    rows = serializers.ListField(child=serializers.DictField())


class AgreementSerializer(serializers.Serializer[Any]):
    """What the command agreement prints with --json; a statistic is `{"value", "low", "high"}` or null."""

    rows = serializers.ListField(
        child=serializers.DictField(),
        help_text="A row for each criterion and group; `group` is empty for all, `criterion` null for all pooled.",
    )
    not_applicable = serializers.ListField(child=serializers.DictField())
    slates = serializers.ListField(child=serializers.DictField())
    intra_rater = serializers.ListField(child=serializers.DictField())
    coverage = serializers.DictField()
    adjudicators = AdjudicatorsSerializer()


class AgreementReport(ManageView):
    act = READ_AGREEMENT

    @extend_schema(
        operation_id="manage_agreement",
        summary="How well annotators agree, with 95% intervals over prompts",
        description="Whoever reads it opens the results of these batches: they cannot judge in them any more.",
        parameters=[AgreementQuerySerializer],
        responses={200: AgreementSerializer, **READ},
    )
    def get(self, request: Request) -> Response:
        query = self.read_query(AgreementQuerySerializer)
        batches = open_readable_batches(self.person, query["batch"])
        return Response(AgreementSerializer(build_agreement(batches, query["by"])).data)
