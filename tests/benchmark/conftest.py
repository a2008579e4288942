from __future__ import annotations

import pytest

from annotation.models import GoldRelease
from tests.benchmark.memoriser import MemorisingBackbone, load_memory
from tests.benchmark.support import release_of, settle_by_dimension
from tests.support import first_batch


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
