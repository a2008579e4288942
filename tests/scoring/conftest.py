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
    """Scorers lie by number, and another test's scorer had the same number.

    A job's beat, which comes from a thread of its own, would wait for the transaction of the test.
    """
    settings.ASSAY_DATA_DIR = tmp_path
    settings.JOB_HEARTBEAT_SECONDS = 1000
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


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """The folder of a random two-layer encoder."""
    from tests.scoring.networks import encoder_in

    return encoder_in(tmp_path)


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    from tests.scoring.networks import decoder_in

    return decoder_in(tmp_path)
