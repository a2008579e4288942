"""Does it know what it does not know: reliability, accuracy at coverage, and sets of likely levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from annotation.selectors.guidelines import criterion_label
from scoring.domain.calibration import DEFAULT_COVERAGE, coverage_name
from scoring.models import Scorer
from scoring.views.scorers.charts import coverage_chart, reliability_chart
from scoring.views.scorers.wording import statistic


def context(scorer: Scorer) -> dict[str, Any]:
    grouped = scorer.evaluation["grouped"]
    errors = _errors(scorer, grouped)
    bins, curve = grouped.get("reliability") or [], grouped.get("risk_coverage") or []
    return {
        "error": grouped["calibration_error"],
        "errors": errors,
        "tempered": any(error["temperature"] is not None for error in errors),
        "reliability": reliability_chart(bins) if bins else "",
        "bins": [_bin(one) for one in bins if one["n"]],
        "coverage": coverage_chart(curve) if curve else "",
        "curve": [_point(one) for one in curve],
        "conformal": _conformal(scorer),
        "usual": DEFAULT_COVERAGE,
    }


def _errors(scorer: Scorer, grouped: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By criterion that has labels, with the temperature of the kept scorer where its backbone tells one."""
    document = scorer.guideline.document
    details = scorer.card.get("details", {})
    told = {name: one.get("temperature") for name, one in details.get("criteria", {}).items()}
    told |= details.get("temperatures", {})
    return [
        {
            "label": criterion_label(document, name),
            "n": one["n"],
            "error": one.get("calibration_error"),
            "temperature": told.get(name),
        }
        for name, one in grouped["by_criterion"].items()
        if one["n"]
    ]


def _bin(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "low": one["low"],
        "high": one["high"],
        "n": one["n"],
        "confidence": one["confidence"],
        "accuracy": one["accuracy"],
    }


def _point(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "coverage": one["answered"],
        "n": one["n"],
        "threshold": one["threshold"],
        "accuracy": statistic(one["accuracy"]),
    }


def _conformal(scorer: Scorer) -> list[dict[str, Any]]:
    """A line for each criterion and coverage."""
    document = scorer.guideline.document
    criteria = scorer.card.get("conformal", {}).get("criteria", {})
    return [
        {
            "criterion": criterion_label(document, name),
            "first": place == 0,
            "rows": len(of_criterion["coverages"]),
            "n": of_criterion["n"],
            "coverage": float(coverage),
            "usual": coverage == coverage_name(DEFAULT_COVERAGE),
            "covered": one["covered"],
            "single": one["single"],
            "size": one["mean_size"],
            "threshold": one["threshold"],
        }
        for name, of_criterion in criteria.items()
        for place, (coverage, one) in enumerate(of_criterion["coverages"].items())
    ]
