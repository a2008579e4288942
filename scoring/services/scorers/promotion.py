"""The gate: a scorer becomes its guideline's current one only if it is shown not to be worse, or for a stated reason.

What it and the scorers before it say of labels whose prompts they have not learned is compared
(``scoring/domain/gate.py``), and the regression cases are asked. Asking needs the learning libraries, so it is a job;
its verdict stays in the job's result, whether the scorer was promoted or not. Where the verdict is *not shown* a
researcher may promote with a reason, which stands with the promotion; no reason leads past a loss that is shown, nor
past a regression case.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from annotation.core.errors import N_, AssayError, Conflict, Forbidden
from annotation.core.study_scope import choose_study_id
from annotation.domain.permissions import PROMOTE_SCORER
from annotation.models import Guideline, Job, Person
from annotation.selectors.access import may, refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from scoring.domain.gate import MARGIN, MAX_MARGIN, MIN_MARGIN, VERSION
from scoring.domain.verbs import ScoringVerb
from scoring.models import GateAttempt, Promotion, Scorer
from scoring.selectors.regression_cases import must_fail_items
from scoring.selectors.scorers import (
    JUDGE,
    find_last_promotion,
    find_previous_scorer,
    find_running_judge_job,
    list_judge_jobs,
    list_promotions,
    select_scorers,
)
from scoring.services.predictions.predictions import check_ready
from scoring.services.scorers.verdicts import build_verdict, describe_attempts

MAX_REASON_CHARACTERS = 2000


@transaction.atomic
def promote(
    *,
    scorer: Scorer,
    actor: Person | None = None,
    margin: float = MARGIN,
    reason: str = "",
    send: bool = True,
) -> Job:
    """The job that judges the scorer and, if it passes, makes it the current one of its guideline.

    ``margin`` is the loss of accuracy that is declared to be small enough, a fraction. With a ``reason``, which only a
    researcher may give, it becomes the current one also where the verdict is not shown.
    """
    check_ready(scorer)
    name = scorer.guideline.name
    last = find_last_promotion(name)
    _check_compared_unsealed(actor, scorer)
    if last is not None and last.scorer == scorer:
        raise Conflict(
            N_("{scorer} is the current scorer of {guideline} already."), scorer=scorer.name, guideline=name
        )
    _check_margin(margin)
    stated = _check_reason(reason, actor) if reason else ""
    Scorer.objects.select_for_update(of=("self",)).get(pk=scorer.pk)
    if find_running_judge_job(scorer) is not None:
        raise Conflict(N_("{scorer} is being judged now."), scorer=scorer.name)
    payload = {"scorer": scorer.pk, "margin": margin, "reason": stated}
    job = jobs.enqueue(kind=JUDGE, payload=payload, title=scorer.name, actor=actor, send=send)
    record(
        actor=actor,
        verb=ScoringVerb.JUDGE_SCORER,
        target=f"scorer:{scorer.name}",
        guideline=name,
        margin=margin,
    )
    return job


def _check_margin(margin: float) -> None:
    if not MIN_MARGIN <= margin <= MAX_MARGIN:
        raise AssayError(
            N_("The margin is {value} points; it must be between {low} and {high} points."),
            value=f"{100 * margin:g}",
            low=f"{100 * MIN_MARGIN:g}",
            high=f"{100 * MAX_MARGIN:g}",
        )


def _check_reason(reason: str, actor: Person | None) -> str:
    """The reason as it is kept. It stands on cards and boards, so that somebody must answer for it."""
    if actor is None or not may(actor, PROMOTE_SCORER):
        raise Forbidden(N_("Only a researcher may promote with a reason."))
    stated = reason.strip()
    if not stated:
        raise AssayError(N_("Give the reason for promoting what is not shown."))
    if len(stated) > MAX_REASON_CHARACTERS:
        raise AssayError(N_("The reason is longer than {most} characters."), most=MAX_REASON_CHARACTERS)
    return stated


def _check_compared_unsealed(actor: Person | None, scorer: Scorer) -> None:
    """The verdict gives figures of the gold of every scorer that was ever current, so all of it must be open."""
    former = {promotion.scorer for promotion in list_promotions(scorer.guideline.name)}
    for compared in sorted({scorer, *former}, key=lambda each: each.pk):
        _check_unsealed(actor, compared)


def _check_unsealed(actor: Person | None, scorer: Scorer) -> None:
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())


def run_promotion(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job: ``{"scorer", "against", "promoted", "reason", "verdict"}``.

    Done again after a worker died, it leaves a decision that was stored as it is. Another promotion in the meantime is
    a Conflict: what was compared with is not the current scorer any more. So is a regression case that was added.
    """
    if "verdict" in context.job.result:
        return dict(context.job.result)
    scorer = select_scorers().get(pk=context.payload["scorer"])
    margin, reason = context.payload.get("margin", MARGIN), context.payload.get("reason", "")
    last = find_last_promotion(scorer.guideline.name)
    verdict = build_verdict(scorer, margin=margin, report=context.report)
    promoted = verdict["passed"] or bool(reason and not verdict["refused"])
    result: dict[str, Any] = {
        "scorer": scorer.name,
        "against": None if last is None else last.scorer.name,
        "promoted": promoted,
        "reason": reason if promoted and not verdict["passed"] else "",
        "verdict": verdict,
    }
    actor = context.job.created_by
    with transaction.atomic():
        _lock_guideline(scorer.guideline.name)
        verdict |= describe_attempts(scorer, verdict["datasets"], margin)
        _store_attempt(scorer, context.job)
        context.save_result(result)
        if promoted:
            _check_verdict_stands(scorer, verdict)
            _store_promotion(
                scorer,
                last,
                Promotion.Kind.PASSED if verdict["passed"] else Promotion.Kind.REASON,
                verdict,
                actor,
                reason=result["reason"],
            )
        _record_decision(scorer, result, actor)
    return result


def _store_attempt(scorer: Scorer, job: Job) -> None:
    """The next place among the verdicts of its study and guideline; no two of them can have the same."""
    lineage = {"study_id": choose_study_id(scorer.study_id), "guideline_name": scorer.guideline.name}
    last = GateAttempt.objects.filter(**lineage).aggregate(number=Max("number"))["number"]
    GateAttempt.objects.create(**lineage, number=(last or 0) + 1, job=job)


def _record_decision(scorer: Scorer, result: dict[str, Any], actor: Person | None) -> None:
    record(
        actor=actor,
        verb=ScoringVerb.PROMOTE_SCORER if result["promoted"] else ScoringVerb.REFUSE_SCORER,
        target=f"scorer:{scorer.name}",
        guideline=scorer.guideline.name,
        against=result["against"],
        outcome=result["verdict"]["outcome"],
        margin=result["verdict"]["margin"],
        reason=result["reason"],
    )


@transaction.atomic
def promote_with_reason(*, scorer: Scorer, job: int, reason: str, actor: Person) -> Promotion:
    """Make a scorer the current one whose last verdict is not shown, for a reason that stays with it.

    ``job`` is the one whose verdict the person saw. Raises Forbidden where the person is no researcher or may not open
    the results; Conflict where the verdict refuses, has led to a promotion, or stands no longer: judged again, another
    scorer promoted, a regression case added.
    """
    stated = _check_reason(reason, actor)
    name = scorer.guideline.name
    _lock_guideline(name)
    last = find_last_promotion(name)
    _check_compared_unsealed(actor, scorer)
    judge_jobs = list_judge_jobs(scorer)
    if not judge_jobs or judge_jobs[0].pk != job or judge_jobs[0].state != Job.State.DONE:
        raise Conflict(
            N_("{scorer} was judged again in the meantime; look, and try again."), scorer=scorer.name
        )
    result = dict(judge_jobs[0].result)
    verdict = result["verdict"]
    if verdict.get("version") != VERSION:
        raise Conflict(
            N_("The verdict on {scorer} is of an earlier version of the gate: judge it again."),
            scorer=scorer.name,
        )
    if verdict["refused"]:
        raise Conflict(N_("The gate refused {scorer}: no reason leads past that."), scorer=scorer.name)
    if result["promoted"]:
        raise Conflict(
            N_("This verdict has led to a promotion already; judge {scorer} again."), scorer=scorer.name
        )
    _check_verdict_stands(scorer, verdict)
    result |= {"promoted": True, "reason": stated}
    Job.objects.filter(pk=job).update(result=result)
    promotion = _store_promotion(scorer, last, Promotion.Kind.REASON, verdict, actor, reason=stated)
    _record_decision(scorer, result, actor)
    return promotion


def _lock_guideline(name: str) -> None:
    """Verdicts, promotions and regression cases of one guideline are stored one after another."""
    list(Guideline.objects.select_for_update().filter(name=name).order_by("pk").values_list("pk", flat=True))


def _check_verdict_stands(scorer: Scorer, verdict: dict[str, Any]) -> None:
    """Raise Conflict where a scorer was promoted since, or a regression case was added that was not asked."""
    last = find_last_promotion(scorer.guideline.name)
    if verdict["promotion"] != (0 if last is None else last.number):
        raise _build_conflict(scorer.guideline.name)
    judged = {outcome["item"] for outcome in verdict["must_fail"]}
    added = [item.pk for item in must_fail_items(scorer.guideline.name) if str(item.pk) not in judged]
    if added:
        raise Conflict(
            N_("Regression cases that were added after the verdict: {count}. Judge {scorer} again."),
            count=len(added),
            scorer=scorer.name,
        )


def _store_promotion(
    scorer: Scorer,
    last: Promotion | None,
    kind: str,
    verdict: dict[str, Any],
    actor: Person | None,
    *,
    reason: str = "",
) -> Promotion:
    """The next row after ``last``; of two that follow the same one, the later is refused."""
    try:
        with transaction.atomic():
            return Promotion.objects.create(
                study_id=choose_study_id(scorer.study_id),
                guideline_name=scorer.guideline.name,
                number=1 if last is None else last.number + 1,
                kind=kind,
                scorer=scorer,
                replaced=None if last is None else last.scorer,
                verdict=verdict,
                reason=reason,
                created_by=actor,
            )
    except IntegrityError as error:
        raise _build_conflict(scorer.guideline.name) from error


def _build_conflict(guideline_name: str) -> Conflict:
    return Conflict(
        N_("Another scorer became the current one of {guideline} in the meantime; look, and try again."),
        guideline=guideline_name,
    )


@transaction.atomic
def roll_back(*, guideline_name: str, number: int | None = None, actor: Person | None = None) -> Promotion:
    """Make the scorer before the current one current again. Nothing is deleted: it is a further row.

    ``number`` is that of the promotion which the person saw as the last: pressed twice, it goes back once.
    """
    last, previous = find_last_promotion(guideline_name), find_previous_scorer(guideline_name)
    if last is None or previous is None:
        raise Conflict(
            N_("There is no scorer of {guideline} to go back to."),
            guideline=guideline_name,
        )
    if number not in {None, last.number}:
        raise _build_conflict(guideline_name)
    for scorer in (last.scorer, previous):
        _check_unsealed(actor, scorer)
    promotion = _store_promotion(previous, last, Promotion.Kind.BACK, {}, actor)
    record(
        actor=actor,
        verb=ScoringVerb.GO_BACK_TO_SCORER,
        target=f"scorer:{previous.name}",
        guideline=guideline_name,
        instead_of=last.scorer.name,
    )
    return promotion
