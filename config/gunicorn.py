"""How gunicorn serves the pages: ``gunicorn --config config/gunicorn.py``, from the project's folder.

Options of the command line win. docs/production.md says why a proxy stands before it.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from typing import Any

from annotation.core.startup import SettingsError, describe_settings_error

try:
    from config import settings
except SettingsError as error:  # gunicorn would print a traceback
    sys.exit(describe_settings_error(error))

wsgi_app = "config.wsgi"
worker_class = "config.worker.DeadlineWorker"
workers = settings.WEB_WORKERS
threads = settings.WEB_THREADS
worker_connections = 500  # a process may usually open 1,024 files; the others are for answers
control_socket_disable = True
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
if settings.LOG_FORMAT == "json":  # its own lines as well
    gunicorn_logger = {"handlers": ["console"], "level": settings.LOG_LEVEL, "propagate": False}
    logging_of_all: dict[str, Any] = settings.LOGGING
    logconfig_dict = {
        **logging_of_all,
        "loggers": {**logging_of_all["loggers"], "gunicorn.error": gunicorn_logger},
    }
if settings.METRICS_TOKEN and METRICS_FOLDER not in os.environ:
    # The numbers of all processes, which begin anew with the server.
    os.environ[METRICS_FOLDER] = tempfile.mkdtemp(prefix="assay-metrics-")


def child_exit(_server: Any, worker: Any) -> None:
    if METRICS_FOLDER in os.environ:
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def worker_exit(_server: Any, _worker: Any) -> None:
    """In the process that ends."""
    from config.operations.tracing import stop_tracing

    stop_tracing()


def on_exit(_server: Any) -> None:
    if METRICS_FOLDER in os.environ:
        shutil.rmtree(os.environ[METRICS_FOLDER], ignore_errors=True)


def post_worker_init(_worker: Any) -> None:
    """Load every page's code now, and keep it out of what the garbage collector walks: the 200,000 objects, which are
    never garbage, delay an answer now and then by 100 to 200 ms.
    """
    from django.urls import get_resolver

    _patterns = get_resolver().url_patterns
    gc.collect()
    gc.freeze()
