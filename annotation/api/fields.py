"""What the serializers are made of: they refuse what they do not know and never guess at a type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

LARGEST = 1_000_000


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields that it does not have: a misspelled one must not be lost in silence."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(name) for name in data if name not in self.fields)
            if unknown:
                raise serializers.ValidationError(
                    {_printable(name): [_("There is no such field.")] for name in unknown}
                )
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.NUMBER)
class NumberField(serializers.Field[Any, Any, Any, Any]):
    """A finite JSON number within a million either way; whole ones stay whole."""

    default_error_messages = {"invalid": gettext_lazy("Give a number.")}

    def __init__(self, *, min_value: float = -LARGEST, max_value: float = LARGEST, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.min_value, self.max_value = min_value, max_value
        self.validators += [MinValueValidator(min_value), MaxValueValidator(max_value)]

    def to_internal_value(self, data: Any) -> int | float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        if isinstance(data, float) and not math.isfinite(data):
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class LabelsField(serializers.DictField):
    """``{criterion: level value}``."""

    child = NumberField()

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            name_field = serializers.CharField(max_length=100)
            for name in data:
                name_field.run_validation(name)
        return super().to_internal_value(data)


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()[:100]
