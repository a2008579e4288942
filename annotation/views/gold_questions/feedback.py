"""What an annotator reads after a gold question, and after a qualification that they did not pass."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from django.utils.translation import gettext as _

from annotation.core.formatting import UNDEFINED, format_compact, format_decimal, format_percent_compact
from annotation.domain.gold_questions import MIN_ITEMS, TOO_FEW
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Batch, Person, Qualification
from annotation.selectors.gold_questions import Feedback, find_latest_qualification
from annotation.selectors.guidelines import criterion_label, label_text


@dataclass(frozen=True)
class FeedbackLine:
    """``criterion`` is empty where one alone was asked."""

    criterion: str
    known: str
    label: str
    is_right: bool


@dataclass(frozen=True)
class FeedbackWords:
    is_right: bool
    lines: tuple[FeedbackLine, ...]
    explanation: str


def describe_feedback(feedback: Feedback, document: GuidelineDocument) -> FeedbackWords:
    many = len(feedback.known) > 1
    labels = document.show_labels_in(feedback.order, feedback.labels)
    gold = document.show_labels_in(feedback.order, feedback.known)
    return FeedbackWords(
        is_right=feedback.is_right,
        lines=tuple(
            FeedbackLine(
                criterion=criterion_label(document, name) if many else "",
                known=label_text(document, name, known),
                label=label_text(document, name, labels[name]) if name in labels else UNDEFINED,
                is_right=labels.get(name) == known,
            )
            for name, known in gold.items()
        ),
        explanation=feedback.explanation,
    )


@dataclass(frozen=True)
class FailedAttempt:
    """The figures in words; ``value`` is empty where it is undefined, ``too_few`` where there were enough answers."""

    value: str
    threshold: str
    kappa: bool
    too_few: str


def find_failed_attempt(batch: Batch, person: Person) -> FailedAttempt | None:
    """The person's own round, where they did not pass it and nothing was decided since."""
    attempt = find_latest_qualification(batch.pk, person.pk)
    if attempt is None or attempt.state != Qualification.State.FAILED:
        return None
    kappa = batch.qualifying == Batch.Qualifying.KAPPA
    return FailedAttempt(
        value=format_reached(attempt.value, kappa=kappa),
        threshold=format_threshold(attempt.threshold, kappa=kappa),
        kappa=kappa,
        too_few=explain_too_few(attempt),
    )


def explain_too_few(attempt: Qualification) -> str:
    """Why a round was not passed whose value is as good as was asked for; empty of any other."""
    if attempt.value is None or attempt.threshold is None or attempt.value < attempt.threshold:
        return ""
    return _(TOO_FEW).format(least=MIN_ITEMS)


def format_reached(value: float | None, *, kappa: bool) -> str:
    """Rounded down: what is below the threshold must not read as if it had reached it."""
    if value is None:
        return ""
    down = floor((100 if kappa else 1000) * value + 1e-9)
    return format_decimal(down / 100, 2) if kappa else f"{format_compact(down / 10)}%"


def format_threshold(threshold: float | None, *, kappa: bool) -> str:
    """As the manager wrote it."""
    if threshold is None:
        return ""
    return format_compact(threshold) if kappa else format_percent_compact(threshold)
