"""What is sent of a delivery: its type, the time of the event, ids and the address of a page. Nothing else, ever: no
label, text, model or person. Who wants to know more opens the page, or asks the API, and has to be permitted to.
"""

from __future__ import annotations

import json
from datetime import UTC

from django.urls import NoReverseMatch

from annotation.core.http import build_row_url, build_study_url
from annotation.domain.audit import KINDS, split_target
from annotation.models import Study, Task, WebhookDelivery


def build_body(delivery: WebhookDelivery) -> bytes:
    """Compact JSON in ASCII, the same for each attempt."""
    moment = delivery.occurred_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    content = {"type": delivery.type, "timestamp": moment, "data": build_data(delivery)}
    return json.dumps(content, separators=(",", ":")).encode()


def build_data(delivery: WebhookDelivery) -> dict[str, str | int | None]:
    """``{"study": NAME, KIND: ID, "url": ADDRESS}``; of a task its batch, too. ``study`` is null for the site's own."""
    kind, key = split_target(delivery.target)
    study = None if delivery.study_id is None else Study.objects.get(pk=delivery.study_id).name
    data: dict[str, str | int | None] = {"study": study}
    if kind == "task":
        tasks = Task._base_manager.filter(pk=int(key))
        data["batch"] = tasks.values_list("batch__name", flat=True).first()
    is_number = KINDS[kind].field == "pk"
    data[kind] = int(key) if is_number else key
    data["url"] = delivery.endpoint.base_url + _build_path(
        study, KINDS[kind].page, int(key) if is_number else key
    )
    return data


def _build_path(study: str | None, page: str, key: str | int) -> str:
    """Of the page; of a row whose name has none, of the study: one such row must not hold up the others."""
    try:
        return build_row_url(study or "", page, key)
    except NoReverseMatch:
        return build_study_url(study) if study else "/"
