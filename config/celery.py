"""The Celery application: every job is a row, a message only says that there is one (docs/decisions)."""

from __future__ import annotations

import logging
import os
from logging.config import dictConfig
from typing import Any

from celery import Celery
from celery.signals import (
    after_task_publish,
    beat_init,
    celeryd_init,
    setup_logging,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)

from annotation.core.shutdown import begin_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

SIGNS: list[Any] = []
"""Of this process, once it is a worker that is ready."""

app = Celery("assay")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_init.connect
def _lengthen_timeouts(conf: Any, **_: Any) -> None:
    """Nobody waits for a worker: a broker that hangs for some seconds is no reason to connect anew."""
    options = conf.broker_transport_options
    if "socket_timeout" in options:
        conf.broker_transport_options = {"socket_timeout": 10, "socket_connect_timeout": 10}


@setup_logging.connect
def _configure_logs(loglevel: int | str | None = None, **_: Any) -> None:
    """As in the other processes; what ``--loglevel`` says is of Celery's own lines."""
    from django.conf import settings

    dictConfig(settings.LOGGING)
    logging.getLogger("celery").setLevel(loglevel or logging.WARNING)


@celeryd_init.connect
@beat_init.connect
def _report_errors(**_: Any) -> None:
    from config.operations.sentry import start_sentry

    start_sentry()


@worker_process_init.connect
def _trace_tasks(**_: Any) -> None:
    """In each process that runs jobs: after it was forked."""
    from config.operations.tracing import WORKER, start_tracing

    start_tracing(WORKER)


@beat_init.connect
def _trace_beat(**_: Any) -> None:
    from config.operations.tracing import BEAT, start_tracing

    start_tracing(BEAT)


@worker_process_shutdown.connect
@worker_shutdown.connect
def _end_traces(**_: Any) -> None:
    from config.operations.tracing import stop_tracing

    stop_tracing()


@worker_ready.connect
def _leave_signs(sender: Any, **_: Any) -> None:
    from annotation.core.signs import WORKER, SignThread

    queues = sorted(sender.app.amqp.queues.consume_from)
    sign = SignThread(WORKER, f"{sender.hostname}/{os.getpid()}", queues)
    sign.start()
    SIGNS.append(sign)


@worker_shutdown.connect
def _end_signs(**_: Any) -> None:
    for sign in SIGNS:
        sign.stop()


@after_task_publish.connect
def _leave_sign_of_beat(sender: str | None = None, **_: Any) -> None:
    """Beat alone sends this message; that it was sent says that both beat and the broker work."""
    from annotation.core.signs import BEAT_TASK, leave_sign_of_beat

    if sender == BEAT_TASK:
        leave_sign_of_beat()


@worker_shutting_down.connect
def _interrupt_jobs(**_: Any) -> None:
    """A job is given back at its next report: nobody waits for hours until a training is over."""
    begin_shutdown()
