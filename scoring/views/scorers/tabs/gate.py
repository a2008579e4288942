"""The gate: the verdict by criterion, the regression cases, and the history of current scorers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.error_messages import error_from_json
from annotation.models import Job, Person
from annotation.selectors.guidelines import criterion_label, label_text
from scoring.models import Promotion, Scorer
from scoring.selectors.regression_cases import must_fail_for
from scoring.selectors.scorers import (
    count_must_fail_items,
    find_previous_scorer,
    list_judge_jobs,
    list_promotions,
    list_scorer_rows,
)
from scoring.views.regression_cases import read_response
from scoring.views.scorers.charts import differences_chart
from scoring.views.scorers.wording import to_figure


def build_context(scorer: Scorer, person: Person) -> dict[str, Any]:
    name = scorer.guideline.name
    history, judge_jobs = list_promotions(name), list_judge_jobs(scorer)
    last = history[0] if history else None
    open_to = {row.scorer.pk for row in list_scorer_rows(person) if not row.sealed}
    verdict = next((job for job in judge_jobs if "verdict" in job.result), None)
    return {
        "judging": next((job for job in judge_jobs if not job.is_over), None),
        "failed": judge_jobs[0] if judge_jobs and judge_jobs[0].state == Job.State.FAILED else None,
        "verdict": _describe_verdict(verdict, scorer, person) if verdict is not None else None,
        "history": [_describe_step(promotion, open_to) for promotion in history],
        "last": last,
        "before": find_previous_scorer(name) if last is not None and last.scorer_id == scorer.pk else None,
        "must_fail": count_must_fail_items(name),
    }


def _describe_step(promotion: Promotion, open_to: set[int]) -> dict[str, Any]:
    return {"promotion": promotion, "open": promotion.scorer_id in open_to}


def _describe_verdict(job: Job, scorer: Scorer, person: Person) -> dict[str, Any]:
    result, document = job.result, scorer.guideline.document
    verdict = result["verdict"]
    rows = [
        _describe_comparison(comparison, criterion_label(document, comparison["criterion"]))
        for comparison in verdict["criteria"]
    ]
    drawn = [(row["label"], row["difference"], not row["passed"]) for row in rows if row["difference"]]
    items = list(_list_items(verdict["must_fail"], scorer, person))
    return {
        "job": job,
        "passed": verdict["passed"],
        "first": verdict["first"],
        "against": result["against"],
        "reasons": [error_from_json(refusal) for refusal in result["refusals"]],
        "rows": rows,
        "chart": differences_chart(drawn, _("Difference of accuracy, new less old")) if drawn else "",
        "labels": verdict["labels"],
        "left_out": verdict["labels_left_out"],
        "unjudged": [criterion_label(document, name) for name in verdict.get("unjudged", ())],
        "rescaled": [criterion_label(document, name) for name in verdict.get("rescaled", ())],
        "asked": len(verdict["must_fail"]),
        "slipped": sum(
            item["given"] in item["refused"] and not item.get("void") for item in verdict["must_fail"]
        ),
        "items": items,
    }


def _describe_comparison(comparison: Mapping[str, Any], label: str) -> dict[str, Any]:
    return {
        "label": label,
        "n": comparison["n"],
        "prompts": comparison["prompts"],
        "old": comparison["old"],
        "new": comparison["new"],
        "difference": to_figure(comparison["difference"]),
        "bound": comparison["bound"],
        "smallest": comparison["smallest_loss"],
        "passed": comparison["passed"],
    }


def _list_items(outcomes: list[Mapping[str, Any]], scorer: Scorer, person: Person) -> list[dict[str, Any]]:
    """The regression cases of a verdict that still exist, those first that it did not pass."""
    items_by_id = {str(item.pk): item for item in must_fail_for(person, scorer.guideline.name)}
    document = scorer.guideline.document
    rows = [
        {
            "prompt": item.response.prompt,
            "said": read_response(item.response),
            "model": item.response.model,
            "criterion": criterion_label(document, outcome["criterion"]),
            "refused": [label_text(document, outcome["criterion"], value) for value in outcome["refused"]],
            "given": None
            if outcome["given"] is None
            else label_text(document, outcome["criterion"], outcome["given"]),
            "passed": outcome["passed"],
            "reason": item.reason,
        }
        for outcome in outcomes
        if (item := items_by_id.get(outcome["item"])) is not None
    ]
    return sorted(rows, key=lambda row: bool(row["passed"]))
