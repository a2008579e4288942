"""Which backbone a scorer gets, by name, and which one a saved scorer has.

Imports no learning library: torch and scikit-learn are imported where a backbone is fitted or loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from annotation.errors import N_, AssayError
from scoring.dataset import Example, Head
from scoring.interface import Backbone, FittedScorer, Report, ignore_progress
from scoring.launching import fit_in_process
from scoring.saved import read_card
from scoring.spec import EMBEDDED, FORMER, Spec

DEFAULT = Spec()
_HUB_NAME = re.compile(r"[\w-][\w.-]{0,95}(/[\w-][\w.-]{0,95})?")
"""An organisation and a name, of at most 96 characters each as the hub has them."""


def choose(spec: Spec = DEFAULT, *, launch: str = "") -> Backbone:
    """The backbone that was asked for. Raises AssayError where its encoder is not there or packages are missing.

    ``launch`` is the command by which an encoder is tuned (``ASSAY_LAUNCH``); none, and it is in this process.
    """
    if spec.kind == EMBEDDED:
        from scoring.ngram import NgramBackbone

        return NgramBackbone()
    if spec.kind == "ensemble":
        from scoring.ensemble import EnsembleBackbone

        return EnsembleBackbone(_checked(spec) if spec.encoder else spec, launch)
    if spec.tuning == "frozen":
        from scoring.embedding import EmbeddingBackbone

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


def require_torch(name: str, *more: str) -> None:
    """Refuse to go on without the optional packages, and say how to get them. Imports none of them."""
    needed = ("torch", "transformers", "safetensors", *more)
    missing = [package for package in needed if find_spec(package) is None]
    if missing:
        raise AssayError(
            N_("The backbone {name} needs {packages}: pip install -r requirements-encoder.txt"),
            name=name,
            packages=", ".join(missing),
        )


@dataclass(frozen=True)
class TransformerBackbone:
    """A pretrained transformer with one head per criterion, all of it or its low-rank additions learning."""

    spec: Spec
    launch: str = ""

    @property
    def name(self) -> str:
        return self.spec.title

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> FittedScorer:
        return self._fitting_function()(
            self.spec, examples, heads, seed=seed, report=report, checkpoints=checkpoints
        )

    def _fitting_function(self) -> Callable[..., FittedScorer]:
        if self.launch:
            return partial(fit_in_process, self.launch)
        from scoring.training import fit_transformer

        return fit_transformer


def load(folder: Path) -> FittedScorer:
    """The scorer that was saved in the folder, whichever backbone it has."""
    card = read_card(folder)
    if card["kind"] in {EMBEDDED, FORMER}:
        from scoring.ngram import FittedNgramScorer

        return FittedNgramScorer.load(folder)
    if card["kind"] == "ensemble":
        from scoring.ensemble import FittedEnsembleScorer

        return FittedEnsembleScorer.load(folder, load)
    if card["kind"] == "patterns":
        from scoring.patterns import FittedPatternsScorer

        return FittedPatternsScorer.load(folder)
    require_torch(card["backbone"])
    if card["kind"] == "embedding":
        from scoring.embedding import FittedEmbeddingScorer

        return FittedEmbeddingScorer.load(folder)
    from scoring.predictor import TransformerScorer

    return TransformerScorer.load(folder)
