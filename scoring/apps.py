from __future__ import annotations

from django.apps import AppConfig


class ScoringConfig(AppConfig):
    name = "scoring"

    def ready(self) -> None:
        import scoring.domain.verbs  # noqa: F401 (declares them, for whoever reads the audit trail)
