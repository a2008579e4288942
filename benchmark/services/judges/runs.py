"""Asking a judge about responses: one question for each content and criterion, what is stored is never asked again.

Identical content (prompt, text of the response, criterion) is one question; its answer is the label of every
response that has it. What got no answer is kept as a failure, and asked for again by the next job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from annotation.core.errors import N_
from annotation.domain.datasets import text_sha256
from annotation.domain.guidelines import Criterion
from annotation.domain.slates import group_entries, write_entries
from annotation.models import Response
from annotation.services import jobs
from benchmark.domain.judges.prompts import OFF_SCALE, SWAPPED, ParsedLabel, build_messages, parse_label
from benchmark.domain.llm_client import (
    ChatQuestion,
    Endpoint,
    EndpointAnswer,
    RequestFailure,
    RequestTotals,
    send_requests,
)
from benchmark.models import Judge, JudgeLabel, JudgeRun
from benchmark.selectors.judges.judges import list_labels
from benchmark.selectors.leaderboards.runs import list_responses
from benchmark.services.judges.judges import KIND
from scoring.domain.training_data import level_name
from scoring.selectors.training import response_text

__all__ = ["KIND", "execute_judging"]

ASKING = N_("asking")
CHUNK = 500
MAX_FAILURES = 100
MAX_TEXT_CHARACTERS = 20_000

Content = tuple[str, str, str]
"""The hashes of the prompt and of the response, and the criterion: what has the same question."""


@dataclass
class _JudgingProgress:
    """A job at its judging. ``done`` and ``total`` count labels, of those that were not stored when it began."""

    context: jobs.JobContext
    judging: JudgeRun
    before: int
    total: int
    done: int = 0
    questions: int = 0
    off_scale: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0

    @property
    def judge(self) -> Judge:
        return self.judging.judge


def execute_judging(context: jobs.JobContext) -> dict[str, Any]:
    """The job's result: ``asked`` questions, ``copied`` labels of equal content, ``failed`` questions."""
    judging = JudgeRun.objects.select_related(
        "judge__guideline", "judge__template", "dataset", "collection"
    ).get(pk=context.payload["judging"])
    context.report(0.0, ASKING)
    groups = _list_unanswered(judging)
    total = sum(map(len, groups.values()))
    work = _JudgingProgress(context, judging, judging.requests, total)
    JudgeRun.objects.filter(pk=judging.pk).update(failures=[])
    _copy_labels(work, groups)
    _ask_judge(work, groups)
    return {
        "judge": judging.judge.name,
        "labels": work.done,
        "asked": work.questions,
        "copied": work.done - work.questions,
        "off_scale": work.off_scale,
        "failed": work.failed,
    }


def _list_unanswered(judging: JudgeRun) -> dict[Content, list[int]]:
    """By content, the responses that have no label of the judge yet; in the order of their ids."""
    document = judging.judge.guideline.document
    rows = list(
        list_responses(judging.dataset, judging.collection, judging.evaluated_models.all())
        .select_related(None)
        .values_list("pk", "prompt_id", "prompt__dimension", "prompt__subcomponent", "sha256")
    )
    prompts = {pk: text_sha256(text) for pk, text in judging.dataset.prompts.values_list("pk", "text")}
    known = list_labels(judging.judge, [pk for pk, *_more in rows])
    groups: dict[Content, list[int]] = defaultdict(list)
    for pk, prompt, dimension, subcomponent, sha256 in rows:
        for criterion in document.countable_at(dimension or None, subcomponent):
            if (pk, criterion.name) not in known:
                groups[prompts[prompt], sha256, criterion.name].append(pk)
    return dict(groups)


def _copy_labels(work: _JudgingProgress, groups: dict[Content, list[int]]) -> None:
    """What the judge has said of equal content, wherever that stands, is taken out of ``groups``."""
    hashes = sorted({sha256 for _prompt, sha256, _criterion in groups})
    for start in range(0, len(hashes), CHUNK):
        labels = work.judge.labels.filter(response__sha256__in=hashes[start : start + CHUNK])
        labels = labels.select_related("response__prompt").defer("response__text", "response__turns")
        for label in labels.order_by("pk"):
            prompt = text_sha256(label.response.prompt.text)
            responses = groups.pop((prompt, label.response.sha256, label.criterion), None)
            if responses:
                _store_labels(work, [_copy_label(label, response) for response in responses])


def _copy_label(label: JudgeLabel, response: int) -> JudgeLabel:
    return JudgeLabel(
        judge_id=label.judge_id,
        response_id=response,
        criterion=label.criterion,
        value=label.value,
        probabilities=label.probabilities,
        said=label.said,
    )


def _ask_judge(work: _JudgingProgress, groups: Mapping[Content, Sequence[int]]) -> None:
    """Each content once; a question's key is the place of its content."""
    judge, contents = work.judge, list(groups)
    criteria = {criterion.name: criterion for criterion in judge.guideline.document.countable_criteria}

    def ignore_sent(_keys: Sequence[int]) -> None:
        """Nothing is kept of what is under way: the same question may be asked again."""

    def store_outcomes(batch: Sequence[EndpointAnswer | RequestFailure], totals: RequestTotals) -> None:
        with transaction.atomic():
            for outcome in batch:
                content = contents[outcome.key]
                if isinstance(outcome, RequestFailure):
                    _record_failure(work, content, groups[content][0], outcome)
                else:
                    _store_answer(work, criteria[content[2]], groups[content], outcome)
            counted = work.before + totals.requests
            JudgeRun.objects.filter(pk=work.judging.pk).update(requests=counted, failures=work.failures)
        work.context.report(work.done / work.total if work.total else 1.0, ASKING)

    endpoint = Endpoint(
        url=judge.endpoint, model=judge.served_model, settings=judge.settings, timeout=work.judging.timeout
    )
    questions = _list_questions(judge, groups, criteria)
    send_requests(
        questions, endpoint, concurrency=work.judging.concurrency, sent=ignore_sent, done=store_outcomes
    )


def _list_questions(
    judge: Judge, groups: Mapping[Content, Sequence[int]], criteria: Mapping[str, Criterion]
) -> Iterator[ChatQuestion]:
    """As a stream: the texts of a chunk of them stand in memory."""
    template = judge.template
    assert template is not None, "the database holds no judge of an endpoint without one"
    contents = list(groups)
    for start in range(0, len(contents), CHUNK):
        firsts = {content: groups[content][0] for content in contents[start : start + CHUNK]}
        responses = Response.objects.select_related("prompt").in_bulk(set(firsts.values()))
        for key, (content, first) in enumerate(firsts.items(), start):
            response = responses[first]
            criterion = criteria[content[2]].at_subcomponent(response.prompt.subcomponent)
            order = list_order_asked(judge, response.turns)
            chat = build_messages(
                template.system,
                template.text,
                document=judge.guideline.document,
                criterion=criterion.at_entries(len(order)) if order else criterion,
                prompt=response.prompt.text,
                response=write_entries(response.turns, order)
                if order
                else response_text(response.text, response.turns),
            )
            yield ChatQuestion(key, chat)


def _store_answer(
    work: _JudgingProgress, criterion: Criterion, responses: Sequence[int], answer: EndpointAnswer
) -> None:
    parsed = parse_label(answer.text, criterion)
    if criterion.entries is not None:
        parsed = _place_answer(work.judge, criterion, responses[0], parsed)
    work.questions += 1
    _store_labels(
        work, [_build_label(work.judge, criterion, response, parsed, answer.text) for response in responses]
    )


def list_order_asked(judge: Judge, turns: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """The places of a slate's entries in the order in which the judge reads them: the slate's, or where the judge is
    the one that is asked the other way round, from the last to the first. Empty of a single response.
    """
    places = tuple(group_entries(turns))
    return places[::-1] if judge.name.endswith(SWAPPED) else places


def _place_answer(judge: Judge, criterion: Criterion, response: int, parsed: ParsedLabel) -> ParsedLabel:
    """The answer, which goes by the numbers that the judge read, in the slate's order; off scale beyond its entries."""
    order = list_order_asked(judge, Response.objects.values_list("turns", flat=True).get(pk=response))
    back = [order.index(place) + 1 for place in range(1, len(order) + 1)]
    own = criterion.at_entries(len(order))
    if parsed.value is None or parsed.value not in own.values:
        return OFF_SCALE
    value = own.show_in(back, int(parsed.value))
    return ParsedLabel(None if isinstance(value, str) else value)


def _build_label(
    judge: Judge, criterion: Criterion, response: int, parsed: ParsedLabel, text: str
) -> JudgeLabel:
    return JudgeLabel(
        judge=judge,
        response_id=response,
        criterion=criterion.name,
        value=parsed.value,
        probabilities={level_name(value): share for value, share in parsed.probabilities.items()},
        said=text[:MAX_TEXT_CHARACTERS],
    )


def _store_labels(work: _JudgingProgress, labels: Sequence[JudgeLabel]) -> None:
    """A label that another job has stored meanwhile stays as it is."""
    JudgeLabel.objects.bulk_create(labels, ignore_conflicts=True)
    work.done += len(labels)
    work.off_scale += sum(label.value is None for label in labels)


def _record_failure(work: _JudgingProgress, content: Content, response: int, failure: RequestFailure) -> None:
    """The last ones are kept, to be shown; all of them are asked for again."""
    work.failed += 1
    entry = {
        "response": response,
        "criterion": content[2],
        "status": failure.status,
        "error": failure.error,
        "attempts": failure.attempts,
    }
    work.failures = [*work.failures, entry][-MAX_FAILURES:]
