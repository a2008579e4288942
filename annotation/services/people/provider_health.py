"""What the doctor asks of an identity provider."""

from __future__ import annotations

from datetime import timedelta

from cryptography import x509
from django.utils import timezone

from annotation.core.errors import N_
from annotation.core.health import HealthResult, fault, warning
from annotation.domain.sign_in.providers import AnyProvider, OidcProvider
from annotation.services.people import oidc

SOON_DAYS = 30
PEM = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"


def find_provider_problem(provider: AnyProvider) -> HealthResult | None:
    """None where all is well. AssayError: it does not answer as it should."""
    if isinstance(provider, OidcProvider):
        oidc.get_configuration(provider)
        if not oidc.fetch_keys(provider):
            return fault(
                N_("{name} publishes no keys: no sign-in can be verified."),
                N_("Ask whoever runs the provider."),
                name=provider.name,
            )
        return None
    text = provider.certificate.strip()
    try:
        pem = text if text.startswith("-----") else PEM.format(text)
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return fault(
            N_("The certificate of {name} cannot be read."),
            N_("Copy it anew from the provider’s metadata."),
            name=provider.name,
        )
    if certificate.not_valid_after_utc < timezone.now() + timedelta(days=SOON_DAYS):
        return warning(
            N_("The certificate of {name} ends on {date}."),
            N_("Put the provider’s next one into the file of ASSAY_SIGN_IN."),
            name=provider.name,
            date=certificate.not_valid_after_utc.date().isoformat(),
        )
    return None
