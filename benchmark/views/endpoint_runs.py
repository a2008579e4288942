"""What the pages of both kinds of runs that ask endpoints show: the endpoints, and a run at work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, Conflict
from annotation.selectors.jobs import is_silent, is_waiting_long
from benchmark.domain.llm_client import build_key_name, find_key
from benchmark.models import EndpointRun
from benchmark.selectors.collection import CollectionProgress
from benchmark.selectors.dialogues import DialogueProgress
from benchmark.services.endpoint_runs import refuse_unlisted_endpoints


@dataclass(frozen=True)
class EndpointChoice:
    """An endpoint of the settings. ``key`` is what is known of its key here, never the key."""

    name: str
    url: str
    variable: str
    has_key: bool
    refusal: str


def list_endpoint_choices() -> list[EndpointChoice]:
    endpoints = []
    for name, url in settings.ASSAY_ENDPOINTS.items():
        try:
            has_key, refusal = find_key(url) is not None, ""
            variable = build_key_name(url)
        except AssayError as error:
            has_key, refusal, variable = False, error_text(error), ""
        endpoints.append(EndpointChoice(name, url, variable, has_key, refusal))
    return endpoints


def is_listed(urls: Sequence[str], command: str) -> bool:
    """Whether a page may ask these addresses."""
    try:
        refuse_unlisted_endpoints(urls, settings.ASSAY_ENDPOINTS, command)
    except Conflict:
        return False
    return True


def build_live_context(
    run: EndpointRun, progress: CollectionProgress | DialogueProgress, rate_name: str, *, left: int
) -> dict[str, Any]:
    """How far it is, and what the job reports while it is at it; ``left`` is in the unit of the rate."""
    job = run.job
    at_work = job is not None and not job.is_over
    points = job.history[-8:] if job is not None and at_work else []
    rate = {point["name"]: point["value"] for point in points}.get(rate_name)
    return {
        "run": run,
        "job": job,
        "at_work": at_work,
        "standing": progress,
        # What a worker that died left under way is lost, although nobody has counted it yet.
        "lost": run.lost + (0 if at_work else progress.pending),
        "rate": rate,
        "minutes_left": left / rate / 60 if rate else None,
        "silent": job is not None and is_silent(job),
        "waiting_long": job is not None and is_waiting_long(job),
    }


def format_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
