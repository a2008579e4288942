"""What every backbone of a scorer offers, and how long work tells of itself.

Pure: no Django, no learning library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from scoring.domain.training_data import Example, Head, Prediction


class WorkCancelled(Exception):
    """Raised by a report to stop the work it is told of."""


class ProcessKilled(Exception):
    """A process that did the work was killed from outside; what it had kept is there to go on from."""


@dataclass(frozen=True)
class FitProgress:
    """How far the work is: ``fraction`` of all of it; ``part`` of ``parts`` when it is done in rounds."""

    stage: str
    fraction: float
    loss: float | None = None
    part: int | None = None
    parts: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Beside the loss, by name: what was measured at this moment."""


Report = Callable[[FitProgress], None]
"""Is told of progress, and may raise ``Cancelled``."""


def ignore_progress(progress: FitProgress) -> None:
    """The report of work that nobody watches."""


def scale_report(report: Report, start: float, stop: float, **changes: Any) -> Report:
    """A report for a step of longer work: its 0 to 1 becomes start to stop, other fields as in ``changes``."""

    def report_scaled(progress: FitProgress) -> None:
        fraction = start + (stop - start) * progress.fraction
        report(replace(progress, fraction=fraction, **changes))

    return report_scaled


class Predictor(Protocol):
    """It predicts every criterion it learned; the caller knows which apply to a response."""

    def predict(
        self, examples: Sequence[Example], *, report: Report = ignore_progress
    ) -> Sequence[Prediction]: ...


class FittedScorer(Predictor, Protocol):
    """A trained scorer, which can be kept."""

    @property
    def backbone(self) -> str: ...

    @property
    def heads(self) -> tuple[Head, ...]: ...

    def save(self, folder: Path) -> None: ...


class Learner(Protocol):
    """Something that can learn and be evaluated. With a ``checkpoints`` folder an interrupted fit goes on."""

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> Predictor: ...


class Backbone(Learner, Protocol):
    """One whose scorers can be kept."""

    @property
    def name(self) -> str: ...

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> FittedScorer: ...
