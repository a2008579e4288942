"""How the gold behind some figures was selected, and the figures weighed by it, as pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from annotation.domain.releases.selection import present_summary, summarize_selection
from scoring.models import Scorer
from scoring.views.scorers.wording import to_figure


def weighing_context(figures: Mapping[str, Any], selection: Mapping[str, Any] | None) -> dict[str, Any]:
    """What ``scoring/scorers/_weighing.html`` takes; nothing is recorded where ``selection`` is None."""
    weighed = figures.get("weighed")
    return {
        "selection": present_summary(selection or summarize_selection(None)),
        "weighed": None
        if weighed is None
        else {
            **weighed,
            "accuracy": to_figure(weighed["accuracy"]),
            "macro_f1": to_figure(weighed["macro_f1"]),
        },
    }


def build_scorer_weighing(scorer: Scorer) -> dict[str, Any]:
    grouped = scorer.evaluation.get("grouped", {})
    return weighing_context(grouped, grouped.get("selection"))
