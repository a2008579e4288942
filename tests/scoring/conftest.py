from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from annotation.models import GoldRelease, Guideline, Person
from annotation.services import jobs
from scoring import tasks  # noqa: F401 (registers the handlers)
from scoring.models import Scorer
from scoring.services import create_scorer
from tests.scoring.support import make_release


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> Path:
    """Scorers lie by number, and another test's scorer had the same number."""
    settings.ASSAY_DATA_DIR = tmp_path
    return tmp_path


@pytest.fixture
def release(guideline: Guideline, lin: Person) -> GoldRelease:
    """Twenty responses of two models to ten prompts, labelled at their true levels."""
    return make_release(guideline, lin)


@pytest.fixture
def scorer(release: GoldRelease) -> Scorer:
    """Trained on the release with the embedded backbone."""
    made, job = create_scorer(name="first-scorer", release=release, send=False)
    jobs.run_now(job)
    made.refresh_from_db()
    return made
