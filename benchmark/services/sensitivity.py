"""The sensitivity of a run: worked out when somebody first asks for it, then kept with the run, which never changes."""

from __future__ import annotations

from typing import Any

from benchmark.models import BenchmarkRun
from benchmark.selectors.sensitivity import (
    SENSITIVITY,
    compute_run_sensitivity,
    find_sensitivity,
)
from benchmark.services.leaderboards.execution import store_parts


def load_sensitivity(run: BenchmarkRun) -> dict[str, Any]:
    """Raises AssayError of a run that is not finished."""
    content = find_sensitivity(run)
    if content is None:
        content = compute_run_sensitivity(run)
        store_parts(run, {SENSITIVITY: content})
    return content
