"""An answer that a browser saves as a file."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header


def attached(answer: HttpResponseBase, file_name: str) -> HttpResponseBase:
    answer["Content-Disposition"] = str(content_disposition_header(True, file_name))
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Cache-Control"] = "private, no-store"
    return answer
