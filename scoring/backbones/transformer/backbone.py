from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from annotation.core.errors import N_, AssayError
from scoring.backbones.transformer.launcher import fit_in_process
from scoring.domain.backbone import FittedScorer, Report, ignore_progress
from scoring.domain.spec import Spec
from scoring.domain.training_data import Example, Head


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
        from scoring.backbones.transformer.training import fit_transformer

        return fit_transformer
