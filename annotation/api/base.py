"""What the serializers are made of: they refuse what they do not know and never guess at a type."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, cast

from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import APIException, NotFound, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.views import APIView

from annotation.core.errors import N_, AssayError
from annotation.core.http import enter_study
from annotation.domain.formats.rows import ESCAPED_NUL
from annotation.domain.guidelines import NA
from annotation.domain.guidelines.criteria import MAX_OPTIONS, MAX_TEXT
from annotation.models import Person
from annotation.selectors.studies import SAY_WHICH, locate

MAX_NUMBER = 1_000_000


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields that it does not have: a misspelled one must not be lost in silence."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(name) for name in data if name not in self.fields)
            if unknown:
                raise serializers.ValidationError(
                    {to_printable(name): [_("There is no such field.")] for name in unknown}
                )
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.NUMBER)
class NumberField(serializers.Field[Any, Any, Any, Any]):
    """A finite JSON number within a million either way; whole ones stay whole."""

    default_error_messages = {"invalid": gettext_lazy("Give a number.")}

    def __init__(
        self, *, min_value: float = -MAX_NUMBER, max_value: float = MAX_NUMBER, **kwargs: Any
    ) -> None:
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


class LabelField(NumberField):
    """A level's value, or "na" where the criterion allows that it is not applicable."""

    def to_internal_value(self, data: Any) -> Any:
        return NA if data == NA else super().to_internal_value(data)

    def run_validators(self, value: Any) -> None:
        if value != NA:
            super().run_validators(value)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "number"},
            {"type": "string", "maxLength": MAX_TEXT},
            {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": MAX_OPTIONS},
        ]
    }
)
class AnswerField(LabelField):
    """A level's value or "na", the options that were chosen (their sum, or a list of them), or a text."""

    default_error_messages = {"invalid": gettext_lazy("Give a number, a list of numbers, or a text.")}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str):
            return serializers.CharField(max_length=MAX_TEXT, trim_whitespace=False).run_validation(data)
        if isinstance(data, list):
            options = serializers.ListField(child=NumberField(), allow_empty=False, max_length=MAX_OPTIONS)
            return options.run_validation(data)
        return super().to_internal_value(data)

    def run_validators(self, value: Any) -> None:
        if not isinstance(value, str | list):
            super().run_validators(value)


class LabelsField(serializers.DictField):
    """``{criterion: answer}``."""

    child = AnswerField()

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            name_field = serializers.CharField(max_length=100)
            for name in data:
                name_field.run_validation(name)
        return super().to_internal_value(data)


def to_printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()[:100]


MAX_BODY_BYTES = 1024 * 1024


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"


class JSONParser(BaseParser):
    """JSON in UTF-8 and nothing else: no NaN, no endless nesting, no body that fills the memory."""

    media_type = "application/json"
    largest = MAX_BODY_BYTES

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(self.largest + 1)
        if len(body) > self.largest:
            raise TooLarge(_("The content is too large."))
        try:
            data = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
            _refuse_half_characters(data)
        except (ValueError, RecursionError) as error:
            raise ParseError(_("The content is not JSON.")) from error
        return data


def _refuse_half_characters(data: Any) -> None:
    """Half a character (a lone surrogate) or a NUL can be written in JSON, and neither stored nor sent back."""
    text = json.dumps(data, ensure_ascii=False)
    text.encode("utf-8")
    if ESCAPED_NUL.search(text):
        raise ValueError("NUL")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


class EmptySerializer(StrictSerializer):
    """For calls that take no content."""


class ProblemSerializer(serializers.Serializer[Any]):
    """Something that is wrong with a file."""

    message = serializers.CharField(help_text="What is wrong, and how to mend it.")
    line = serializers.IntegerField(allow_null=True, help_text="From 1; null: of the whole file.")
    field = serializers.CharField(allow_null=True)


class ErrorDetailSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    fields = serializers.DictField(required=False, help_text="What is wrong in which field.")  # type: ignore[assignment]
    receipt = serializers.UUIDField(required=False, help_text="Of what was submitted before (409).")
    draft = serializers.BooleanField(
        required=False, help_text="True where what came too late is kept in the person's history (409)."
    )
    problems = ProblemSerializer(
        many=True, required=False, help_text="What is wrong with a file that was refused: the first of it."
    )


class ErrorSerializer(serializers.Serializer[Any]):
    error = ErrorDetailSerializer()


MAX_KEY_CHARACTERS = 200
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
    code: OpenApiResponse(ErrorSerializer, description)
    for code, description in (
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


def list_refusals(*codes: int) -> dict[int, OpenApiResponse]:
    return {code: REFUSALS[code] for code in codes}


class AssayView(APIView):
    parser_classes: tuple[type[BaseParser], ...] = (JSONParser,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Of who is signed in by a token, too, the call is limited to its study."""
        super().initial(request, *args, **kwargs)
        match = request.resolver_match
        if request.user.is_authenticated and match is not None:
            located = locate(self.person, getattr(request._request, "study_name", None), match.route, kwargs)
            enter_study(located.studies, located.name)
            if request.method not in SAFE_METHODS:
                located.check_writable()
            if located.is_open:
                raise AssayError(SAY_WHICH)

    @property
    def person(self) -> Person:
        return cast("Person", self.request.user)

    def parse(self, serializer: type[S]) -> S:
        """The validated content of the request, or 400."""
        serializer_of_request = serializer(data=self.request.data)
        serializer_of_request.is_valid(raise_exception=True)
        return serializer_of_request

    def key(self) -> str:
        key: str = self.request.headers.get("Idempotency-Key", "")
        if not 0 < len(key) <= MAX_KEY_CHARACTERS or not key.isprintable():
            raise AssayError(
                N_("Send an Idempotency-Key header of 1 to {longest} printable characters."),
                longest=MAX_KEY_CHARACTERS,
            )
        return key


@extend_schema(exclude=True)
class ApiNotFound(APIView):
    """Any other address below the API: refused in the API's own shape, not as a page."""

    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound
