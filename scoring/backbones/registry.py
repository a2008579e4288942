"""Which backbone a scorer gets, by name, and which one a saved scorer has.

Imports no learning library: torch and scikit-learn are imported where a backbone is fitted or loaded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from annotation.core.errors import N_, AssayError
from scoring.backbones.folder import read_card
from scoring.backbones.transformer.backbone import TransformerBackbone, require_torch
from scoring.domain.backbone import Backbone, FittedScorer
from scoring.domain.spec import EMBEDDED, FORMER, Spec

DEFAULT = Spec()
_HUB_NAME = re.compile(r"[\w-][\w.-]{0,95}(/[\w-][\w.-]{0,95})?")
"""An organisation and a name, of at most 96 characters each as the hub has them."""


def choose_backbone(spec: Spec = DEFAULT, *, launch: str = "") -> Backbone:
    """The backbone that was asked for. Raises AssayError where its encoder is not there or packages are missing.

    ``launch`` is the command by which an encoder is tuned (``ASSAY_LAUNCH``); none, and it is in this process.
    """
    if spec.kind == EMBEDDED:
        from scoring.backbones.ngram import NgramBackbone

        return NgramBackbone()
    if spec.kind == "ensemble":
        from scoring.backbones.ensemble import EnsembleBackbone

        return EnsembleBackbone(_checked(spec) if spec.encoder else spec, launch)
    if spec.tuning == "frozen":
        from scoring.backbones.embedding import EmbeddingBackbone

        return EmbeddingBackbone(_checked(spec))
    return TransformerBackbone(_checked(spec), launch)


def _checked(spec: Spec) -> Spec:
    name = spec.encoder
    require_torch(name, *(("peft",) if spec.tuning == "lora" else ()))
    if os.path.isdir(name):  # noqa: PTH112 (that of a Path raises where a name is too long for a file)
        if not (Path(name) / "config.json").is_file():
            raise AssayError(N_("The folder {name} holds no model: it has no config.json."), name=name)
    elif not _HUB_NAME.fullmatch(name):
        raise AssayError(
            N_("No backbone {name}: it is neither a folder here nor a name on the hub."), name=name
        )
    return spec


def load(folder: Path) -> FittedScorer:
    """The scorer that was saved in the folder, whichever backbone it has."""
    card = read_card(folder)
    if card["kind"] in {EMBEDDED, FORMER}:
        from scoring.backbones.ngram import FittedNgramScorer

        return FittedNgramScorer.load(folder)
    if card["kind"] == "ensemble":
        from scoring.backbones.ensemble import FittedEnsembleScorer

        return FittedEnsembleScorer.load(folder, load)
    if card["kind"] == "patterns":
        from scoring.backbones.patterns import FittedPatternsScorer

        return FittedPatternsScorer.load(folder)
    require_torch(card["backbone"])
    if card["kind"] == "embedding":
        from scoring.backbones.embedding import FittedEmbeddingScorer

        return FittedEmbeddingScorer.load(folder)
    from scoring.backbones.transformer.predictor import TransformerScorer

    return TransformerScorer.load(folder)
