"""What a token may do: the one place that says so, for the calls, their description and docs/api.md.

A scope narrows, it gives nothing: each call asks for the roles and the part in the batch of the token's owner besides.
"""

from __future__ import annotations

from typing import Any, cast

from django.utils.translation import gettext_lazy as _
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from annotation.models import ApiToken, Person
from annotation.selectors.access import may

Scope = ApiToken.Scope
MEANING = {
    Scope.WORK: "the calls of the annotation loop (those under batches/ and assignments/)",
    Scope.READ: "every call that changes nothing (GET)",
    Scope.MANAGE: "every call",
}


def allowed_scopes(view: Any, method: str) -> list[Scope]:
    """The scopes that reach this call; views of the annotation loop say ``in_loop``."""
    reach = {
        Scope.WORK: getattr(view, "in_loop", False),
        Scope.READ: method in SAFE_METHODS,
        Scope.MANAGE: True,
    }
    return [scope for scope, reaches in reach.items() if reaches]


class MayAct(BasePermission):
    """The roles of whoever asks permit the view's ``act``. The calls of the annotation loop ask for the role in the
    statements that they send anyway, and only name their act.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        return view.act is None or may(cast("Person", request.user), view.act)


class InScope(BasePermission):
    """Whoever is signed in by a session has no scope, and is asked for none."""

    message = _("The scope of this token does not reach this call.")

    def has_permission(self, request: Request, view: Any) -> bool:
        token = request.auth
        return not isinstance(token, ApiToken) or token.scope in allowed_scopes(view, request.method or "")
