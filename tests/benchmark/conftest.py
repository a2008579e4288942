from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_beat(settings: Any) -> None:
    """A job's beat, which comes from a thread of its own, would wait for the transaction of the test."""
    settings.JOB_HEARTBEAT_SECONDS = 1000
