"""What a scorer keeps beside its weights of what it has learned from, and of what it was tested on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotation.errors import N_, AssayError, Conflict
from scoring.dataset import Prediction as Predicted
from scoring.dataset import prediction_from_json
from scoring.models import Scorer
from scoring.saved import has_fingerprint
from scoring.selectors.lessons import heads_of
from scoring.services.outoffold import OUT_OF_FOLD

TRAINED = "trained.json"
TESTED = "test.json"


@dataclass(frozen=True)
class Kept:
    """``learned`` are the contents that the scorer which is kept has learned from, by their keys.

    ``tested`` is what it said of the test split of its release when it was trained. A scorer of the first version
    wrote neither: it had learned from its whole release.
    """

    learned: frozenset[str]
    tested: Mapping[str, Predicted]

    @classmethod
    def of(cls, scorer: Scorer) -> Kept:
        """Raises AssayError where its files are gone or changed: what they say would be no evidence."""
        refuse_changed(scorer.weights_folder, scorer.weights_sha256)
        folder, heads = scorer.weights_folder, heads_of(scorer.guideline)
        learned = _read(folder / TRAINED)
        if learned is None:
            return cls(frozenset(_read(folder / OUT_OF_FOLD) or ()), {})
        tested = _read(folder / TESTED) or {}
        return cls(
            frozenset(learned), {key: prediction_from_json(said, heads) for key, said in tested.items()}
        )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def refuse_changed(folder: Path, weights_sha256: str) -> None:
    """Weights that are not the registered ones are refused: no number may rest on them. Reads all of them."""
    if not folder.is_dir():
        raise AssayError(N_("The scorer's weights are not at {folder}."), folder=str(folder))
    if not has_fingerprint(folder, weights_sha256):
        raise Conflict(N_("The weights at {folder} are not those that were registered."), folder=str(folder))
