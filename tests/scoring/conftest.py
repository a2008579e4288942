from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from annotation.models import GoldRelease, Guideline, Person
from scoring import tasks  # noqa: F401 (registers the handlers)
from scoring.models import Scorer
from tests.conftest import missing
from tests.scoring.gate_support import FAIRNESS, SAFETY, decide, labelled_release
from tests.scoring.support import FIT, LEARNING, find_once, make_release, trained
from tests.support import FLAMES_GUIDELINE


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
def fits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For trainings whose course is asserted, not what the embedded backbone learns: equal fits are done once."""
    find_once(monkeypatch, FIT)


@pytest.fixture
def learning_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what a trained scorer is only there for: all that follows from equal material is found once."""
    find_once(monkeypatch, LEARNING)


@pytest.fixture
def scorer(release: GoldRelease) -> Scorer:
    """Trained on the release with the embedded backbone, by a job; what it finds is found once in this process."""
    with pytest.MonkeyPatch.context() as patches:
        find_once(patches, LEARNING)
        return trained(release, "first-scorer")


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """The folder of a random two-layer encoder."""
    if find_spec("torch") is None:
        missing("torch", "an encoder needs requirements-encoder.txt")
    from tests.scoring.networks import encoder_in

    return encoder_in(tmp_path)


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    from tests.scoring.networks import decoder_in

    return decoder_in(tmp_path)


@pytest.fixture
def flames(db: None) -> Guideline:
    return FLAMES_GUIDELINE.load()


@pytest.fixture
def graded(flames: Guideline, lin: Person) -> GoldRelease:
    """Six labels of the test split on fairness and six on safety, all of them harmless."""
    return labelled_release(flames, lin, dimensions=[FAIRNESS, SAFETY])


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``always(place)``: whatever is loaded from now on says the level at this place of each scale."""
    return partial(decide, monkeypatch)
