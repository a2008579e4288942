from __future__ import annotations

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class AnnotationConfig(AppConfig):
    name = "annotation"

    def ready(self) -> None:
        from annotation.core.databases import adapt_to_pooler, watch_statements
        from annotation.services.mail import reminders
        from annotation.services.people import tokens

        tokens.connect_signals()
        reminders.connect_signals()
        connection_created.connect(adapt_to_pooler)
        connection_created.connect(watch_statements)
