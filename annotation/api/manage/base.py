"""What the calls of the management API have in common: who may make them, lists in parts, and what is made once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast
from urllib.parse import urlencode

from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from annotation.api.base import AssayView, ErrorSerializer, StrictSerializer
from annotation.api.scopes import InScope, MayAct
from annotation.core.errors import N_, NotFound
from annotation.domain.permissions import Act
from annotation.models import EvaluatedModel, Person
from annotation.selectors.access import has_role_for, refuse_act, unsealed_models
from annotation.services.idempotency import MadeAnswer, answer_once

MAX_LIMIT = 200
USUAL_LIMIT = 50
MAX_NAME_CHARACTERS = 100
MAX_CURSOR = 2**53
MAX_NAMES = 1000

MAKE_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    required=True,
    description=(
        "Any text of yours up to 200 printable characters, a new one for each thing that you make. The same key with"
        " the same call makes nothing more and gets the first answer again, with the header `Idempotency-Replayed`;"
        " with another call it is refused (422)."
    ),
)
_REFUSALS = {
    400: "The content or the address is not what this call takes.",
    401: "Nobody is signed in.",
    403: "The person has no such role in the study, the results are sealed, or the token's scope is too narrow.",
    404: "There is no such thing for this person.",
    409: "It contradicts what is there, or comes too early or too late.",
    413: "The content is too large.",
    415: "The content is of another type than this call takes.",
    422: "The same key was sent with another call.",
}
REFUSALS: TypeAlias = dict[int, OpenApiResponse]


def list_manage_refusals(*codes: int) -> REFUSALS:
    """Those of every call, and these."""
    return {code: OpenApiResponse(ErrorSerializer, _REFUSALS[code]) for code in (400, 401, 403, *codes)}


READ = list_manage_refusals(404, 409)
MAKE = list_manage_refusals(404, 409, 413, 415, 422)


def NameField(**options: Any) -> serializers.CharField:  # noqa: N802 (it stands among fields)
    return serializers.CharField(**{"max_length": MAX_NAME_CHARACTERS, **options})


def NamesField(**options: Any) -> serializers.ListField:  # noqa: N802
    usual = {"child": NameField(), "default": list, "max_length": MAX_NAMES}
    return serializers.ListField(**{**usual, **options})


class ListQuerySerializer(StrictSerializer):
    """Which part of a list."""

    limit = serializers.IntegerField(
        default=USUAL_LIMIT, min_value=1, max_value=MAX_LIMIT, help_text="At most so many rows."
    )
    cursor = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_CURSOR, help_text="As `next` of the part before has it."
    )


class PartSerializer(serializers.Serializer[Any]):
    """A part of a list, the newest first."""

    next = serializers.CharField(
        allow_null=True, help_text="The address of the next part; null: this is the last."
    )


def describe_part(row: type[serializers.Serializer[Any]], name: str) -> type[PartSerializer]:
    """The serializer of a part of a list of these rows; ``name`` is its name in the description of the API."""
    return type(f"{name}PartSerializer", (PartSerializer,), {"rows": row(many=True)})


class ManageView(AssayView):
    """``act`` is what the call does; None where everybody may who is signed in."""

    act: Act | None = None
    permission_classes = (IsAuthenticated, InScope, MayAct)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """The role is asked for within the study of the call, which is known only after whoever calls."""
        super().initial(request, *args, **kwargs)
        if self.act is not None and not has_role_for(self.person, self.act):
            refuse_act(self.act)

    def read_query(self, serializer: type[StrictSerializer]) -> dict[str, Any]:
        """The parameters of the address, or 400."""
        query = serializer(data=_to_query(serializer, self.request))
        query.is_valid(raise_exception=True)
        return dict(query.validated_data)

    def answer_part(
        self,
        rows: QuerySet[Any],
        describe: Callable[[Sequence[Any]], Iterable[Mapping[str, Any]]],
        part: type[PartSerializer],
    ) -> Response:
        """A part of the rows, the newest first, as ``describe`` tells of them."""
        query = self.read_query(ListQuerySerializer)
        cursor, limit = query.get("cursor"), query["limit"]
        remaining = rows.order_by("-pk") if cursor is None else rows.filter(pk__lt=cursor).order_by("-pk")
        listed = list(remaining.values_list("pk", flat=True)[: limit + 1])
        page_ids, more = listed[:limit], len(listed) > limit
        rows_by_id = {row.pk: row for row in rows.filter(pk__in=page_ids)}
        body = {
            "rows": list(describe([rows_by_id[pk] for pk in page_ids if pk in rows_by_id])),
            "next": self._build_next(limit, page_ids[-1]) if more else None,
        }
        return Response(part(body).data)

    def _build_next(self, limit: int, cursor: int) -> str:
        match = self.request.resolver_match
        assert match is not None
        address = reverse(str(match.view_name), kwargs=match.kwargs)
        return f"{address}?{urlencode({'limit': limit, 'cursor': cursor})}"

    def make_once(self, make: Callable[[], MadeAnswer]) -> Response:
        """The answer of ``make``, or to the first call with this Idempotency-Key."""
        answer = answer_once(person=self.person, key=self.key(), sha256=self._hash_call(), act=make)
        headers = {"Location": answer.body["url"]} if "url" in answer.body else {}
        if answer.is_repeated:
            headers["Idempotency-Replayed"] = "true"
        return Response(answer.body, status=answer.status, headers=headers)

    def _hash_call(self) -> str:
        """Of all that the call says: its address with its study, and its content."""
        django_request = self.request._request
        study = getattr(django_request, "study_name", None)
        sent = cast("Mapping[str, Any]", self.request.data)
        content = {name: _hash_content(value) for name, value in sent.items()}
        call = [django_request.method, study, django_request.path_info, content]
        return hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()


def _hash_content(value: Any) -> Any:
    if not isinstance(value, UploadedFile):
        return value
    digest = hashlib.sha256()
    for chunk in value.chunks():
        digest.update(chunk)
    value.seek(0)
    return [value.name, digest.hexdigest()]


def _to_query(serializer: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """The parameters by name; several of one name are a list where a list is taken."""
    fields = serializer().fields
    query: dict[str, Any] = {}
    for name in request.query_params:
        values = request.query_params.getlist(name)
        is_list = isinstance(fields.get(name), serializers.ListField)
        query[name] = values if is_list else values[-1]
    return query


def to_answer(status: int, serializer: type[serializers.Serializer[Any]], body: Any) -> MadeAnswer:
    """The answer as it is sent and kept: JSON."""
    return MadeAnswer(status, json.loads(JSONRenderer().render(serializer(body).data)))


def pick_models(person: Person, names: Sequence[str]) -> list[EvaluatedModel]:
    """The models of these names among those that the person may hear of."""
    models = {model.name: model for model in unsealed_models(person).filter(name__in=names)}
    unknown = [name for name in names if name not in models]
    if unknown:
        known = ", ".join(unsealed_models(person).values_list("name", flat=True)[:MAX_LIMIT]) or "-"
        raise NotFound(
            N_("There is no evaluated model named {names}; known are: {known}."),
            names=", ".join(unknown),
            known=known,
        )
    return [models[name] for name in dict.fromkeys(names)]
