"""What examples say of a head, and what predictions of them on inner folds choose: its form, and the calibration that
fits there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.calibration import Calibration, fit_calibration, log_loss
from scoring.domain.tables import NO_LABEL, tabulate_labels
from scoring.domain.training_data import Example, Head, target_shares
from scoring.inference.ngram import Doubles, Form

IMPOSSIBLE = 1e-12
Rows = npt.NDArray[np.int64]
"""Places of examples, or of levels."""
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
class Targets:
    """What a head is to learn: rows of examples, the places of levels on its scale, and how many of the people said so,
    1 of a label. A row comes again for each level that people gave."""

    rows: Rows
    positions: Rows
    amounts: Doubles

    def select(self, is_asked: npt.NDArray[np.bool_]) -> Targets:
        """Of the examples that this, an entry for each, says."""
        keep = is_asked[self.rows]
        return Targets(self.rows[keep], self.positions[keep], self.amounts[keep])

    def list_examples(self) -> Rows:
        """The examples that have a target, in their order."""
        return np.unique(self.rows)


@dataclass(frozen=True)
class HeadLabels:
    """What examples say of one head."""

    head: Head
    places: npt.NDArray[np.int32]
    """(examples,): where the label is on the scale, ``NO_LABEL`` where there is none."""
    targets: Targets
    is_soft: npt.NDArray[np.bool_]
    """(examples,): whether it is what people said that is learned, and not the label."""

    @classmethod
    def collect(cls, examples: Sequence[Example], heads: Sequence[Head]) -> list[HeadLabels]:
        table = tabulate_labels((example.labels for example in examples), heads)
        return [cls._collect_head(examples, head, table[:, column]) for column, head in enumerate(heads)]

    @classmethod
    def _collect_head(
        cls, examples: Sequence[Example], head: Head, places: npt.NDArray[np.int32]
    ) -> HeadLabels:
        rows = np.flatnonzero(places != NO_LABEL)
        is_soft = np.fromiter((head.criterion in example.soft for example in examples), np.bool_, len(places))
        if not is_soft[rows].any():
            return cls(
                head, places, Targets(rows, places[rows].astype(np.int64), np.ones(len(rows))), is_soft
            )
        parts = [
            (row, head.position(level), share)
            for row in rows.tolist()
            for level, share in target_shares(examples[row], head).items()
            if share > 0
        ]
        of_row, positions, amounts = zip(*parts, strict=True)
        targets = Targets(np.array(of_row, np.int64), np.array(positions, np.int64), np.array(amounts))
        return cls(head, places, targets, is_soft)

    def count_targets(self) -> Doubles:
        """(levels,): how often each level is to be learned, in parts where people said several."""
        levels = len(self.head.values)
        counts: Doubles = np.bincount(
            self.targets.positions, weights=self.targets.amounts, minlength=levels
        ).astype(np.float64)
        return counts

    def select_labelled(self, logs: Doubles) -> LabelledLogs:
        """The predicted rows that have a label, without those whose level the fold had not seen: they tell nothing of
        how sure to be of the levels it had."""
        rows = np.flatnonzero(~np.isnan(logs).any(axis=1) & (self.places != NO_LABEL))
        labelled = LabelledLogs(rows, logs[rows], self.places[rows].astype(np.int64))
        return labelled.select(labelled.logs[np.arange(len(rows)), labelled.targets] > np.log(IMPOSSIBLE) + 1)

    def spread_targets(self, labelled: LabelledLogs) -> tuple[LabelledLogs, int]:
        """Each row as often as people said its levels, and how many copies of it there are; labels as they are."""
        if not self.is_soft[labelled.rows].any():
            return labelled, 1
        bounds = [np.searchsorted(self.targets.rows, labelled.rows, side) for side in ("left", "right")]
        places, targets = [], []
        for place, (first, end) in enumerate(zip(*bounds, strict=True)):
            for target in range(first, end):
                position = self.targets.positions[target]
                if labelled.logs[place, position] > np.log(IMPOSSIBLE) + 1:
                    copies = round(self.targets.amounts[target] * SOFT_COPIES)
                    places += [place] * copies
                    targets += [position] * copies
        spread = LabelledLogs(labelled.rows[places], labelled.logs[places], np.array(targets, dtype=np.int64))
        return spread, SOFT_COPIES


@dataclass(frozen=True)
class LabelledLogs:
    """Log probabilities (n, levels) out of fold of the rows that have a label, and its place on the scale."""

    rows: Rows
    """The places of these rows among the examples."""
    logs: Doubles
    targets: Rows

    def select(self, keep: npt.NDArray[np.bool_]) -> LabelledLogs:
        return LabelledLogs(self.rows[keep], self.logs[keep], self.targets[keep])


SOFT_COPIES = 12
"""A share of two, three, four or six people is so many whole copies of a row."""


def choose_form(
    labels: HeadLabels,
    tried: Mapping[Form, Logs],
    folds: npt.NDArray[np.int64],
    balance: float,
) -> HeadChoice:
    """The form with the least log loss at its own best calibration; of equals the plain one.

    ``balance`` is the recipe's: with what its levels weighed, the calibration knows what to undo.
    """
    head, counts = labels.head, labels.count_targets()
    learned = counts * weigh_levels(counts, balance)
    learned_shares, rates = _normalise(learned), _normalise(counts)
    losses: dict[Form, float] = {}
    calibrations: dict[Form, Calibration] = {}
    for form, logs in tried.items():
        if head.criterion in logs:
            labelled, copies = labels.spread_targets(labels.select_labelled(logs[head.criterion]))
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
