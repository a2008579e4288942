"""The WSGI entry point."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

from config.database import limit_statements
from config.operations.sentry import start_sentry
from config.operations.tracing import WEB, start_tracing

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
limit_statements()
start_sentry()
start_tracing(WEB)
