"""The Celery application: every job is a row, a message only says that there is one (docs/decisions)."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import celeryd_init, worker_shutting_down

from annotation.core.shutdown import begin_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("assay")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_init.connect
def _lengthen_timeouts(conf: Any, **_: Any) -> None:
    """Nobody waits for a worker: a broker that hangs for some seconds is no reason to connect anew."""
    options = conf.broker_transport_options
    if "socket_timeout" in options:
        conf.broker_transport_options = {"socket_timeout": 10, "socket_connect_timeout": 10}


@worker_shutting_down.connect
def _interrupt_jobs(**_: Any) -> None:
    """A job is given back at its next report: nobody waits for hours until a training is over."""
    begin_shutdown()
