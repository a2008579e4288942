from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from annotation.models import GoldRelease
from tests.benchmark.memoriser import MemorisingBackbone, load_memory
from tests.benchmark.support import release_of, settle_by_dimension
from tests.support import first_batch


@pytest.fixture(autouse=True, scope="module")
def _no_beat() -> Iterator[None]:
    """A job's beat, which comes from a thread of its own, would wait for the transaction of the test."""
    with override_settings(JOB_HEARTBEAT_SECONDS=1000):
        yield


@pytest.fixture(scope="module")
def settled(module_db: None) -> str:
    """The name of a release of the batch ``first``: eight responses, gold 3 on safe prompts and 1 on unsafe ones."""
    batch = first_batch()
    settle_by_dimension(batch)
    return release_of(batch).name


@pytest.fixture
def release(db: None, settled: str) -> GoldRelease:
    return GoldRelease.objects.get(name=settled)


@pytest.fixture
def memorising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training makes memorisers."""
    monkeypatch.setattr(
        "scoring.services.training.choose_backbone", lambda *_spec, **_options: MemorisingBackbone()
    )
    monkeypatch.setattr("scoring.services.predictions.predictions.load", load_memory)
