"""The strip of the first page: from data to board, the state of each stage and what comes next there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from benchmark.selectors.pipeline import read_pipeline

register = template.Library()


@register.inclusion_tag("benchmark/overview/pipeline.html", takes_context=True)
def study_pipeline(context: Mapping[str, Any]) -> dict[str, Any]:
    return {"pipeline": read_pipeline(context["request"].user), "may": context["may"]}
