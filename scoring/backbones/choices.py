"""What predictions on inner folds say of a head: its form, and the calibration that fits there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.calibration import Calibration, fit_calibration, log_loss
from scoring.domain.training_data import Example, Head, target_shares
from scoring.inference.ngram import Doubles, Form

IMPOSSIBLE = 1e-12
Logs = dict[str, Doubles]
"""By criterion (examples, levels of the scale): log probabilities, NaN where an example was not predicted."""


def weigh_levels(counts: npt.NDArray[Any], balance: float) -> Doubles:
    """(levels,): what a label of each level weighs in learning, up to a factor; a level without labels weighs 0."""
    weights = np.zeros(len(counts))
    np.power(1.0 / np.where(counts > 0, counts, 1.0), balance, out=weights, where=counts > 0)
    return weights


@dataclass(frozen=True)
class HeadChoice:
    """What inner folds said of one head. ``losses`` are by form, of the best calibration; empty where there was nothing
    to choose by."""

    calibration: Calibration
    form: Form = "multinomial"
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def temperature(self) -> float:
        return self.calibration.temperature

    def select_offsets(self, seen: Sequence[int]) -> tuple[float, ...]:
        """Those of the levels that a head has seen, out of all of its scale's."""
        return tuple(self.calibration.offsets[place] for place in seen)

    def to_json(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "inner_log_loss": dict(self.losses),
            **calibration_to_json(self.calibration),
        }


def calibration_to_json(calibration: Calibration) -> dict[str, Any]:
    return {
        "temperature": calibration.temperature,
        "offsets": list(calibration.offsets),
        "calibration": calibration.method,
        "calibration_log_loss": dict(calibration.losses),
    }


@dataclass(frozen=True)
class LabelledLogs:
    """Log probabilities (n, levels) out of fold of the rows that have a label, and its place on the scale."""

    rows: npt.NDArray[np.int64]
    """The places of these rows among the examples."""
    logs: Doubles
    targets: npt.NDArray[np.int64]


def select_labelled(examples: Sequence[Example], head: Head, logs: Doubles) -> LabelledLogs:
    """The predicted rows that have a label, without those whose level the fold had not seen: they tell nothing of how
    sure to be of the levels it had."""
    is_predicted = ~np.isnan(logs).any(axis=1)
    labelled = [i for i in np.flatnonzero(is_predicted).tolist() if head.criterion in examples[i].labels]
    targets = np.array([head.position(examples[i].labels[head.criterion]) for i in labelled], dtype=np.int64)
    predicted = logs[labelled]
    possible = predicted[np.arange(len(targets)), targets] > np.log(IMPOSSIBLE) + 1
    return LabelledLogs(np.array(labelled, dtype=np.int64)[possible], predicted[possible], targets[possible])


SOFT_COPIES = 12
"""A share of two, three, four or six people is so many whole copies of a row."""


def count_targets(examples: Sequence[Example], head: Head) -> Doubles:
    """(levels,): how often each level is to be learned, in parts where people said several."""
    counts = np.zeros(len(head.values))
    for example in examples:
        if head.criterion in example.labels:
            for level, share in target_shares(example, head).items():
                counts[head.position(level)] += share
    return counts


def spread_targets(
    examples: Sequence[Example], head: Head, labelled: LabelledLogs
) -> tuple[LabelledLogs, int]:
    """Each row as often as people said its levels, and how many copies of it there are; labels as they are."""
    if not any(head.criterion in examples[row].soft for row in labelled.rows):
        return labelled, 1
    places, targets = [], []
    for place, row in enumerate(labelled.rows.tolist()):
        shares = target_shares(examples[row], head)
        for level, share in shares.items():
            position = head.position(level)
            if labelled.logs[place, position] > np.log(IMPOSSIBLE) + 1:
                copies = round(share * SOFT_COPIES)
                places += [place] * copies
                targets += [position] * copies
    spread = LabelledLogs(labelled.rows[places], labelled.logs[places], np.array(targets, dtype=np.int64))
    return spread, SOFT_COPIES


def choose_form(
    examples: Sequence[Example],
    head: Head,
    tried: Mapping[Form, Logs],
    folds: npt.NDArray[np.int64],
    balance: float,
) -> HeadChoice:
    """The form with the least log loss at its own best calibration; of equals the plain one.

    ``balance`` is the recipe's: with what its levels weighed, the calibration knows what to undo.
    """
    counts = count_targets(examples, head)
    learned = counts * weigh_levels(counts, balance)
    learned_shares, rates = _normalise(learned), _normalise(counts)
    losses: dict[Form, float] = {}
    calibrations: dict[Form, Calibration] = {}
    for form, logs in tried.items():
        if head.criterion in logs:
            labelled = select_labelled(examples, head, logs[head.criterion])
            labelled, copies = spread_targets(examples, head, labelled)
            if not len(labelled.targets):  # no fold had seen the levels that it was to predict
                continue
            calibration = fit_calibration(
                labelled.logs,
                labelled.targets,
                folds[labelled.rows],
                learned_shares=learned_shares,
                rates=rates,
                copies=copies,
            )
            calibrated = log_loss(calibration.apply(labelled.logs), labelled.targets)
            losses[form] = round(min(calibration.losses.values(), default=calibrated), 5)
            calibrations[form] = calibration
    if not losses:
        no_logs = np.zeros((0, len(head.values)))
        no_rows = np.zeros(0, np.int64)
        return HeadChoice(
            fit_calibration(no_logs, no_rows, no_rows, learned_shares=learned_shares, rates=rates)
        )
    best = min(losses, key=lambda form: losses[form])
    return HeadChoice(calibrations[best], best, {form: losses[form] for form in losses})


def _normalise(counts: Doubles) -> Doubles:
    """Shares of them all; zeros where nothing is counted."""
    shares: Doubles = counts / (counts.sum() or 1.0)
    return shares
