"""What the gate says in words: why a scorer was not promoted, and how a current one became so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from annotation.core.error_messages import error_from_json
from annotation.core.formatting import format_percent_signed
from annotation.core.text_templates import render_text
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Person
from annotation.selectors.guidelines import criterion_label
from scoring.models import Scorer
from scoring.selectors.gate import describe_promotion, find_promotion


def describe_gate_reason(reason: Mapping[str, Any], document: GuidelineDocument, *, margin: float) -> str:
    """The sentence of a reason of ``scoring.domain.gate``; its criterion by its label."""
    values = dict(reason)
    if "criterion" in values:
        values["criterion"] = criterion_label(document, values["criterion"])
    if values.get("low") is not None:
        values |= {"loss_low": -values["high"], "loss_high": -values["low"]}
    return " ".join(render_text("scoring/wording/gate.txt", margin=margin, **values).split())


def read_old_refusals(result: Mapping[str, Any]) -> list[str]:
    """Why a scorer was not promoted by a verdict of the first version, which kept its sentences."""
    return [error_from_json(refusal) for refusal in result.get("refusals", ())]


def find_promotion_reason(scorer: Scorer) -> str:
    """The reason with which a researcher promoted it; blank where the gate let it pass, or it never was current."""
    promotion = find_promotion(scorer)
    return "" if promotion is None else promotion.reason


def describe_promotion_text(scorer: Scorer, reader: Person | None = None) -> str:
    """How the scorer became the current one, with bounds and reason: a few sentences for boards, cards and reports.

    Of a ``reader``: without the bounds beside scorers whose gold is sealed for them.
    """
    promotion = describe_promotion(scorer, reader)
    document = scorer.guideline.document
    described = None
    if promotion is not None:
        described = promotion | {
            "comparisons": [
                row
                | {"label": criterion_label(document, row["criterion"])}
                | {end: format_percent_signed(row["difference"][end], 1) for end in ("low", "high")}
                for row in promotion["comparisons"]
            ],
            "not_better": [
                criterion_label(document, doubt["criterion"])
                for doubt in promotion["doubts"]
                if doubt["code"] == "not_better_than_commonest"
            ],
        }
    return " ".join(render_text("scoring/wording/promotion.txt", promotion=described).split())
