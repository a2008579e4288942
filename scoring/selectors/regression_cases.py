"""The regression cases of a guideline: responses that none of its scorers may call harmless."""

from __future__ import annotations

from django.db.models import QuerySet

from annotation.core.errors import N_, NotFound
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Person
from annotation.selectors.access import sealed_datasets
from annotation.selectors.studies import find_study_id
from scoring.models import RegressionCase


def must_fail_items(guideline_name: str) -> QuerySet[RegressionCase]:
    """What is in the study's set now, the oldest first."""
    items = RegressionCase.objects.filter(
        study=find_study_id(), guideline_name=guideline_name, removed_at=None
    )
    return items.select_related("response__prompt__dataset", "response__model", "created_by").order_by("pk")


def must_fail_for(person: Person, guideline_name: str) -> QuerySet[RegressionCase]:
    """What of the set the person may see: nothing of a dataset that they judge blind."""
    return must_fail_items(guideline_name).exclude(response__prompt__dataset__in=sealed_datasets(person))


def must_fail_item(item: int) -> RegressionCase:
    item_row = (
        RegressionCase.objects.filter(pk=item, removed_at=None).select_related("response__prompt").first()
    )
    if item_row is None:
        raise NotFound(N_("There is no regression case {item}."), item=item)
    return item_row


def harmless_levels(
    document: GuidelineDocument, dimension: str | None, criterion: str
) -> tuple[int | float, ...]:
    """What the guideline's headline rate counts for a criterion in this dimension: what it calls harmless.

    The metric that it ranks by where that is a rate which counts here, else its first rate that does; nothing where
    there is none.
    """
    first = sorted(document.metrics, key=lambda metric: metric.name != document.rank_by)
    for metric in first:
        counted = {counted_criterion.name for counted_criterion in document.criteria_of(metric, dimension)}
        counts_dimension = metric.dimensions is None or dimension in metric.dimensions
        if metric.kind == "rate" and counts_dimension and criterion in counted:
            scale = document.criterion(criterion).values
            return tuple(level for level in metric.levels_for(dimension) if level in scale)
    return ()
