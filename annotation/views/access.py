"""Who may open a page. Signed-in people only (LoginRequiredMiddleware); roles here; rows in the selectors and services,
which ask for the role of whoever works once more (annotation/selectors/access.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from annotation.models import Person
from annotation.selectors.access import has_role

__all__ = ["View", "has_role", "person_of", "post_form", "role_required"]

View = Callable[..., HttpResponseBase]
FORM_BYTES = 1024 * 1024
"""What a form has beside its file: other fields, and the lines between them."""


def person_of(request: HttpRequest) -> Person:
    """The signed-in person; LoginRequiredMiddleware lets nobody else through."""
    return cast("Person", request.user)


def role_required(*roles: str) -> Callable[[View], View]:
    """Let people of any of these groups (and admins) through; anybody else gets 403."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not has_role(person_of(request), *roles):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        guarded_view.roles = roles  # type: ignore[attr-defined]
        return guarded_view

    return decorate


def post_form(page: str) -> Callable[[View], View]:
    """The address of a form on ``page``, for POST. Its answer may be a page of its own; who opens that address, such as
    by another language or after a new sign-in, gets ``page``.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            opened = request.method == "GET"
            return redirect(page, *args, **kwargs) if opened else view(request, *args, **kwargs)

        return require_http_methods(["GET", "POST"])(answered)

    return decorate


def accepts_body(max_bytes: int) -> Callable[[View], View]:
    """Let a form with files be larger than any other body, for whoever may open the view (config/limits.py)."""

    def decorate(view: View) -> View:
        view.max_body = max_bytes + FORM_BYTES  # type: ignore[attr-defined]
        return view

    return decorate
