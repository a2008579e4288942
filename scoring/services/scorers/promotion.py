"""The gate: a scorer becomes its guideline's current one only if it is not worse than the one it replaces.

What both say of the labels of the test split that neither has learned from is compared (``scoring/domain/gate.py``),
and the regression cases are asked. Asking needs the learning libraries, so it is a job; what it finds stays in the
job's result, whether the scorer was promoted or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from annotation.core.error_messages import error_to_json
from annotation.core.errors import N_, Conflict
from annotation.models import Job, Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from scoring.domain.gate import REASONS, GateCase, MustFailItem, judge_scorer
from scoring.domain.training_data import Distribution, Example, Head, normalise, prompt_groups
from scoring.domain.training_data import Prediction as Predicted
from scoring.models import Promotion, RegressionCase, Scorer
from scoring.selectors.regression_cases import must_fail_items
from scoring.selectors.scorers import (
    JUDGE,
    find_last_promotion,
    find_previous_scorer,
    find_running_judge_job,
    select_scorers,
)
from scoring.selectors.training import TrainingRecord, build_example, build_heads, build_training_set
from scoring.services.predictions.predictions import StageReport, check_ready, ignore_stage, load_scorer

TEST = "test"
READING = N_("reading the labels of the test split")
ASKING_NEW = N_("asking the new scorer")
ASKING_OLD = N_("asking the current scorer")
ASKING_MUST_FAIL = N_("asking about the regression cases")


@transaction.atomic
def promote(*, scorer: Scorer, actor: Person | None = None, send: bool = True) -> Job:
    """The job that judges the scorer and, if it passes, makes it the current one of its guideline."""
    check_ready(scorer)
    name = scorer.guideline.name
    last = find_last_promotion(name)
    for affected_scorer in [scorer] if last is None else [scorer, last.scorer]:
        _check_unsealed(actor, affected_scorer)
    if last is not None and last.scorer == scorer:
        raise Conflict(
            N_("{scorer} is the current scorer of {guideline} already."), scorer=scorer.name, guideline=name
        )
    Scorer.objects.select_for_update(of=("self",)).get(pk=scorer.pk)
    if find_running_judge_job(scorer) is not None:
        raise Conflict(N_("{scorer} is being judged now."), scorer=scorer.name)
    job = jobs.enqueue(kind=JUDGE, payload={"scorer": scorer.pk}, title=scorer.name, actor=actor, send=send)
    record(actor=actor, verb="judge_scorer", target=f"scorer:{scorer.name}", guideline=name)
    return job


def _check_unsealed(actor: Person | None, scorer: Scorer) -> None:
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())


def run_promotion(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job: ``{"scorer", "against", "promoted", "verdict", "refusals"}``.

    ``refusals`` are the reasons as ``annotation.core.error_messages.error_to_json`` keeps them. Done again after a
    worker died, it leaves a decision that was stored as it is. Another promotion in the meantime is a Conflict: what
    was compared with is not the current scorer any more.
    """
    if "verdict" in context.job.result:
        return dict(context.job.result)
    scorer = select_scorers().get(pk=context.payload["scorer"])
    last = find_last_promotion(scorer.guideline.name)
    current = None if last is None else last.scorer
    verdict = build_verdict(scorer, current, report=context.report)
    result = {
        "scorer": scorer.name,
        "against": None if current is None else current.name,
        "promoted": verdict["passed"],
        "verdict": verdict,
        "refusals": [error_to_json(refusal) for refusal in list_refusals(verdict)],
    }
    actor = context.job.created_by
    with transaction.atomic():
        context.save_result(result)
        if verdict["passed"]:
            _store_promotion(scorer, last, Promotion.Kind.PASSED, verdict, actor)
        record(
            actor=actor,
            verb="promote_scorer" if verdict["passed"] else "refuse_scorer",
            target=f"scorer:{scorer.name}",
            guideline=scorer.guideline.name,
            against=result["against"],
        )
    return result


def list_refusals(verdict: dict[str, Any]) -> list[Conflict]:
    """Why the gate did not let the scorer pass; nothing where it did."""
    return [
        Conflict(REASONS[reason["code"]], **{name: value for name, value in reason.items() if name != "code"})
        for reason in verdict["reasons"]
    ]


def _store_promotion(
    scorer: Scorer, last: Promotion | None, kind: str, verdict: dict[str, Any], actor: Person | None
) -> Promotion:
    """The next row after ``last``; of two that follow the same one, the later is refused."""
    try:
        with transaction.atomic():
            return Promotion.objects.create(
                guideline_name=scorer.guideline.name,
                number=1 if last is None else last.number + 1,
                kind=kind,
                scorer=scorer,
                replaced=None if last is None else last.scorer,
                verdict=verdict,
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
        verb="go_back_to_scorer",
        target=f"scorer:{previous.name}",
        guideline=guideline_name,
        instead_of=last.scorer.name,
    )
    return promotion


def build_verdict(new: Scorer, old: Scorer | None, *, report: StageReport = ignore_stage) -> dict[str, Any]:
    """The verdict of the gate on ``new`` beside ``old``, None where it would be the guideline's first scorer.

    Where a new version of the guideline has changed every scale, there is nothing that both can be asked: the new one
    is then judged as the first.
    """
    report(0.0, READING)
    record_new = TrainingRecord.load(new)
    learned = record_new.learned
    cases: list[GateCase] = []
    evidence = None if old is None else GateEvidence.collect(new, old)
    first = evidence is None or not evidence.heads
    if old is not None and evidence is not None and evidence.heads:
        record_old = TrainingRecord.load(old)
        learned = evidence.list_known_contents(learned | record_old.learned)
        fair = [example for example in evidence.examples if example.content_key not in learned]
        report(0.2, ASKING_NEW)
        predictions = _predict(new, record_new, fair)
        report(0.5, ASKING_OLD)
        cases = evidence.build_cases(predictions, _predict(old, record_old, fair))
    report(0.8, ASKING_MUST_FAIL)
    heads = build_heads(new.guideline)
    verdict = judge_scorer(
        cases,
        _predict_must_fail_items(new, record_new),
        learned=learned,
        criteria=[head.criterion for head in heads],
        rescaled=[] if evidence is None else [head.criterion for head in heads if head not in evidence.heads],
        lost=[] if old is None else _list_lost_criteria(new, old),
        first=first,
    )
    report(1.0, ASKING_MUST_FAIL)
    return verdict


def _list_lost_criteria(new: Scorer, old: Scorer) -> set[str]:
    """The criteria of the new scorer that it has learned nothing of, and the old one has: on whatever scale."""
    state_new, state_old = (
        {criterion: head["state"] for criterion, head in scorer.card.get("heads", {}).items()}
        for scorer in (new, old)
    )
    return {
        criterion
        for criterion, state in state_new.items()
        if state == "empty" and state_old.get(criterion, "empty") != "empty"
    }


@dataclass(frozen=True)
class GateEvidence:
    """The labelled responses of the test split in both scorers' releases, and the criteria on which both can be asked.

    Where both releases have a label, the new scorer's counts. ``taught`` is all that the releases could teach.
    """

    examples: list[Example]
    taught: list[Example]
    heads: tuple[Head, ...]

    @classmethod
    def collect(cls, new: Scorer, old: Scorer) -> GateEvidence:
        lesson = build_training_set(new.release, new.guideline)
        taught = list(lesson.examples)
        examples = {example.key: example for example in lesson.examples if example.split == TEST}
        if old.release_id != new.release_id or old.guideline_id != new.guideline_id:
            more = build_training_set(old.release, old.guideline)
            taught += more.examples
            known = set(more.heads)
            heads = tuple(head for head in lesson.heads if head in known)
            for example in more.examples:
                if example.split == TEST:
                    examples.setdefault(example.key, example)
        else:
            heads = lesson.heads
        return cls(list(examples.values()), taught, heads)

    def list_known_contents(self, learned: frozenset[str]) -> frozenset[str]:
        """Contents that are no evidence: those learned, and of the exam's each whose prompt was learned with another.

        One text may stand in two datasets, and be for testing in the one and for training in the other. The
        releases never change, so that of a scorer of any version they tell which prompts it has learned.
        """
        prompts = {normalise(example.prompt) for example in self.taught if example.content_key in learned}
        return learned | {
            example.content_key for example in self.examples if normalise(example.prompt) in prompts
        }

    def build_cases(self, new: dict[str, Predicted], old: dict[str, Predicted]) -> list[GateCase]:
        """One for each label; of contents that nobody was asked about the answers are None."""
        return [
            GateCase(
                key=example.content_key,
                prompt=group,
                criterion=head.criterion,
                truth=example.labels[head.criterion],
                new=_find_value(head, new.get(example.content_key)),
                old=_find_value(head, old.get(example.content_key)),
            )
            for example, group in zip(self.examples, prompt_groups(self.examples), strict=True)
            for head in self.heads
            if head.criterion in example.labels
        ]


def _find_value(head: Head, predicted: Predicted | None) -> float | None:
    """The most likely level, or None where nothing was said."""
    distribution = (predicted or {}).get(head.criterion)
    return None if distribution is None else head.most_likely(distribution)


def _predict(
    scorer: Scorer, training_record: TrainingRecord, examples: Sequence[Example]
) -> dict[str, Predicted]:
    """By content key what the scorer that is kept says.

    What it said when it was trained need not be asked again, and then its libraries need not be there.
    """
    predictions = {
        example.content_key: training_record.tested[example.content_key]
        for example in examples
        if example.content_key in training_record.tested
    }
    unpredicted = {
        example.content_key: example for example in examples if example.content_key not in predictions
    }
    if unpredicted:
        predictions |= zip(
            unpredicted, load_scorer(scorer).fitted.predict(list(unpredicted.values())), strict=True
        )
    return predictions


def _predict_must_fail_items(scorer: Scorer, training_record: TrainingRecord) -> list[MustFailItem]:
    """What the scorer that is kept gives each item, and of what it has learned also what was said out of fold.

    By heart any scorer passes, so what it has learned it passes out of fold; what it fails even by heart it fails.
    """
    items = list(must_fail_items(scorer.guideline.name))
    examples = {item.pk: build_example(item.response) for item in items}
    predictions = _predict(scorer, training_record, list(examples.values()))
    answers = {key: [predicted] for key, predicted in predictions.items()}
    if learned := answers.keys() & training_record.learned:
        out_of_fold = load_scorer(scorer).out_of_fold.predictions
        for key in learned:
            answers[key].insert(0, out_of_fold[key][1] if key in out_of_fold else {})
    scales = {head.criterion: head.values for head in build_heads(scorer.guideline)}
    return [
        _judge_must_fail_item(item, answers[examples[item.pk].content_key], scales.get(item.criterion, ()))
        for item in items
    ]


def _judge_must_fail_item(
    item: RegressionCase, answers: Sequence[Predicted], scale: Sequence[float]
) -> MustFailItem:
    """It was given the value that it must not be given where any of the answers is one, else the first."""
    values = [_find_likeliest(predicted.get(item.criterion)) for predicted in answers]
    predicted = next((value for value in values if value in item.refused), values[0])
    void = not set(item.refused) & set(scale)
    return MustFailItem(str(item.pk), item.criterion, tuple(item.refused), predicted, void)


def _find_likeliest(distribution: Distribution | None) -> float | None:
    return None if distribution is None else max(distribution, key=lambda value: distribution[value])
