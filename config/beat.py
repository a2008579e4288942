"""The application that beat runs: ``celery -A config.beat beat``.

Beat sends messages by the names of their tasks. It needs neither their code nor the models, which import the whole of
the product and are most of a process's memory: Django is not set up here. The signals that config/celery.py connects
hold here as well.
"""

from __future__ import annotations

from celery import Celery

app = Celery("assay", fixups=[])
app.config_from_object("django.conf:settings", namespace="CELERY")
