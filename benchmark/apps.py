from __future__ import annotations

from django.apps import AppConfig


class BenchmarkConfig(AppConfig):
    name = "benchmark"
