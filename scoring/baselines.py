"""What a scorer's figures stand beside: always saying the commonest level, and what people alone achieve.

Pure. Each is measured by the same function as the scorer, so that the figures can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scoring.dataset import Example, Head, Prediction, Value, head_state, level_counts
from scoring.evaluation import Metrics, measure

Said = Sequence[Mapping[str, Value]]
"""What each annotator of one response said alone, by criterion."""


def majority(examples: Sequence[Example], heads: Sequence[Head], *, seed: int = 0) -> Metrics:
    """Always the commonest level of each criterion; of equally common ones the first on the scale."""
    always: Prediction = {}
    for head in heads:
        counts = level_counts(examples, head)
        if head_state(counts) != "empty":
            always[head.criterion] = head.certain(max(head.values, key=lambda value: counts[value]))
    return measure(examples, [always for _ in examples], heads, seed=seed)


def annotators(
    examples: Sequence[Example], said: Sequence[Said], heads: Sequence[Head], *, seed: int = 0
) -> Metrics:
    """Single annotators against gold: each of them predicts the label that was settled.

    The gold rests on these very annotations, so this flatters them: it is a ceiling, not a fair rival.
    """
    rows = [(example, one) for example, those in zip(examples, said, strict=True) for one in those]
    return measure([e for e, _one in rows], [_certain(one, heads) for _e, one in rows], heads, seed=seed)


def between_annotators(
    examples: Sequence[Example], said: Sequence[Said], heads: Sequence[Head], *, seed: int = 0
) -> Metrics:
    """The first annotator of each response predicts the second: accuracy is their percent agreement."""
    pairs = [(e, those[0], those[1]) for e, those in zip(examples, said, strict=True) if len(those) > 1]
    settled = [replace(example, labels=dict(second)) for example, _first, second in pairs]
    return measure(settled, [_certain(first, heads) for _e, first, _second in pairs], heads, seed=seed)


def _certain(labels: Mapping[str, Value], heads: Sequence[Head]) -> Prediction:
    return {
        head.criterion: head.certain(labels[head.criterion]) for head in heads if head.criterion in labels
    }


def brief(metrics: Metrics) -> Metrics:
    """What a card keeps of it: n, accuracy and macro-F1, pooled, by criterion and by model."""
    kept = {name: metrics[name] for name in ("n", "accuracy", "macro_f1")}
    for grouping in ("by_criterion", "by_model"):
        kept[grouping] = {
            group: {name: figures[name] for name in ("n", "accuracy", "macro_f1")}
            for group, figures in metrics[grouping].items()
        }
    return kept
