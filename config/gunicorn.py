"""How gunicorn serves the pages: ``gunicorn --config config/gunicorn.py``, from the project's folder.

Options of the command line win. docs/production.md says why a proxy stands before it.
"""

from __future__ import annotations

from config import settings

wsgi_app = "config.wsgi"
worker_class = "config.worker.DeadlineWorker"
workers = settings.WEB_WORKERS
threads = settings.WEB_THREADS
worker_connections = 500  # a process may usually open 1,024 files; the others are for answers
control_socket_disable = True
