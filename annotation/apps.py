from __future__ import annotations

from django.apps import AppConfig


class AnnotationConfig(AppConfig):
    name = "annotation"

    def ready(self) -> None:
        from annotation.services import (
            sign_ins,  # noqa: F401 (it listens)
            tokens,
        )

        tokens.watch()
