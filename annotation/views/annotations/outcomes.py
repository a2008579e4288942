"""A person's labels, and what became of them, in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import get_language

from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.domain.guidelines.entries import ShownOrder
from annotation.selectors.annotations.history import HistoryOutcome
from annotation.selectors.guidelines import criterion_label, label_text


@dataclass(frozen=True)
class LabelWords:
    """A value in words; ``criterion`` is empty where there is no other to confuse it with."""

    criterion: str
    value: str


@dataclass(frozen=True)
class SettledCriterion:
    """One criterion as it was settled, beside what I gave."""

    criterion: str
    own: str
    final: str
    overruled: bool


@dataclass(frozen=True)
class DescribedOutcome:
    """``reason`` and ``words`` are the adjudicator's; never whose. ``too_late``: my last correction did not count."""

    finals: tuple[SettledCriterion, ...]
    too_late: bool
    overruled: bool
    reason: str
    words: str


def describe_labels(
    document: GuidelineDocument, labels: Mapping[str, Any], order: ShownOrder
) -> tuple[LabelWords, ...]:
    """A lone label goes without its criterion, but where a response may have been given no label of the others.
    ``order``: in which the reader saw the entries of a slate.
    """
    criteria = document.labelled_criteria
    is_one_of_several = len(criteria) > 1 and any(criterion.may_lack_value for criterion in criteria)
    several = len(labels) > 1 or is_one_of_several
    return tuple(
        LabelWords(criterion_label(document, name) if several else "", label_text(document, name, value))
        for name, value in document.show_labels_in(order, labels).items()
    )


def describe_outcome(
    document: GuidelineDocument,
    labels: Mapping[str, Any],
    outcome: HistoryOutcome | None,
    order: ShownOrder,
) -> DescribedOutcome | None:
    if outcome is None:
        return None
    own_labels = document.show_labels_in(order, outcome.own_labels)
    overruled = {document.show_name_in(order, name) for name in outcome.overruled}
    finals = (
        SettledCriterion(
            criterion=criterion_label(document, name),
            own=label_text(document, name, own_labels[name]),
            final=label_text(document, name, value),
            overruled=name in overruled,
        )
        for name, value in document.show_labels_in(order, outcome.finals).items()
    )
    return DescribedOutcome(
        finals=tuple(finals),
        too_late=labels != outcome.own_labels,
        overruled=bool(outcome.overruled),
        reason=localize_reason(outcome.reason),
        words=outcome.words,
    )


def localize_reason(reason: Mapping[str, str]) -> str:
    """Empty where there is none."""
    return localize(reason, get_language() or "en") if reason else ""
