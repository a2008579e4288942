"""The description of the API: which tokens reach which call."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

from annotation.api.scopes import MEANING, allowed_scopes


class ScopedSchema(AutoSchema):
    """Each call's description ends with the scopes of the tokens that may make it."""

    def get_description(self) -> str:  # type: ignore[override]
        scopes = ", ".join(f"`{scope.value}`" for scope in allowed_scopes(self.view, self.method))
        return f"{super().get_description()}\n\nScopes of tokens: {scopes}.".strip()


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "annotation.api.authentication.ApiTokenAuthentication"
    name = "tokenAuth"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        scopes = "\n".join(f"- `{scope.value}`: {meaning}" for scope, meaning in MEANING.items())
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": f'"Token " and an API token of your account. Its scope says how far it reaches:\n\n{scopes}',
        }
