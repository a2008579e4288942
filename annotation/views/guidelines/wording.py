"""What a guideline writes as a code, and the names of its parts, in the reader's language."""

from __future__ import annotations

from django.utils.translation import get_language_info, gettext_lazy, pgettext_lazy
from django.utils.translation import gettext as _

from annotation.domain.guidelines.document import MAX_SEVERITY

FIELDS = {
    "title": gettext_lazy("Title"),
    "source": gettext_lazy("Source"),
    "languages": gettext_lazy("Languages"),
    "rank_by": gettext_lazy("Ranked by"),
    "label": pgettext_lazy("guideline", "Label"),
    "name": gettext_lazy("Name"),
    "definition": gettext_lazy("Definition"),
    "severity": gettext_lazy("Severity"),
    "question": gettext_lazy("Question"),
    "applies_to": gettext_lazy("Asked about"),
    "measurement": gettext_lazy("Kind of scale"),
    "range": gettext_lazy("Range"),
    "several": gettext_lazy("Several options"),
    "per_turn": gettext_lazy("Asked of each turn"),
    "max_length": gettext_lazy("Longest text"),
    "asked_if": gettext_lazy("Asked only where"),
    "na": gettext_lazy("Not applicable"),
    "optional": gettext_lazy("No answer"),
    "tolerance": gettext_lazy("Tolerance"),
    "reason": gettext_lazy("Typical reason"),
    "requires": gettext_lazy("Must be given"),
    "prompt": gettext_lazy("Prompt"),
    "response": gettext_lazy("Response"),
    "note": gettext_lazy("Why"),
    "subcomponent": gettext_lazy("Subcomponent"),
    "kind": gettext_lazy("Kind"),
    "overall": gettext_lazy("Overall value"),
    "levels": gettext_lazy("Counted levels"),
    "formula": gettext_lazy("Formula"),
    "better": gettext_lazy("Better where"),
    "dimensions": gettext_lazy("Dimensions"),
    "criteria": gettext_lazy("Criteria"),
    "scorer_template": gettext_lazy("Input of scorers"),
}
KINDS = {
    "document": gettext_lazy("The whole"),
    "introduction": gettext_lazy("Paragraph"),
    "dimension": gettext_lazy("Dimension"),
    "subcomponent": gettext_lazy("Subcomponent"),
    "criterion": gettext_lazy("Criterion"),
    "level": gettext_lazy("Level"),
    "example": gettext_lazy("Example"),
    "metric": gettext_lazy("Headline metric"),
}
CODES = {
    "all": gettext_lazy("every prompt"),
    "allowed": gettext_lazy("allowed"),
    "nominal": gettext_lazy("kinds without an order"),
    "ordinal": gettext_lazy("ordered levels"),
    "interval": gettext_lazy("equal steps"),
    "choice": gettext_lazy("options"),
    "text": gettext_lazy("words of one's own"),
    "assistant": gettext_lazy("the model's turns"),
    "evidence": gettext_lazy("evidence"),
    "rationale": gettext_lazy("rationale"),
    "rate": gettext_lazy("share of labels"),
    "mean": gettext_lazy("formula of the mean"),
    "mean_of_dimensions": gettext_lazy("mean of the dimensions"),
    "mean_of_criteria": gettext_lazy("mean of the criteria"),
    "pooled": gettext_lazy("over all labels"),
    "none": gettext_lazy("none"),
    "lower": gettext_lazy("lower"),
}


def guideline_text(code: str) -> str:
    """The words of a code; an unknown one is its own name. ``severity N`` is read as a step of its scale."""
    if code.startswith("severity "):
        return format_severity(int(code.rpartition(" ")[2]))
    return str(CODES.get(code, code))


def format_severity(severity: int) -> str:
    return _("{n} of {most}").format(n=severity, most=MAX_SEVERITY)


def language_name(code: str) -> str:
    if code == "zh":  # Django knows its scripts only
        return "中文"
    try:
        return str(get_language_info(code)["name_local"])
    except KeyError:
        return code
