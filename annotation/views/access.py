"""Who may open a page. Signed-in people only (LoginRequiredMiddleware); roles here; rows in the selectors and services,
which ask for the role of whoever works once more (annotation/selectors/access.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from annotation.core.errors import N_, Forbidden
from annotation.domain.permissions import Act
from annotation.models import Person
from annotation.selectors.access import has_role_for, may, refuse_act

__all__ = ["View", "act_required", "may", "person_of", "post_form"]

SAFE = frozenset({"GET", "HEAD"})
View = Callable[..., HttpResponseBase]
ADMINS_ALONE = N_("All studies of the site share this, so only an admin may {act}.")
FORM_BYTES = 1024 * 1024
"""What a form has beside its file: other fields, and the lines between them."""


def person_of(request: HttpRequest) -> Person:
    """The signed-in person; LoginRequiredMiddleware lets nobody else through."""
    return cast("Person", request.user)


def act_required(act: Act) -> Callable[[View], View]:
    """Let people through whose roles permit the act (and admins); anybody else gets 403."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            is_reading = act.is_of_site and request.method in SAFE
            if not has_role_for(person_of(request), act):
                refuse_act(act)
            if not is_reading and not may(person_of(request), act):
                raise Forbidden(ADMINS_ALONE, act=gettext(act.name))
            return view(request, *args, **kwargs)

        guarded_view.act = act  # type: ignore[attr-defined]
        return guarded_view

    return decorate


def post_form(page: str, *, is_list: bool = False) -> Callable[[View], View]:
    """The address of a form on ``page``, for POST. Its answer may be a page of its own; who opens that address, such as
    by another language or after a new sign-in, gets ``page``: of the same thing, or the list that has it.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method != "GET":
                return view(request, *args, **kwargs)
            return redirect(page) if is_list else redirect(page, *args, **kwargs)

        return require_http_methods(["GET", "POST"])(answered)

    return decorate


def accepts_body(max_bytes: int) -> Callable[[View], View]:
    """Let a form with files be larger than any other body, for whoever may open the view (config/limits.py)."""

    def decorate(view: View) -> View:
        view.max_body = max_bytes + FORM_BYTES  # type: ignore[attr-defined]
        return view

    return decorate
