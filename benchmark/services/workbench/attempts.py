"""Asking targets: a text is put to several at once, each by a job of its own, and each answer is stored once.

The budget counts answers and requests under way: an attempt that fails gives its request back in the transaction that
says so. A worker that dies leaves the attempt asked; whoever takes the job over asks again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from annotation.core.databases import wait_for_database
from annotation.core.error_messages import error_to_json
from annotation.core.errors import N_, AssayError, Conflict, Unprocessable
from annotation.core.sql import execute
from annotation.models import Job, Person
from annotation.models.sql.counts import add_exposure
from annotation.selectors.wellbeing import is_budget_used_up
from annotation.services import jobs
from annotation.services.audit import record
from benchmark.domain.llm_client import (
    Endpoint,
    EndpointAnswer,
    Outcome,
    RequestTotals,
    send_requests,
)
from benchmark.domain.llm_client.settings import build_question, select_parameters
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.domain.workbench.campaigns import check_levels
from benchmark.models import (
    Attempt,
    AttemptAnswer,
    Campaign,
    CampaignMember,
    CampaignTarget,
    Proposal,
    ProposalRevision,
)
from benchmark.selectors.workbench.bench import get_own_attempt
from benchmark.services.endpoint_runs import build_origin
from benchmark.services.workbench.proposals import (
    ProposalText,
    add_revision,
    check_language,
    check_storable,
    get_method,
    lock_own_proposal,
    refuse_closed,
)
from scoring.selectors.scorers import find_current_scorer
from scoring.services.predictions.requests import PredictionItem, predict_item

ASK_JOB = "ask_target"
ASKING = N_("asking")
TRIES, PATIENCE = 3, 20.0
SPARE_SECONDS = 45.0
"""So much longer than one request may take is waited for a target that limits the rate or is away."""
State = Attempt.State
logger = logging.getLogger(__name__)


class TargetSilent(AssayError):
    """No answer within the time that somebody waits for."""


@transaction.atomic
def ask_targets(
    *,
    proposal_id: UUID,
    person: Person,
    text: ProposalText,
    places: Iterable[int],
    send: bool = True,
) -> list[Attempt]:
    """Put the text to the targets at these places. A target that answered this text, or is at it, is not asked again.

    Raises Conflict where the budget does not suffice, or the person has read enough severe content today.
    """
    proposal = lock_own_proposal(proposal_id, person)
    campaign = proposal.campaign
    refuse_closed(campaign)
    if proposal.state not in Proposal.EDITABLE:
        raise Conflict(N_("This proposal was submitted already."))
    if not text.text.strip():
        raise Unprocessable(N_("Write the prompt first."))
    check_storable(text)
    text = check_language(text, campaign)
    refuse_exposed(person, campaign, text.classification.dimension)
    chosen_places = frozenset(places)
    targets = [target for target in campaign.campaigntargets.all() if target.place in chosen_places]
    if not targets or len(targets) < len(chosen_places):
        raise Unprocessable(N_("Choose the targets to ask."))
    recover_attempts(proposal)
    proposal.draft = text.to_draft()
    proposal.save(update_fields=["draft", "updated_at"])
    revision = _get_or_add_revision(proposal, text)
    known = {attempt.target_id: attempt for attempt in list_attempts_on(proposal, text)}
    due = [target for target in targets if target.pk not in known or known[target.pk].state == State.FAILED]
    if due:
        reserve_requests(campaign, person, len(due))
    for target in due:
        known[target.pk] = _enqueue(revision, target, known.get(target.pk), person, send)
    if due:
        record(
            actor=person,
            verb=BenchmarkVerb.ASK_TARGETS,
            target=f"proposal:{proposal.pk}",
            campaign=campaign.name,
            places=sorted(target.place for target in due),
        )
    return [known[target.pk] for target in targets]


def list_attempts_on(proposal: Proposal, text: ProposalText) -> list[Attempt]:
    """The attempts of all revisions of the proposal with this text and dimension, the latest of each target."""
    attempts = Attempt.objects.filter(revision__in=_list_revisions(proposal, text))
    latest = {
        attempt.target_id: attempt
        for attempt in attempts.select_related("target", "job", "revision").order_by("revision__number")
    }
    return sorted(latest.values(), key=lambda attempt: attempt.target.place)


def _list_revisions(proposal: Proposal, text: ProposalText) -> QuerySet[ProposalRevision]:
    """Those with this text. Which levels an answer can have depends on the dimension, so that is the same too."""
    return proposal.revisions.filter(text=text.text, dimension=text.classification.dimension)


def _get_or_add_revision(proposal: Proposal, text: ProposalText) -> ProposalRevision:
    latest = _list_revisions(proposal, text).order_by("-number").first()
    return latest or add_revision(proposal, text, get_method(proposal.campaign, text.classification.method))


def _enqueue(
    revision: ProposalRevision,
    target: CampaignTarget,
    known: Attempt | None,
    person: Person,
    send: bool,
) -> Attempt:
    attempt = known or Attempt(revision=revision, target=target)
    attempt.state, attempt.error, attempt.asked_at = State.ASKED, None, timezone.now()
    # The title is on the jobs page: it tells nothing of a blind target.
    attempt.job = jobs.enqueue(
        kind=ASK_JOB,
        payload={"attempt": str(attempt.pk)},
        title=f"{revision.proposal.campaign}",
        actor=person,
        send=send,
    )
    attempt.save()
    return attempt


def reserve_requests(campaign: Campaign, person: Person, number: int) -> None:
    """Take so many requests of the campaign's budget and of the person's; Conflict where either has fewer left.

    The campaign's row comes first here, in a refund, and wherever both are changed.
    """
    within = Q(max_requests=None) | Q(max_requests__gte=F("requests_used") + number)
    rows = Campaign.objects.filter(within, pk=campaign.pk)
    if not rows.update(requests_used=F("requests_used") + number):
        raise Conflict(
            N_("The campaign's budget of {limit} requests has fewer than {n} left."),
            limit=campaign.max_requests or 0,
            n=number,
        )
    limit = campaign.requests_per_person
    members = CampaignMember.objects.filter(campaign=campaign, person=person, role=CampaignMember.Role.AUTHOR)
    if limit is not None:
        members = members.filter(requests_used__lte=limit - number)
    if not members.update(requests_used=F("requests_used") + number):
        raise Conflict(
            N_("Your budget of {limit} requests has fewer than {n} left."), limit=limit or 0, n=number
        )


def _refund(attempt: Attempt) -> None:
    proposal = attempt.revision.proposal
    Campaign.objects.filter(pk=proposal.campaign_id, requests_used__gt=0).update(
        requests_used=F("requests_used") - 1
    )
    CampaignMember.objects.filter(
        campaign=proposal.campaign_id,
        person=proposal.author_id,
        role=CampaignMember.Role.AUTHOR,
        requests_used__gt=0,
    ).update(requests_used=F("requests_used") - 1)


def recover_attempts(proposal: Proposal) -> int:
    """Mark the attempts whose job ended without an answer, as when it was cancelled or its workers died, as failed.

    How many they were.
    """
    over = [Job.State.DONE, Job.State.FAILED, Job.State.CANCELLED]
    stranded = Attempt.objects.filter(revision__proposal=proposal, state=State.ASKED, job__state__in=over)
    return sum(_fail(attempt.pk, attempt.job_id, NO_JOB) for attempt in stranded)


NO_JOB = AssayError(N_("The request was given up before an answer came."))
NO_TEXT = AssayError(N_("The target answered with nothing."))


def execute_asking(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job; again after a stop it asks once more, unless the answer is stored."""
    attempt = (
        Attempt.objects.select_related("target", "revision", "revision__proposal__campaign__guideline")
        .filter(pk=context.payload["attempt"])
        .first()
    )
    if attempt is None or attempt.job_id != context.job.pk:
        return {}
    if attempt.state == State.ANSWERED:  # a worker died before the prediction
        _predict(attempt, attempt.answer.text)
        return {"attempt": str(attempt.pk), "answered": True}
    if attempt.state != State.ASKED:
        return {}
    outcome = _send(attempt, context)
    if isinstance(outcome, EndpointAnswer) and outcome.text.strip():
        wait_for_database(partial(_store_answer, attempt, outcome, context))
        _predict(attempt, outcome.text)
        return {"attempt": str(attempt.pk), "answered": True}
    error = outcome if isinstance(outcome, TargetSilent) else _describe_failure(outcome)
    wait_for_database(partial(_fail, attempt.pk, context.job.pk, error))
    return {"attempt": str(attempt.pk), "answered": False}


def _send(attempt: Attempt, context: jobs.JobContext) -> Outcome | AssayError:
    target, outcomes = attempt.target, list[Outcome]()
    ends_at = time.monotonic() + target.timeout + SPARE_SECONDS

    def keep(batch: Sequence[Outcome], totals: RequestTotals) -> None:
        outcomes.extend(batch)
        if not outcomes:
            context.report(0.0, ASKING)
            if time.monotonic() > ends_at:
                raise TargetSilent(LIMITED if totals.limited else SILENT, seconds=round(target.timeout))

    question = build_question(0, attempt.revision.text, target.settings)
    endpoint = Endpoint(
        target.endpoint, target.served_model, select_parameters(target.settings), target.timeout
    )
    try:
        send_requests(
            [question],
            endpoint,
            concurrency=1,
            sent=lambda _keys: None,
            done=keep,
            tries=TRIES,
            patience=PATIENCE,
        )
    except AssayError as error:
        # The endpoint is away, refuses everything, or took too long; an answer that came before counts.
        return outcomes[0] if outcomes and isinstance(outcomes[0], EndpointAnswer) else error
    return outcomes[0]


LIMITED = N_("The target limits the rate of requests; ask again in a while.")
SILENT = N_("No answer came within {seconds} s; ask again in a while.")
REFUSED = N_("The target refused the request (HTTP {status}); a manager can see why.")
UNANSWERED = N_("The target gave no answer; a manager can see why.")


def _describe_failure(outcome: Outcome | AssayError) -> AssayError:
    """What the author reads: no word of the endpoint, which could tell which model it is. The log has those."""
    if isinstance(outcome, EndpointAnswer):
        return NO_TEXT
    if isinstance(outcome, AssayError):  # away, or a key that may not be sent
        logger.warning("a target of a campaign gave no answer: %s", outcome)
        return AssayError(UNANSWERED, detail=str(outcome))
    logger.warning("a target of a campaign gave no answer: %s", outcome.error)
    if outcome.status == 429:
        return AssayError(LIMITED, detail=outcome.error)
    if outcome.status not in {None, 200}:  # 200 is an answer that nobody can read
        return AssayError(REFUSED, status=outcome.status, detail=outcome.error)
    return AssayError(UNANSWERED, detail=outcome.error)


@transaction.atomic
def _store_answer(attempt: Attempt, answer: EndpointAnswer, context: jobs.JobContext) -> None:
    """Once: whoever took the job over stores its own answer alone."""
    context.save_result({"attempt": str(attempt.pk), "answered": True})
    rows = Attempt.objects.filter(pk=attempt.pk, state=State.ASKED, job=context.job)
    if rows.update(state=State.ANSWERED, error=None):
        AttemptAnswer.objects.create(attempt=attempt, text=answer.text, **build_origin(answer))


@transaction.atomic
def _fail(attempt_id: UUID, job_id: int | None, error: AssayError) -> bool:
    rows = Attempt.objects.filter(pk=attempt_id, state=State.ASKED, job=job_id)
    if not rows.update(state=State.FAILED, error=error_to_json(error)):
        return False
    _refund(Attempt.objects.select_related("revision__proposal").get(pk=attempt_id))
    return True


def _predict(attempt: Attempt, text: str) -> None:
    """What the guideline's current scorer says of the answer. Without it the answer is as good: an error is logged."""
    revision = attempt.revision
    guideline = revision.proposal.campaign.guideline
    scorer = find_current_scorer(guideline.name)
    if scorer is None or scorer.guideline_id != guideline.pk:
        return
    try:
        item = PredictionItem(revision.text, response=text, dimension=revision.dimension or None)
        predictions = predict_item(scorer, item)
    except AssayError as error:
        logger.warning("no prediction of an answer to a proposal: %s", error)
        return
    AttemptAnswer.objects.filter(attempt=attempt).update(scorer=scorer, predictions=predictions)


@transaction.atomic
def set_levels(*, attempt_id: UUID, person: Person, levels: Mapping[str, object]) -> Attempt:
    """The author's own levels of an answer, before the scorer's are shown; given once."""
    proposal = lock_own_proposal(get_own_attempt(person, attempt_id).revision.proposal_id, person)
    attempt = Attempt.objects.select_for_update(of=("self",)).select_related("revision").get(pk=attempt_id)
    campaign = proposal.campaign
    checked = check_levels(levels, campaign.success, campaign.guideline.document, attempt.revision.dimension)
    if attempt.levels is not None:
        if attempt.levels != checked:
            raise Conflict(N_("You gave this answer a level already; it stays as you gave it first."))
        return attempt
    if attempt.state != State.ANSWERED:
        raise Conflict(N_("There is no answer yet."))
    attempt.levels, attempt.levelled_at = checked, timezone.now()
    attempt.save(update_fields=["levels", "levelled_at"])
    severity = campaign.guideline.document.severity_of(attempt.revision.dimension)
    execute(*add_exposure(person.pk, severity))
    return attempt


def refuse_exposed(person: Person, campaign: Campaign, dimension: str) -> None:
    """Conflict where the person opted out of the dimension, or has read enough severe content today."""
    if dimension in person.opted_out:
        raise Conflict(N_("You opted out of this topic; choose another cell."))
    if campaign.guideline.document.severity_of(dimension) and is_budget_used_up(person):
        raise Conflict(
            N_(
                "You have read as much severe content today as your budget allows; go on tomorrow, or with another"
                " topic."
            )
        )
