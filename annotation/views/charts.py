from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from annotation.core.charts import chart_svg
from annotation.domain.permissions import SEE_CHARTS
from annotation.views.access import act_required


@require_GET
@act_required(SEE_CHARTS)
def chart(request: HttpRequest, key: str) -> HttpResponse:
    """An SVG by the hash of its specification: it never changes, and only who saw its page knows the hash."""
    return HttpResponse(chart_svg(key), content_type="image/svg+xml")
