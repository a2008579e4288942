"""Does it know what it does not know: reliability, accuracy at coverage, and sets of likely levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from annotation.selectors.guidelines import criterion_label
from scoring.domain.calibration import DEFAULT_COVERAGE, MIN_LABELS, coverage_name
from scoring.models import Scorer
from scoring.views.scorers.charts import coverage_chart, reliability_chart
from scoring.views.scorers.weighing import build_scorer_weighing
from scoring.views.scorers.wording import to_figure


def build_context(scorer: Scorer) -> dict[str, Any]:
    grouped = scorer.evaluation["grouped"]
    errors = _list_errors(scorer, grouped)
    bins, curve = grouped.get("reliability") or [], grouped.get("risk_coverage") or []
    return {
        **build_scorer_weighing(scorer),
        "error": grouped["calibration_error"],
        "errors": errors,
        "soft": _list_soft_labels(scorer, grouped),
        "levels": _list_level_calibration(scorer, grouped),
        "least_labels": MIN_LABELS,
        "tempered": any(error["temperature"] is not None for error in errors),
        "reliability": reliability_chart(bins) if bins else "",
        "bins": [_describe_bin(reliability_bin) for reliability_bin in bins if reliability_bin["n"]],
        "coverage": coverage_chart(curve) if curve else "",
        "curve": [_describe_point(point) for point in curve],
        "conformal": _list_coverages(scorer),
        "usual": DEFAULT_COVERAGE,
    }


def _list_errors(scorer: Scorer, grouped: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By criterion that has labels, with the temperature of the kept scorer where its backbone tells one."""
    document = scorer.guideline.document
    details = scorer.card.get("details", {})
    temperatures = {
        name: criterion_details.get("temperature")
        for name, criterion_details in details.get("criteria", {}).items()
    }
    temperatures |= details.get("temperatures", {})
    return [
        {
            "label": criterion_label(document, name),
            "n": metrics["n"],
            "error": metrics.get("calibration_error"),
            "classwise": metrics.get("classwise_calibration_error"),
            "log_loss": metrics.get("log_loss"),
            "rates": metrics.get("commonest_log_loss"),
            "gain": to_figure(metrics.get("log_loss_gain")),
            "brier": metrics.get("brier"),
            "temperature": temperatures.get(name),
        }
        for name, metrics in grouped["by_criterion"].items()
        if metrics["n"]
    ]


def _list_soft_labels(scorer: Scorer, grouped: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How near its predictions come to what people said, by criterion that several people labelled."""
    document = scorer.guideline.document
    return [
        {"label": criterion_label(document, name), **figures}
        for name, figures in (grouped.get("soft_labels") or {}).items()
        if figures["n"]
    ]


def _list_level_calibration(scorer: Scorer, grouped: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A line for each criterion and level: how often it is so, and how often the scorer says so on average."""
    document = scorer.guideline.document
    return [
        {
            "criterion": criterion_label(document, name),
            "first": place == 0,
            "rows": len(metrics["level_calibration"]),
            "level": level,
            **figures,
        }
        for name, metrics in grouped["by_criterion"].items()
        if metrics["n"]
        for place, (level, figures) in enumerate(metrics.get("level_calibration", {}).items())
    ]


def _describe_bin(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "low": figures["low"],
        "high": figures["high"],
        "n": figures["n"],
        "confidence": figures["confidence"],
        "accuracy": figures["accuracy"],
    }


def _describe_point(point: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "coverage": point["answered"],
        "n": point["n"],
        "threshold": point["threshold"],
        "accuracy": to_figure(point["accuracy"]),
    }


def _list_coverages(scorer: Scorer) -> list[dict[str, Any]]:
    """A line for each criterion and coverage."""
    document = scorer.guideline.document
    criteria = scorer.card.get("conformal", {}).get("criteria", {})
    return [
        {
            "criterion": criterion_label(document, name),
            "first": place == 0,
            "rows": len(criterion_figures["coverages"]),
            "n": criterion_figures["n"],
            "coverage": float(coverage),
            "usual": coverage == coverage_name(DEFAULT_COVERAGE),
            "covered": coverage_figures["covered"],
            "single": coverage_figures["single"],
            "size": coverage_figures["mean_size"],
            "threshold": coverage_figures["threshold"],
        }
        for name, criterion_figures in criteria.items()
        for place, (coverage, coverage_figures) in enumerate(criterion_figures["coverages"].items())
    ]
