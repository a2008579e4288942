from __future__ import annotations

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class AnnotationConfig(AppConfig):
    name = "annotation"

    def ready(self) -> None:
        from annotation.databases import adapt_to_pooler
        from annotation.services import (
            sign_ins,  # noqa: F401 (it listens)
            tokens,
        )

        tokens.watch()
        connection_created.connect(adapt_to_pooler)
