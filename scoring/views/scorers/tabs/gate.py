"""The gate: the verdict by criterion, the regression cases, and the history of current scorers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Job, Person
from annotation.selectors.guidelines import criterion_label, label_text
from scoring.domain.gate import CURRENT, NOT_SHOWN, REFUSALS, VERSION, WORSE
from scoring.forms.promotion import MarginForm, PromotionReasonForm
from scoring.models import Promotion, Scorer
from scoring.selectors.gate import read_outcome, withhold_comparisons
from scoring.selectors.regression_cases import must_fail_for
from scoring.selectors.scorers import (
    count_must_fail_items,
    find_previous_scorer,
    list_judge_jobs,
    list_promotions,
    list_sealed_scorers,
)
from scoring.views.regression_cases import read_response
from scoring.views.scorers.charts import differences_chart
from scoring.views.scorers.promotions import describe_gate_reason, read_old_refusals
from scoring.views.scorers.wording import to_figure


def build_context(scorer: Scorer, person: Person) -> dict[str, Any]:
    name = scorer.guideline.name
    history, judge_jobs = list_promotions(name), list_judge_jobs(scorer)
    last = history[0] if history else None
    sealed = list_sealed_scorers(person)
    verdict = next((job for job in judge_jobs if "verdict" in job.result), None)
    description = _describe_verdict(verdict, scorer, person, sealed) if verdict is not None else None
    return {
        "judging": next((job for job in judge_jobs if not job.is_over), None),
        "failed": judge_jobs[0] if judge_jobs and judge_jobs[0].state == Job.State.FAILED else None,
        "verdict": description,
        "history": [_describe_step(promotion, sealed) for promotion in history],
        "last": last,
        "before": find_previous_scorer(name) if last is not None and last.scorer_id == scorer.pk else None,
        "must_fail": count_must_fail_items(name),
        "margin_form": MarginForm(),
        "reason_form": _build_reason_form(judge_jobs, verdict, last),
    }


def _build_reason_form(
    judge_jobs: Sequence[Job], verdict_job: Job | None, last: Promotion | None
) -> PromotionReasonForm | None:
    """Where a reason leads on: the last job has a verdict of now that neither promoted nor refused it."""
    if verdict_job is None or verdict_job != judge_jobs[0] or verdict_job.result["promoted"]:
        return None
    verdict = verdict_job.result["verdict"]
    stands = verdict.get("version") == VERSION and verdict["promotion"] == (
        0 if last is None else last.number
    )
    return PromotionReasonForm(initial={"job": verdict_job.pk}) if stands and not verdict["refused"] else None


def _describe_step(promotion: Promotion, sealed: Collection[str]) -> dict[str, Any]:
    return {"promotion": promotion, "open": promotion.scorer.name not in sealed}


def _describe_verdict(job: Job, scorer: Scorer, person: Person, sealed: Collection[str]) -> dict[str, Any]:
    result, document = job.result, scorer.guideline.document
    verdict = withhold_comparisons(result["verdict"], sealed)
    is_old = verdict.get("version") != VERSION
    items = list(_list_items(verdict["must_fail"], scorer, person))
    rivals = verdict.get("rivals", [])
    if is_old and not verdict["first"]:
        rivals = [_read_old_rival(result, is_sealed=result["against"] in sealed)]
    refused = not verdict["passed"] if is_old else verdict["refused"]
    return {
        "job": job,
        "old": is_old,
        "outcome": read_outcome(verdict),
        "promoted": result["promoted"],
        "refused": refused,
        "reason": result.get("reason", ""),
        "first": verdict["first"],
        "against": result["against"],
        "margin": verdict.get("margin"),
        "reasons": _list_reasons(result, verdict, document, sealed),
        "rivals": [_describe_rival(rival, document, verdict.get("margin")) for rival in rivals],
        "has_figures": any(not rival.get("sealed") for rival in rivals),
        "attempt": verdict.get("attempt", 1),
        "error_bound": min(1.0, 0.025 * verdict.get("attempt", 1)),
        "earlier": verdict.get("earlier", []),
        "raised_from": verdict.get("raised_from"),
        "missing": verdict.get("missing", []),
        "asked": len(verdict["must_fail"]),
        "slipped": sum(
            item["given"] in item["refused"] and not item.get("void") for item in verdict["must_fail"]
        ),
        "items": items,
    }


def _list_reasons(
    result: Mapping[str, Any],
    verdict: Mapping[str, Any],
    document: GuidelineDocument,
    sealed: Collection[str],
) -> list[dict[str, Any]]:
    if verdict.get("version") != VERSION:
        if result["against"] in sealed:
            return []
        return [{"text": text, "refuses": True} for text in read_old_refusals(result)]
    return [
        {
            "text": describe_gate_reason(reason, document, margin=verdict["margin"]),
            "refuses": reason["code"] in REFUSALS,
        }
        for reason in verdict["reasons"]
    ]


def _read_old_rival(result: Mapping[str, Any], *, is_sealed: bool) -> dict[str, Any]:
    """A verdict of the first version as one of now: what it did not find worse was not shown."""
    if is_sealed:
        return {"role": CURRENT, "scorer": result["against"], "sealed": True, "criteria": []}
    verdict = result["verdict"]
    compared = [
        {
            **comparison,
            "outcome": NOT_SHOWN if comparison["passed"] else WORSE,
            "detectable_loss": None,
            "passing_margin": None,
            "test": comparison["n"],
        }
        for comparison in verdict["criteria"]
    ]
    return {
        "role": CURRENT,
        "scorer": result["against"],
        "criteria": compared,
        "unjudged": verdict.get("unjudged", ()),
        "rescaled": verdict.get("rescaled", ()),
        "silent": (),
        "labels": verdict["labels"],
        "test": verdict["labels"],
        "labels_left_out": verdict["labels_left_out"],
    }


def _describe_rival(
    rival: Mapping[str, Any], document: GuidelineDocument, margin: float | None
) -> dict[str, Any]:
    if rival.get("sealed"):
        return dict(rival)
    rows = [
        {
            **comparison,
            "label": criterion_label(document, comparison["criterion"]),
            "difference": to_figure(comparison["difference"]),
        }
        for comparison in rival["criteria"]
    ]
    drawn = [
        (row["label"], row["difference"], row["outcome"])
        for row in rows
        if row["difference"] is not None and row["difference"].low is not None
    ]
    return {
        **rival,
        "rows": rows,
        "chart": differences_chart(drawn, _("Difference of accuracy, new less old"), margin) if drawn else "",
        **{
            name: [criterion_label(document, criterion) for criterion in rival[name]]
            for name in ("unjudged", "rescaled", "silent")
        },
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
