"""One application error becomes one page, or one JSON shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.utils.translation import gettext
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.response import Response as ApiResponse
from rest_framework.views import exception_handler

from annotation.errors import AssayError
from annotation.wording import error_text
from config.limits import cut_short, is_cut_short, is_statement_timeout, refuse, too_long


class ErrorsForPeople:
    """Answers an AssayError that a page let through with its own status and words."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _holds_nul(request):
            return _nothing_there(request)
        answer = self.get_response(request)
        return refuse(request, cut_short()) if is_cut_short(request, answer) else answer

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if is_statement_timeout(error):
            return refuse(request, too_long())
        if isinstance(error, UnreadablePostError):
            return refuse(request, cut_short())
        return refuse(request, error) if isinstance(error, AssayError) else None


def _holds_nul(request: HttpRequest) -> bool:
    """Nothing has a NUL in its name: PostgreSQL cannot even be asked for it."""
    return "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", "")


def _nothing_there(request: HttpRequest) -> HttpResponse:
    if not request.path_info.startswith("/api/"):
        raise Http404
    missing = NotFound()
    body = {"code": missing.default_code, "message": str(missing.detail)}
    return JsonResponse({"error": body}, status=missing.status_code)


def api_error(error: Exception, context: dict[str, Any]) -> ApiResponse | None:
    """``{"error": {"code": .., "message": .., ..}}`` for every refusal, ours and the framework's."""
    if is_statement_timeout(error):
        error = too_long()
    if isinstance(error, AssayError):
        body: dict[str, Any] = {"code": error.code, "message": error_text(error)}
        receipt = getattr(error, "receipt", None)
        if receipt is not None:
            body["receipt"] = str(receipt.receipt)
        if getattr(error, "draft", False):
            body["draft"] = True
        return ApiResponse({"error": body}, status=error.status)
    answer = exception_handler(error, context)
    if answer is not None:
        answer.data = {"error": _framework_refusal(error, answer)}
    return answer


def _framework_refusal(error: Exception, answer: ApiResponse) -> dict[str, Any]:
    if isinstance(error, ValidationError):
        return {"code": "invalid", "message": gettext("The content is not valid."), "fields": answer.data}
    code = getattr(getattr(error, "detail", None), "code", "not_found")
    return {"code": code, "message": str(answer.data.get("detail", ""))}
