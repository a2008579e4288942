from __future__ import annotations

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_not_required, login_required
from django.urls import include, path
from django.views.generic import RedirectView
from django.views.i18n import set_language
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from annotation.views.demo import demo, demo_sign_in
from annotation.views.people import providers
from annotation.views.people.second_factor import SecondFactor, sign_in_passkey
from annotation.views.people.sign_in import SignIn
from config.operations.health import healthz, metrics, readyz

# One form takes passwords, with one limit.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

API_DOCS = login_required(
    SpectacularSwaggerSplitView.as_view(url_name="api-schema", template_name="api_docs.html")
)

handler500 = "config.operations.outages.server_error"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("sign-in/", SignIn.as_view(), name="login"),
    path("sign-in/", SignIn.as_view(), name="account_login"),  # allauth's name for it
    # Names that begin otherwise than ours are allauth's.
    path("sign-in/second-factor/", SecondFactor.as_view(), name="mfa_authenticate"),
    path("sign-in/passkey/", sign_in_passkey, name="sign-in-passkey"),
    path("sign-in/oidc/<slug:provider_id>/", providers.oidc_sign_in, name="openid_connect_login"),
    path(
        "sign-in/oidc/<slug:provider_id>/callback/", providers.oidc_callback, name="openid_connect_callback"
    ),
    path("sign-in/oidc/<slug:provider_id>/logout/", providers.oidc_logout, name="oidc-logout"),
    path("sign-in/saml/<slug:organization_slug>/", providers.saml_sign_in, name="saml_login"),
    path("sign-in/saml/<slug:organization_slug>/acs/", providers.saml_acs, name="saml_acs"),
    path("sign-in/saml/<slug:organization_slug>/acs/finish/", providers.saml_finish, name="saml_finish_acs"),
    path("sign-in/saml/<slug:organization_slug>/logout/", providers.saml_logout, name="saml_sls"),
    path("sign-in/saml/<slug:organization_slug>/metadata/", providers.saml_metadata, name="saml_metadata"),
    path("sign-out/", auth.LogoutView.as_view(), name="logout"),
    path("demo/", demo, name="demo"),
    path("demo/sign-in/<str:username>/", demo_sign_in, name="demo-sign-in"),
    path("language/", login_not_required(set_language), name="set_language"),
    # Before the admin's own form.
    path("admin/password_change/", RedirectView.as_view(pattern_name="account"), name="admin-own-password"),
    path("admin/", admin.site.urls),
    path("api/v1/schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("api/v1/docs/", API_DOCS, name="api-docs"),
    path("api/v1/", include("benchmark.api.urls")),
    path("api/v1/", include("scoring.api.urls")),
    path("api/v1/", include("annotation.api.urls")),
    path("", include("annotation.urls")),
    path("", include("scoring.urls")),
    path("", include("benchmark.urls")),
]
