from __future__ import annotations

from django.apps import AppConfig


class BenchmarkConfig(AppConfig):
    name = "benchmark"

    def ready(self) -> None:
        import benchmark.domain.verbs  # noqa: F401 (declares them, for whoever reads the audit trail)
