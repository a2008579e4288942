"""How gunicorn serves the pages: ``gunicorn --config config/gunicorn.py``, from the project's folder.

Options of the command line win. docs/production.md says why a proxy stands before it.
"""

from __future__ import annotations

import gc
import sys
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


def post_worker_init(_worker: Any) -> None:
    """Load every page's code now, and keep it out of what the garbage collector walks: the 200,000 objects, which are
    never garbage, delay an answer now and then by 100 to 200 ms.
    """
    from django.urls import get_resolver

    _patterns = get_resolver().url_patterns
    gc.collect()
    gc.freeze()
