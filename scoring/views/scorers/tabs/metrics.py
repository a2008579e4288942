"""The figures: by criterion, level, model and prompt type, and of new texts alone."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from scoring.models import Scorer
from scoring.views.scorers.charts import lines_chart
from scoring.views.scorers.weighing import build_scorer_weighing
from scoring.views.scorers.wording import build_total_row, list_criterion_figures, list_group_rows, to_figure


def build_context(scorer: Scorer) -> dict[str, Any]:
    total = build_total_row(scorer)
    sections = [(_("Everything"), [total])]
    sections += [
        (title, lines)
        for title, grouping in (
            (_("By criterion"), "by_criterion"),
            (_("By model"), "by_model"),
            (_("By prompt type"), "by_kind"),
        )
        if (lines := list_group_rows(scorer, grouping))
    ]
    drawn = [*list_group_rows(scorer, "by_criterion"), *list_group_rows(scorer, "by_model")]
    return {
        **build_scorer_weighing(scorer),
        "total": total,
        "sections": sections,
        "chart": lines_chart([total, *drawn]) if drawn else "",
        "has_left_out": "leave_one_model_out" in scorer.evaluation,
        "has_rules": total.rules is not None,
        "ordered": total.within_one is not None,
        # Annotators against gold and each other; string rules; on a scale without order also the commonest level.
        "comparisons": 2 + (total.rules is not None) + (total.within_one is None),
        "new_text": _list_new_text_rows(scorer),
        "criteria": list_criterion_figures(scorer),
    }


def _list_new_text_rows(scorer: Scorer) -> list[dict[str, Any]]:
    """Of responses whose text was not learned from: by prompt, and with a model left out."""
    evaluations = (("grouped", _("By prompt")), ("leave_one_model_out", _("Model left out")))
    rows = []
    for name, label in evaluations:
        metrics = scorer.evaluation.get(name, {})
        if metrics.get("new_text"):
            new = metrics["new_text"]
            rows.append(
                {
                    "label": label,
                    "all": metrics["n"],
                    "n": new["n"],
                    "accuracy": to_figure(new["accuracy"]),
                    "macro_f1": to_figure(new["macro_f1"]),
                    "of_all": to_figure(metrics["accuracy"]),
                    "calibration": new["calibration_error"],
                }
            )
    return rows
