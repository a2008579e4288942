"""A scorer's figures as a table of text, for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from annotation.core.formatting import UNDEFINED, format_decimal, format_percent
from annotation.terminal import table

HEADS = ("", "n", "accuracy", "within one", "macro-F1", "calibration error")
EVALUATIONS = {"grouped": "by prompt", "leave_one_model_out": "one model left out"}
BASELINES = {
    "majority": "commonest level",
    "string_rules": "a list of refusals",
    "annotators": "annotators, against gold",
    "between_annotators": "annotators, against each other",
}
PARTS = {
    "grouped": ("by_criterion", "by_model", "by_kind"),
    "leave_one_model_out": ("by_criterion", "by_model"),
}


def figures_table(evaluation: Mapping[str, Any], card: Mapping[str, Any]) -> list[str]:
    """The pooled figures of each evaluation with their parts below, those of the test split, then the baselines."""
    rows: list[tuple[str, ...]] = [HEADS]
    for name, title in EVALUATIONS.items():
        if name in evaluation:
            rows += _evaluation_rows(title, evaluation[name], PARTS[name])
    if card["held_out"]:
        rows.append(_row("test split, which what is kept has not learned", card["test"]))
    rows += [_row(BASELINES[name], metrics) for name, metrics in card["baselines"].items()]
    return table(rows)


def _evaluation_rows(
    title: str, metrics: Mapping[str, Any], groupings: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    yield _row(title, metrics)
    for grouping in groupings:
        parts = metrics.get(grouping, {})
        if len(parts) > 1:  # one criterion alone is the pooled figure again
            yield from (_row(f"  {name}", figures) for name, figures in parts.items())
    if "new_text" in metrics:
        yield _row("  of texts that were not learned", metrics["new_text"])


def further_lines(evaluation: Mapping[str, Any], card: Mapping[str, Any]) -> list[str]:
    """What needs a sentence: seeds, answering where it is sure, sets, the learning curve, an adaptation."""
    found = [
        *_seed_lines(evaluation["grouped"].get("by_seed")),
        *_coverage_lines(evaluation["grouped"].get("risk_coverage", [])),
        *_set_lines(card.get("conformal", {}).get("criteria", {})),
        *_curve_lines(evaluation.get("learning_curve")),
        *_adaptation_lines(evaluation.get("adaptation")),
    ]
    return found if card["held_out"] else [*found, "no test split: there are too few prompts to hold any out"]


def _seed_lines(seeds: Mapping[str, Any] | None) -> Iterator[str]:
    if seeds is not None and len(seeds["seeds"]) > 1:
        told = [f"{title} {_spread(seeds['spread'][name])}" for name, title in SPREAD.items()]
        yield f"{len(seeds['seeds'])} deals of the folds: {', '.join(told)}"


SPREAD = {"accuracy": "accuracy", "macro_f1": "macro-F1", "calibration_error": "calibration error"}


def _spread(one: Mapping[str, float | None]) -> str:
    low, high = (format_decimal(one[end], 4) for end in ("low", "high"))
    return UNDEFINED if UNDEFINED in (low, high) else f"{low} to {high}"


def _coverage_lines(curve: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if curve:
        told = [f"{format_percent(row['answered'], 0)} {statistic(row['accuracy'])}" for row in curve]
        yield f"accuracy where it is most sure: {', '.join(told)}"


def _set_lines(criteria: Mapping[str, Any]) -> Iterator[str]:
    for criterion, found in criteria.items():
        told = [f"{name}: {format_percent(one['single'], 0)}" for name, one in found["coverages"].items()]
        yield f"one level in the set that covers, {criterion}: {', '.join(told)}"


def _curve_lines(curve: Mapping[str, Any] | None) -> Iterator[str]:
    if curve is None:
        return
    for point in curve["points"]:
        figures = f"accuracy {statistic(point['accuracy'])}, macro-F1 {statistic(point['macro_f1'])}"
        yield f"learned from {format_decimal(point['labels'], 0)} labels: {figures}"
    ahead = curve["next"]
    for name, title in SPREAD.items():
        if ahead is not None and name in ahead:
            yield f"the next {ahead['labels']} labels would bring {title} {statistic(ahead[name]['gain'])}"


def _adaptation_lines(found: Mapping[str, Any] | None) -> Iterator[str]:
    if found is not None:
        yield (
            f"{found['model']}, {format_decimal(found['labels'], 0)} labels learned: accuracy "
            f"{statistic(found['without']['accuracy'])} without, {statistic(found['with']['accuracy'])} with, "
            f"difference {statistic(found['difference']['accuracy'])}"
        )


DRIFT_HEADS = (
    "",
    "responses",
    "told apart (AUC)",
    "accuracy lost",
    "repeated texts",
    "median length",
    "confidence",
)


def drift_table(model: str, found: Mapping[str, Any]) -> list[str]:
    """The new model, then each training model beside the others, and what cannot stand in a column."""
    rows = [DRIFT_HEADS, _drift_row(model, found["new"])]
    rows += [_drift_row(f"  {name}", one) for name, one in found["models"].items()]
    lines = table(rows)
    common = found["new"]["repeated"]["commonest"]
    if common is not None:
        known = "also" if common["in_training"] else "not"
        lines.append(f"{common['n']} times, {known} in the training data: {' '.join(common['text'].split())}")
    if found["most_different"]:
        lines.append(f"{model} is easier to tell apart than any model that was learned from")
    return lines


def _drift_row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        str(one["n"]),
        format_decimal(one["auc"]),
        format_decimal(one.get("accuracy_lost")),
        format_decimal(one["repeated"]["share"]),
        format_decimal(one["characters"] and one["characters"][1], 0),
        format_decimal(one["confidence"]),
    )


def _row(name: str, metrics: Mapping[str, Any]) -> tuple[str, ...]:
    error = metrics.get("calibration_error")
    return (
        name,
        str(metrics["n"]),
        statistic(metrics["accuracy"]),
        statistic(metrics["within_one"]),
        statistic(metrics["macro_f1"]),
        format_decimal(error, 4),
    )


def statistic(one: Mapping[str, float | None]) -> str:
    """``0.8991 [0.884, 0.913]``; ``-`` where it is undefined."""
    if one["value"] is None:
        return UNDEFINED
    low, high = (format_decimal(one[end]) for end in ("low", "high"))
    interval = "[-]" if UNDEFINED in (low, high) else f"[{low}, {high}]"
    return f"{format_decimal(one['value'], 4)} {interval}"
