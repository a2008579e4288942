"""The Django project: settings, URLs, the Celery application."""

import sys

from annotation.core.startup import print_uncaught
from config.celery import app as celery_app

__all__ = ["celery_app"]

sys.excepthook = print_uncaught
