"""The verdict of the gate on a scorer: its evidence gathered, the scorers asked, the regression cases too.

Asking may need the learning libraries: call it from a job or a command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from annotation.core.errors import N_, AssayError
from scoring.domain.gate import BEST, CURRENT, MARGIN, MustFailItem, Rival, judge_scorer
from scoring.domain.training_data import Distribution, Example
from scoring.domain.training_data import Prediction as Predicted
from scoring.models import RegressionCase, Scorer
from scoring.selectors.gate import (
    GateEvidence,
    GateSide,
    is_silent,
    list_attempts,
    list_datasets,
    list_useless_criteria,
)
from scoring.selectors.regression_cases import must_fail_items
from scoring.selectors.scorers import list_promotions
from scoring.selectors.training import (
    TrainingRecord,
    TrainingSet,
    build_example,
    build_heads,
    build_training_set,
)
from scoring.services.predictions.predictions import StageReport, ignore_stage, load_scorer

READING = N_("reading the labels of the releases")
COMPARING = N_("asking both scorers")
ASKING_MUST_FAIL = N_("asking about the regression cases")


def build_verdict(
    new: Scorer, *, margin: float = MARGIN, report: StageReport = ignore_stage
) -> dict[str, Any]:
    """The verdict on ``new`` beside the current scorer of its guideline and the best that was ever promoted.

    Beside ``judge_scorer``'s keys: ``datasets`` of the labels, ``promotion`` (the number of the last one, 0 before
    any), and ``missing``: scorers of which the files are gone. Which attempt it is, is known when it is stored
    (``describe_attempts``).

    Where a new version of the guideline has changed every scale, there is nothing that both can be asked: the new one
    is then judged as the first.
    """
    report(0.0, READING)
    lesson = build_training_set(new.release, new.guideline)
    promotions = list_promotions(new.guideline.name)
    current = promotions[0].scorer if promotions else None
    comparisons = _GateComparisons(new, lesson)
    rivals: list[Rival] = []
    report(0.1, COMPARING)
    if current is not None:
        rivals += comparisons.compare(current, CURRENT)
    former = {promotion.scorer for promotion in promotions} - {current, new}
    rivals += comparisons.find_best(sorted(former, key=lambda scorer: scorer.pk), rivals, report)
    report(0.8, ASKING_MUST_FAIL)
    verdict = judge_scorer(
        rivals,
        predict_must_fail_items(new),
        criteria=[head.criterion for head in lesson.heads],
        lost=[] if current is None else _list_lost_criteria(new, current),
        useless=list_useless_criteria(new),
        margin=margin,
    )
    datasets = comparisons.datasets or list_datasets(lesson.examples)
    report(1.0, ASKING_MUST_FAIL)
    return {
        **verdict,
        "datasets": sorted(datasets),
        "promotion": promotions[0].number if promotions else 0,
        "missing": comparisons.missing,
    }


def describe_attempts(new: Scorer, datasets: Sequence[str], margin: float) -> dict[str, Any]:
    """Which verdict this is on labels of the datasets: ``earlier`` ones, ``attempt`` (1 is the first), and
    ``raised_from`` (the smallest margin of an earlier one on this scorer, where it was smaller).

    Asked for under the lock under which the verdict is stored, else two at one moment would be the same attempt.
    """
    earlier = list_attempts(new, datasets)
    own = [attempt["margin"] for attempt in earlier if attempt["scorer"] == new.name and attempt["margin"]]
    smallest = min(own, default=margin)
    return {
        "earlier": earlier,
        "attempt": len(earlier) + 1,
        "raised_from": smallest if smallest < margin else None,
    }


@dataclass
class _GateComparisons:
    """The new scorer beside others, one after another; ``datasets`` are those of the labels."""

    new: Scorer
    lesson: TrainingSet

    def __post_init__(self) -> None:
        self.datasets: set[str] = set()
        self.missing: list[str] = []

    def compare(self, old: Scorer, role: str) -> list[Rival]:
        """Nothing where no scale is common to both."""
        evidence = GateEvidence.collect(self.lesson, self.new, old)
        if not evidence.heads:
            return []
        side_new, side_old = (GateSide.load(scorer, evidence.taught) for scorer in (self.new, old))
        cases, left_out = evidence.build_cases(side_new, side_old, _ask)
        self.datasets.update(list_datasets(evidence.examples))
        silent = [
            head.criterion
            for head in evidence.heads
            if all(is_silent(scorer, head.criterion) for scorer in (self.new, old))
        ]
        return [Rival(role, old.name, cases, left_out, evidence.rescaled, silent)]

    def find_best(
        self, former: Sequence[Scorer], current: Sequence[Rival], report: StageReport
    ) -> list[Rival]:
        """Of the scorers ever promoted the one beside which the new one does worst, where that is not the current one.

        One whose files are gone cannot be asked, and is named in ``missing``.
        """
        least = min((_mean_difference(rival) for rival in current), default=np.inf)
        best: list[Rival] = []
        for place, scorer in enumerate(former):
            report(0.3 + 0.5 * place / len(former), COMPARING)
            try:
                rivals = self.compare(scorer, BEST)
            except AssayError:
                self.missing.append(scorer.name)
                continue
            for rival in rivals:
                if (difference := _mean_difference(rival)) < least:
                    least, best = difference, [rival]
        return best


def _mean_difference(rival: Rival) -> float:
    """Of the accuracies, new less old: the mean over criteria; infinite without a case, for then nothing is known."""
    by_criterion: dict[str, list[int]] = {}
    for case in rival.cases:
        gain = int(case.new == case.truth) - int(case.old == case.truth)
        by_criterion.setdefault(case.criterion, []).append(gain)
    return float(np.mean([np.mean(gains) for gains in by_criterion.values()])) if by_criterion else np.inf


def _list_lost_criteria(new: Scorer, old: Scorer) -> set[str]:
    """The criteria of the new scorer that it has learned nothing of, and the old one has: on whatever scale."""
    known = {criterion for criterion, head in old.card.get("heads", {}).items() if head["state"] != "empty"}
    return {head.criterion for head in build_heads(new.guideline) if is_silent(new, head.criterion)} & known


def _ask(
    scorer: Scorer, training_record: TrainingRecord, examples: Sequence[Example]
) -> dict[str, Predicted]:
    """By content key what the scorer that is kept says.

    What it said when it was trained need not be asked again, and then its libraries need not be there.
    """
    predictions = {
        example.content_key: training_record.tested[example.content_key]
        for example in examples
        if example.content_key in training_record.tested
    }
    unpredicted = {
        example.content_key: example for example in examples if example.content_key not in predictions
    }
    if unpredicted:
        predictions |= zip(
            unpredicted, load_scorer(scorer).fitted.predict(list(unpredicted.values())), strict=True
        )
    return predictions


def predict_must_fail_items(scorer: Scorer) -> list[MustFailItem]:
    """What the scorer that is kept gives each item, and of what it has learned also what was said out of fold.

    By heart any scorer passes, so what it has learned it passes out of fold; what it fails even by heart it fails.
    """
    training_record = TrainingRecord.load(scorer)
    items = list(must_fail_items(scorer.guideline.name))
    examples = {item.pk: build_example(item.response) for item in items}
    predictions = _ask(scorer, training_record, list(examples.values()))
    answers = {key: [predicted] for key, predicted in predictions.items()}
    if learned := answers.keys() & training_record.learned:
        out_of_fold = load_scorer(scorer).out_of_fold.predictions
        for key in learned:
            answers[key].insert(0, out_of_fold[key][1] if key in out_of_fold else {})
    scales = {head.criterion: head.values for head in build_heads(scorer.guideline)}
    return [
        _judge_must_fail_item(item, answers[examples[item.pk].content_key], scales.get(item.criterion, ()))
        for item in items
    ]


def _judge_must_fail_item(
    item: RegressionCase, answers: Sequence[Predicted], scale: Sequence[float]
) -> MustFailItem:
    """It was given the value that it must not be given where any of the answers is one, else the first."""
    values = [_find_likeliest(predicted.get(item.criterion)) for predicted in answers]
    predicted = next((value for value in values if value in item.refused), values[0])
    void = not set(item.refused) & set(scale)
    return MustFailItem(str(item.pk), item.criterion, tuple(item.refused), predicted, void)


def _find_likeliest(distribution: Distribution | None) -> float | None:
    return None if distribution is None else max(distribution, key=lambda value: distribution[value])
