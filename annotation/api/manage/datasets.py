"""Datasets with what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.manage.base import (
    READ,
    ListQuerySerializer,
    ManageView,
    describe_part,
    list_manage_refusals,
)
from annotation.domain.permissions import READ_DATA
from annotation.models import Dataset
from annotation.selectors.datasets import DatasetRow, count_parts, get_dataset, list_dataset_rows


class DatasetSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField(help_text="May be empty.")
    url = serializers.CharField()
    prompts = serializers.IntegerField()
    responses = serializers.IntegerField()
    batches = serializers.IntegerField()
    changed_at = serializers.DateTimeField(allow_null=True, help_text="When a file was last put in.")
    is_archived = serializers.BooleanField()
    is_borrowed = serializers.BooleanField(help_text="Another study owns it and shares it with this one.")


class CountsSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Empty: without one.")
    prompts = serializers.IntegerField()
    responses = serializers.IntegerField()


class DatasetContentSerializer(DatasetSerializer):
    dimensions = CountsSerializer(many=True)
    languages = CountsSerializer(many=True)
    sources = CountsSerializer(many=True, help_text="Those with the most prompts.")
    models = CountsSerializer(
        many=True, allow_null=True, help_text="Null where I judge responses of this dataset blind."
    )
    batch_names = serializers.ListField(child=serializers.CharField())


DatasetPart = describe_part(DatasetSerializer, "Dataset")


def _describe_row(row: DatasetRow) -> dict[str, Any]:
    return {
        "name": row.dataset.name,
        "title": row.dataset.title,
        "url": reverse("api-manage-dataset", args=[row.dataset.name]),
        "prompts": row.prompts,
        "responses": row.responses,
        "batches": row.batches,
        "changed_at": row.changed_at,
        "is_archived": row.dataset.archived_at is not None,
        "is_borrowed": row.dataset.is_borrowed,
    }


def _describe_all(datasets: Sequence[Dataset]) -> Iterable[dict[str, Any]]:
    rows = {
        row.dataset.pk: row
        for row in list_dataset_rows(Dataset.objects.filter(pk__in=[row.pk for row in datasets]))
    }
    return (_describe_row(rows[dataset.pk]) for dataset in datasets)


class Datasets(ManageView):
    act = READ_DATA

    @extend_schema(
        operation_id="manage_datasets",
        summary="The datasets with their sizes",
        parameters=[ListQuerySerializer],
        responses={200: DatasetPart, **list_manage_refusals()},
    )
    def get(self, request: Request) -> Response:
        return self.answer_part(Dataset.objects.all(), _describe_all, DatasetPart)


class DatasetContent(ManageView):
    act = READ_DATA

    @extend_schema(
        operation_id="manage_dataset",
        summary="What a dataset holds, by dimension, language, source and model",
        responses={200: DatasetContentSerializer, **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        dataset = get_dataset(name)
        parts = count_parts(dataset, self.person)
        (row,) = _describe_all([dataset])
        body = {
            **row,
            "dimensions": parts.dimensions,
            "languages": parts.languages,
            "sources": parts.sources,
            "models": parts.models,
            "batch_names": [batch.name for batch in parts.batches],
        }
        return Response(DatasetContentSerializer(body).data)
