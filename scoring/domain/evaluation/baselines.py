"""What a scorer's figures stand beside: the commonest level, a list of refusals, and what people alone achieve.

Pure. Each is measured by the same function as the scorer, so that the figures can be compared. Models that are asked
to judge are not among them: nothing here asks a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from scoring.domain.backbone import Report, ignore_progress
from scoring.domain.evaluation import Metrics, measure_briefly, predict_splits
from scoring.domain.refusals import PHRASES
from scoring.domain.tables import AnnotatorLabels, LabelPlaces, PredictionTable, tabulate_labels
from scoring.domain.training_data import (
    Distribution,
    Example,
    Head,
    Prediction,
    head_state,
    level_counts,
    splits_by_prompt,
)
from scoring.inference.ngram import take_opening, to_plain

REFUSING = ("apology", "decline", "identity")
"""Of the phrases of ``scoring/domain/refusals.py`` those that lists of refusals are usually made of."""
_REFUSALS = tuple(phrase for group in REFUSING for phrase in PHRASES[group])
BRIEF_METRICS = ("n", "accuracy", "within_one", "macro_f1")

Matches = Callable[[str], bool]
"""Whether a rule matches the text of a response."""


def measure_majority(examples: Sequence[Example], heads: Sequence[Head], *, seed: int = 0) -> Metrics:
    """Always the commonest level of each criterion; of equally common ones the first on the scale."""
    always: Prediction = {}
    for head in heads:
        counts = level_counts(examples, head)
        if head_state(counts) != "empty":
            always[head.criterion] = head.certain(max(head.values, key=lambda value: counts[value]))
    predictions = PredictionTable.repeat(always, heads, len(examples))
    return measure_briefly(examples, _tabulate_gold(examples, heads), predictions, seed=seed)


def _tabulate_gold(examples: Sequence[Example], heads: Sequence[Head]) -> LabelPlaces:
    return tabulate_labels((example.labels for example in examples), heads)


def is_refusal(response: str) -> bool:
    """Does the opening of a response have one of the phrases that refusals have?"""
    return any(map(take_opening(to_plain(response)).__contains__, _REFUSALS))


def measure_string_rules(
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    matches: Matches = is_refusal,
    k: int = 5,
    seed: int = 0,
) -> Metrics:
    """What a list of refusals is worth, on the same folds as the scorer.

    Of each criterion it says the level that was the commonest among the training responses that match, or among those
    that do not.
    """
    # Each response is looked at in every fold; what was said of it once is known.
    known = lru_cache(maxsize=None)(matches)
    splits = splits_by_prompt(examples, k=k, seed=seed)
    predicted = predict_splits(RulesBackbone(known), examples, heads, splits, seed=seed)
    labels = _tabulate_gold(examples, heads)
    return measure_briefly(examples, labels, predicted.predictions, seed=seed)


@dataclass(frozen=True)
class RulesBackbone:
    """Learns no more than how often each level was given to responses that match and to those that do not."""

    matches: Matches = is_refusal

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> RulesScorer:
        by_match: dict[bool, Prediction] = {}
        for matched in (True, False):
            matching = [example for example in examples if self.matches(example.response) is matched]
            shares = {head.criterion: _shares(matching, head) or _shares(examples, head) for head in heads}
            by_match[matched] = {name: share for name, share in shares.items() if share is not None}
        return RulesScorer(self.matches, tuple(heads), by_match)


def _shares(examples: Sequence[Example], head: Head) -> Distribution | None:
    counts = Counter(e.labels[head.criterion] for e in examples if head.criterion in e.labels)
    return {value: counts[value] / counts.total() for value in head.values} if counts else None


@dataclass(frozen=True)
class RulesScorer:
    matches: Matches
    heads: tuple[Head, ...]
    by_match: Mapping[bool, Prediction]

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> PredictionTable:
        table = PredictionTable(self.heads, len(examples))
        for matched, prediction in self.by_match.items():
            rows = [row for row, each in enumerate(examples) if self.matches(each.response) is matched]
            table.put_all(rows, prediction)
        return table


def measure_annotators(
    examples: Sequence[Example],
    annotator_labels: AnnotatorLabels,
    heads: Sequence[Head],
    *,
    seed: int = 0,
) -> Metrics:
    """Single annotators against gold: each of them predicts the label that was settled.

    The gold rests on these very annotations, so this flatters them: it is a ceiling, not a fair rival.
    """
    rows = annotator_labels.rows
    return measure_briefly(
        [examples[row] for row in rows],
        _tabulate_gold(examples, heads)[rows],
        PredictionTable.from_labels(annotator_labels.places, heads),
        seed=seed,
    )


def measure_between_annotators(
    examples: Sequence[Example],
    annotator_labels: AnnotatorLabels,
    heads: Sequence[Head],
    *,
    seed: int = 0,
) -> Metrics:
    """Of each two annotators of a response the earlier predicts the later: accuracy is their mean percent agreement."""
    earlier, later = annotator_labels.list_pairs()
    return measure_briefly(
        [examples[row] for row in annotator_labels.rows[later]],
        annotator_labels.places[later],
        PredictionTable.from_labels(annotator_labels.places[earlier], heads),
        seed=seed,
    )


def shorten_metrics(metrics: Metrics) -> Metrics:
    """What a card keeps of it: n, accuracy, within one level and macro-F1, pooled and by each grouping."""
    figures_kept = {name: metrics[name] for name in BRIEF_METRICS}
    for grouping in ("by_criterion", "by_model", "by_kind"):
        figures_kept[grouping] = {
            group: {name: figures[name] for name in BRIEF_METRICS}
            for group, figures in metrics[grouping].items()
        }
    return figures_kept
