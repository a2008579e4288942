"""What an annotator reads of a known item they were told of, and of a round that they did not pass."""

from __future__ import annotations

from dataclasses import dataclass

from annotation.guidelines import GuidelineDocument
from annotation.models import Batch, Person, Qualification
from annotation.selectors.known import Feedback, latest_round
from annotation.views.levels import criterion_label, label_text


@dataclass(frozen=True)
class FeedbackLine:
    """``criterion`` is empty where one alone was asked."""

    criterion: str
    known: str
    given: str
    is_right: bool


@dataclass(frozen=True)
class FeedbackWords:
    is_right: bool
    lines: tuple[FeedbackLine, ...]
    explanation: str


def feedback_words(told: Feedback, document: GuidelineDocument) -> FeedbackWords:
    many = len(told.known) > 1
    return FeedbackWords(
        is_right=told.is_right,
        lines=tuple(
            FeedbackLine(
                criterion=criterion_label(document, name) if many else "",
                known=label_text(document, name, known),
                given=label_text(document, name, told.given[name]),
                is_right=told.given[name] == known,
            )
            for name, known in told.known.items()
        ),
        explanation=told.explanation,
    )


@dataclass(frozen=True)
class FailedRound:
    """The figures in words; ``value`` is empty where it is undefined."""

    value: str
    threshold: str
    kappa: bool


def failed_round(batch: Batch, person: Person) -> FailedRound | None:
    """The person's own round, where they did not pass it and nothing was decided since."""
    found = latest_round(batch.pk, person.pk)
    if found is None or found.state != Qualification.State.FAILED:
        return None
    kappa = batch.qualifying == Batch.Qualifying.KAPPA
    return FailedRound(_figure(found.value, kappa=kappa), _figure(found.threshold, kappa=kappa), kappa)


def _figure(value: float | None, *, kappa: bool) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if kappa else f"{value:.0%}"
