"""Which backbone a scorer gets, by name, and which one a saved scorer has.

Imports no learning library: torch and scikit-learn are imported where a backbone is fitted or loaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from annotation.errors import N_, AssayError
from scoring.dataset import Example, Head
from scoring.interface import Backbone, FittedScorer, Report, silent
from scoring.saved import read_card
from scoring.tuning import TransformerSettings

EMBEDDED = "char-ngram"
"""The backbone that needs no weights: the default."""


def choose(name: str | None = None) -> Backbone:
    """The embedded backbone for no name or ``char-ngram``; else a transformer in a folder or on the hub."""
    if name in (None, "", EMBEDDED):
        from scoring.ngram import NgramBackbone

        return NgramBackbone()
    assert name is not None
    return TransformerBackbone(_transformer_source(name))


def _transformer_source(name: str) -> str:
    require_torch(name)
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise AssayError(N_("The folder {name} holds no model: it has no config.json."), name=name)
        return name
    if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name):
        raise AssayError(
            N_("No backbone {name}: it is neither a folder here nor a name on the hub."), name=name
        )
    return name


def require_torch(name: str) -> None:
    """Refuse to go on without the optional packages, and say how to get them. Imports none of them."""
    missing = [package for package in ("torch", "transformers", "safetensors") if find_spec(package) is None]
    if missing:
        raise AssayError(
            N_("The backbone {name} needs {packages}: pip install -r requirements-encoder.txt"),
            name=name,
            packages=", ".join(missing),
        )


@dataclass(frozen=True)
class TransformerBackbone:
    """A pretrained transformer with one head per criterion. ``name`` is a local folder or a hub name."""

    name: str
    settings: TransformerSettings = field(default_factory=TransformerSettings)

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = silent,
        checkpoints: Path | None = None,
    ) -> FittedScorer:
        from scoring.training import fit_transformer

        return fit_transformer(
            self.name,
            examples,
            heads,
            settings=self.settings,
            seed=seed,
            report=report,
            checkpoints=checkpoints,
        )


def load(folder: Path) -> FittedScorer:
    """The scorer that was saved in the folder, whichever backbone it has."""
    card = read_card(folder)
    if card["kind"] == EMBEDDED:
        from scoring.ngram import NgramScorer

        return NgramScorer.load(folder)
    require_torch(card["backbone"])
    from scoring.predictor import TransformerScorer

    return TransformerScorer.load(folder)
