from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from annotation.core.health import CheckState
from scoring.health import check_encoders, check_scorers
from scoring.models import Scorer

pytestmark = pytest.mark.django_db


def test_changed_weights_are_told_of_by_the_name_of_their_scorer(scorer: Scorer):
    assert check_scorers().state == CheckState.OK
    card = scorer.weights_folder / "scorer.json"
    card.write_text(card.read_text().replace("ngram", "ngrams", 1))
    result = check_scorers()
    assert result.state == CheckState.FAULT
    assert scorer.name in result.message_text


def test_an_encoder_without_weights_is_a_fault(settings: Any, encoder: str, tmp_path: Path):
    settings.ASSAY_ENCODER = encoder
    assert check_encoders().state == CheckState.OK
    for file in Path(encoder).glob("*.safetensors"):
        file.unlink()
    assert check_encoders().state == CheckState.FAULT
