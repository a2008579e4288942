"""What an author sees at the bench: their proposals with the reviewers' answers, and what the targets answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from annotation.core.error_messages import error_from_json
from annotation.core.errors import N_, NotFound
from annotation.domain.guidelines import Criterion
from annotation.models import Person
from annotation.selectors.access import sealed_batches
from annotation.selectors.jobs import is_waiting_long
from benchmark.domain.workbench.campaigns import is_success, list_asked
from benchmark.models import Attempt, Campaign, Proposal, ProposalRevision
from benchmark.selectors.workbench.proposals import SubmittedProposal, read_submitted

MAX_LISTED = 50


@dataclass(frozen=True)
class ReviewAnswer:
    """What a reviewer answered the author: no word of who they are."""

    decision: str
    label: str
    reason: str


@dataclass(frozen=True)
class ProposalRow:
    proposal: Proposal
    text: str
    revision: ProposalRevision | None
    answers: tuple[ReviewAnswer, ...]


def list_own_proposals(campaign: Campaign, person: Person) -> list[ProposalRow]:
    """The latest ones first, with the reviews of the last submitted revision once the proposal is decided."""
    proposals = Proposal.objects.filter(campaign=campaign, author=person).order_by("-updated_at", "pk")
    return [_build_row(submitted) for submitted in read_submitted(list(proposals[:MAX_LISTED]))]


def _build_row(submitted: SubmittedProposal) -> ProposalRow:
    proposal, revision = submitted.proposal, submitted.revision
    is_waiting = proposal.state in {Proposal.State.SUBMITTED, Proposal.State.DISPUTED}
    is_editable = proposal.state in Proposal.EDITABLE
    return ProposalRow(
        proposal=proposal,
        text=proposal.draft.get("text", "") if is_editable or revision is None else revision.text,
        revision=revision,
        answers=tuple(
            ReviewAnswer(review.decision, review.get_decision_display(), review.reason)
            for review in (() if is_waiting else submitted.reviews)
        ),
    )


def get_own_proposal(person: Person, proposal_id: UUID) -> Proposal:
    proposal = (
        Proposal.objects.select_related("campaign__guideline", "campaign__dataset")
        .filter(pk=proposal_id, author=person)
        .first()
    )
    if proposal is None:
        raise NotFound(N_("There is no such proposal among yours."))
    return proposal


def get_own_attempt(person: Person, attempt_id: UUID) -> Attempt:
    attempt = (
        Attempt.objects.select_related("revision__proposal__campaign__guideline")
        .filter(pk=attempt_id, revision__proposal__author=person)
        .first()
    )
    if attempt is None:
        raise NotFound(N_("There is no such answer among yours."))
    return attempt


@dataclass(frozen=True)
class LevelQuestion:
    """A criterion of an answer, with the author's own level and then the scorer's, each a number or None."""

    criterion: Criterion
    own: float | None
    predicted: float | None
    probability: float | None


@dataclass(frozen=True)
class AttemptRow:
    """An attempt as its author sees it. ``refusal`` is why there is no answer; ``is_success`` None until it has its
    levels.
    """

    attempt: Attempt
    text: str
    refusal: str
    waits_long: bool
    questions: tuple[LevelQuestion, ...]
    is_success: bool | None

    @property
    def is_open(self) -> bool:
        """Whether an answer may still come."""
        return self.attempt.state == Attempt.State.ASKED


def list_attempt_rows(
    campaign: Campaign, attempts: Sequence[Attempt], *, with_predictions: bool
) -> list[AttemptRow]:
    return [_build_attempt(campaign, attempt, with_predictions) for attempt in attempts]


def _build_attempt(campaign: Campaign, attempt: Attempt, with_predictions: bool) -> AttemptRow:
    document, dimension = campaign.guideline.document, attempt.revision.dimension
    answer = getattr(attempt, "answer", None)
    levels: Mapping[str, float] = attempt.levels or {}
    # The scorer's level is shown once the author has given their own.
    predictions: Mapping[str, Any] = (
        answer.predictions or {} if answer is not None and levels and with_predictions else {}
    )
    questions = []
    for name in list_asked(campaign.success, document, dimension):
        predicted = predictions.get(name) or {}
        value = predicted.get("value")
        questions.append(
            LevelQuestion(
                document.criterion(name),
                levels.get(name),
                value,
                None if value is None else max(predicted["probabilities"].values()),
            )
        )
    return AttemptRow(
        attempt=attempt,
        text=answer.text if answer is not None else "",
        refusal=error_from_json(attempt.error) if attempt.error else "",
        waits_long=attempt.job is not None and is_waiting_long(attempt.job),
        questions=tuple(questions),
        is_success=is_success(levels, campaign.success) if levels else None,
    )


def may_read_predictions(campaign: Campaign, person: Person) -> bool:
    """Not who judges by this guideline now: they could ask about what they are to judge."""
    return not sealed_batches(person).filter(guideline__name=campaign.guideline.name).exists()
