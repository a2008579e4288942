"""What the processes that serve requests ask of PostgreSQL, and workers and commands do not."""

from __future__ import annotations

from django.conf import settings


def limit_statements() -> None:
    """End every statement after ``ASSAY_STATEMENT_SECONDS``: part of connecting, so no request asks for it.

    Not behind a pooler that hands connections round: it refuses such options, or would pass them on to a worker.
    """
    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.postgresql" and not database["DISABLE_SERVER_SIDE_CURSORS"]:
        options = database.setdefault("OPTIONS", {})
        limit = f"-c statement_timeout={settings.STATEMENT_SECONDS * 1000}"
        options["options"] = f"{options.get('options', '')} {limit}".strip()
