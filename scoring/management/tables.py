"""A scorer's figures as a table of text, for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from annotation.core.formatting import UNDEFINED, format_decimal, format_percent
from annotation.core.terminal import format_table
from scoring.selectors.scorers import find_cut_examples

COLUMNS = ("", "n", "accuracy", "within one", "macro-F1", "calibration error", "log loss", "of the rates")
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
    rows: list[tuple[str, ...]] = [COLUMNS]
    for name, title in EVALUATIONS.items():
        if name in evaluation:
            rows += _evaluation_rows(title, evaluation[name], PARTS[name])
    if card["held_out"]:
        rows.append(_row("test split, which what is kept has not learned", card["test"]))
    rows += [_row(BASELINES[name], metrics) for name, metrics in card["baselines"].items()]
    return format_table(rows)


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


def list_further_lines(evaluation: Mapping[str, Any], card: Mapping[str, Any]) -> list[str]:
    """What needs a sentence: folds, seeds, answering where it is sure, sets, the learning curve, an adaptation."""
    lines = [
        f"folds: {', '.join(map(str, card['split']['sizes']))} responses",
        *_soft_lines(evaluation["grouped"].get("soft_labels") or {}),
        *_seed_lines(evaluation["grouped"].get("by_seed")),
        *_coverage_lines(evaluation["grouped"].get("risk_coverage", [])),
        *_set_lines(card.get("conformal", {}).get("criteria", {})),
        *_curve_lines(evaluation.get("learning_curve")),
        *_adaptation_lines(evaluation.get("adaptation")),
        *_cut_lines(card),
    ]
    return lines if card["held_out"] else [*lines, "no test split: there are too few prompts to hold any out"]


def _soft_lines(criteria: Mapping[str, Any]) -> Iterator[str]:
    for criterion, figures in criteria.items():
        if figures["n"]:
            entropies = [format_decimal(figures[name], 4) for name in ("cross_entropy", "entropy")]
            distance = format_decimal(figures["jensen_shannon"], 4)
            yield (
                f"beside what people said, {criterion}: cross-entropy {entropies[0]} (at least {entropies[1]}), "
                f"Jensen-Shannon distance {distance}"
            )


def _seed_lines(seeds: Mapping[str, Any] | None) -> Iterator[str]:
    if seeds is not None and len(seeds["seeds"]) > 1:
        spreads = [
            f"{title} {_format_spread(seeds['spread'][name])}" for name, title in SPREAD_TITLES.items()
        ]
        yield f"{len(seeds['seeds'])} deals of the folds: {', '.join(spreads)}"


SPREAD_TITLES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "calibration_error": "calibration error"}


def _format_spread(spread: Mapping[str, float | None]) -> str:
    low, high = (format_decimal(spread[end], 4) for end in ("low", "high"))
    return UNDEFINED if UNDEFINED in (low, high) else f"{low} to {high}"


def _coverage_lines(curve: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if curve:
        figures = [
            f"{format_percent(row['answered'], 0)} {format_statistic(row['accuracy'])}" for row in curve
        ]
        yield f"accuracy where it is most sure: {', '.join(figures)}"


def _set_lines(criteria: Mapping[str, Any]) -> Iterator[str]:
    for criterion, figures in criteria.items():
        shares = [
            f"{name}: {format_percent(coverage_figures['single'], 0)}"
            for name, coverage_figures in figures["coverages"].items()
        ]
        yield f"one level in the set that covers, {criterion}: {', '.join(shares)}"


def _curve_lines(curve: Mapping[str, Any] | None) -> Iterator[str]:
    if curve is None:
        return
    for point in curve["points"]:
        figures = (
            f"accuracy {format_statistic(point['accuracy'])}, macro-F1 {format_statistic(point['macro_f1'])}"
        )
        yield f"learned from {format_decimal(point['labels'], 0)} labels: {figures}"
    extrapolation = curve["next"]
    for name, title in SPREAD_TITLES.items():
        if extrapolation is not None and name in extrapolation:
            gain = format_statistic(extrapolation[name]["gain"])
            yield f"the next {extrapolation['labels']} labels would bring {title} {gain}"


def _adaptation_lines(adaptation: Mapping[str, Any] | None) -> Iterator[str]:
    if adaptation is not None:
        yield (
            f"{adaptation['model']}, {format_decimal(adaptation['labels'], 0)} labels learned: accuracy "
            f"{format_statistic(adaptation['without']['accuracy'])} without, "
            f"{format_statistic(adaptation['with']['accuracy'])} with, "
            f"difference {format_statistic(adaptation['difference']['accuracy'])}"
        )


def _cut_lines(card: Mapping[str, Any]) -> Iterator[str]:
    cut = find_cut_examples(card)
    if cut is not None:
        yield (
            f"{cut.n} of {cut.of} examples are longer than {cut.max_tokens} tokens and were cut"
            " (--set max_tokens=N reads more)"
        )


DRIFT_COLUMNS = (
    "",
    "responses",
    "separability (AUC)",
    "accuracy lost",
    "repeated texts",
    "median length",
    "confidence",
)


def drift_table(model: str, drift: Mapping[str, Any]) -> list[str]:
    """The new model, then each training model beside the others, and what cannot stand in a column."""
    rows = [DRIFT_COLUMNS, _drift_row(model, drift["new"])]
    rows += [_drift_row(f"  {name}", model_figures) for name, model_figures in drift["models"].items()]
    lines = format_table(rows)
    common = drift["new"]["repeated"]["commonest"]
    if common is not None:
        known = "also" if common["in_training"] else "not"
        lines.append(f"{common['n']} times, {known} in the training data: {' '.join(common['text'].split())}")
    if drift["most_different"]:
        lines.append(f"{model} is easier to separate than any model that was learned from")
    return lines


def _drift_row(name: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        str(figures["n"]),
        format_decimal(figures["auc"]),
        format_decimal(figures.get("accuracy_lost")),
        format_decimal(figures["repeated"]["share"]),
        format_decimal(figures["characters"] and figures["characters"][1], 0),
        format_decimal(figures["confidence"]),
    )


def _row(name: str, metrics: Mapping[str, Any]) -> tuple[str, ...]:
    error = metrics.get("calibration_error")
    return (
        name,
        str(metrics["n"]),
        format_statistic(metrics["accuracy"]),
        format_statistic(metrics["within_one"]),
        format_statistic(metrics["macro_f1"]),
        format_decimal(error, 4),
        format_decimal(metrics.get("log_loss"), 4),
        format_decimal(metrics.get("commonest_log_loss"), 4),
    )


def format_statistic(figure: Mapping[str, float | None]) -> str:
    """``0.8991 [0.884, 0.913]``; ``-`` where it is undefined."""
    if figure["value"] is None:
        return UNDEFINED
    low, high = (format_decimal(figure[end]) for end in ("low", "high"))
    interval = "[-]" if UNDEFINED in (low, high) else f"[{low}, {high}]"
    return f"{format_decimal(figure['value'], 4)} {interval}"
