"""Making dialogues between an agent, which plays role cards, and the model under test.

Each turn is stored as it comes, in the transaction that takes its pending mark; with the last one the dialogue becomes
a response. A run that goes on after a stop asks for the turns that are missing, and for no other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.names import check_printable_name
from annotation.domain.datasets import response_sha256
from annotation.domain.dialogues import AGENT, list_faults
from annotation.models import Collection, Dataset, DialogueFault, EvaluatedModel, Person, Response
from annotation.services import jobs
from annotation.services.sharing import refuse_borrowed
from benchmark.domain.dialogues import (
    MAX_ROUNDS,
    MODEL,
    OPENING_FAULT,
    OPENINGS,
    TEMPLATE_FAULT,
    TEMPLATES,
    build_model_messages,
    by_language,
    check_texts,
    get_role,
)
from benchmark.domain.llm_client import (
    ChatQuestion,
    DirectedQuestion,
    Endpoint,
    EndpointAnswer,
    Outcome,
    RequestFailure,
    RequestTotals,
    check_endpoint,
    find_key,
    send_conversations,
)
from benchmark.domain.llm_client.protocol import CUT
from benchmark.domain.llm_client.settings import check_settings, select_parameters
from benchmark.models import CollectionRun, DialogueRun, DialogueTurn, FailedTurn, PendingTurn
from benchmark.selectors.dialogues import (
    DIALOGUES_JOB,
    OpenDialogue,
    build_script,
    count_open_turns,
    list_open_dialogues,
)
from benchmark.selectors.leaderboards.runs import refuse_sealed_dataset
from benchmark.services.endpoint_runs import (
    CONCURRENCY,
    TIMEOUT,
    EndpointJob,
    build_failure,
    build_origin,
    check_model,
    check_pace,
    check_unchanged,
    create_responses,
    start_job,
)

ROUNDS = 5


@dataclass(frozen=True)
class DialogueSide:
    """Who is asked where: ``name`` is what it is called here, ``served_model`` what the endpoint calls it."""

    name: str
    endpoint: str
    served_model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@transaction.atomic
def start_dialogues(
    *,
    name: str,
    dataset: Dataset,
    model: DialogueSide,
    agent: DialogueSide,
    collection: str = "",
    rounds: int = ROUNDS,
    templates: Mapping[str, str] | None = None,
    openings: Mapping[str, str] | None = None,
    concurrency: int = CONCURRENCY,
    timeout: float = TIMEOUT,
    actor: Person | None = None,
    send: bool = True,
) -> DialogueRun:
    """Make a dialogue on each of the dataset's role cards; go on where this was begun with the same settings.

    The model and the collection are made if they are new. Cards that have a response in the collection are left alone.
    ``templates`` and ``openings`` are by the card's language, with one under "" for the others; by default those that
    come with Assay. ``concurrency``, the number of dialogues at once, and ``timeout`` may differ each time.
    """
    if actor is not None:
        refuse_sealed_dataset(actor, dataset)
    values = {
        "agent": agent.name,
        "rounds": rounds,
        "templates": check_texts(templates or by_language(TEMPLATES), TEMPLATE_FAULT),
        "openings": check_texts(openings or by_language(OPENINGS), OPENING_FAULT),
        **_check_side(model, ""),
        **_check_side(agent, "agent_"),
    }
    check_pace(concurrency, timeout)
    for word in (name, model.name, agent.name, *filter(None, [collection])):
        check_printable_name(word)
    if not 1 <= rounds <= MAX_ROUNDS:
        raise AssayError(
            N_("A dialogue has 1 to {most} rounds, not {number}."), most=MAX_ROUNDS, number=rounds
        )
    refuse_borrowed(dataset)
    if not dataset.prompts.exists():
        raise AssayError(N_("The dataset {name} has no prompts; import them first."), name=dataset.name)
    evaluated, _made = EvaluatedModel.objects.get_or_create(name=model.name)
    place, _made = Collection.objects.get_or_create(name=collection)
    values |= {"model": evaluated, "collection": place}
    run = DialogueRun.objects.filter(dataset=dataset, name=name).first()
    if run is not None:
        check_unchanged(run, _state_settings(run, values), _state_settings(None, values))
    else:
        _refuse_taken_place(evaluated, dataset, place)
        try:
            with transaction.atomic():
                run = DialogueRun.objects.create(name=name, dataset=dataset, created_by=actor, **values)
        except IntegrityError as error:
            raise Conflict(
                N_("Somebody else begins the run {run} in this moment; try it once more."), run=name
            ) from error
    return _start_job(run, concurrency, timeout, actor, send)


@transaction.atomic
def resume_dialogues(*, run: DialogueRun, actor: Person | None = None, send: bool = True) -> DialogueRun:
    """Ask for the turns that are missing."""
    if actor is not None:
        refuse_sealed_dataset(actor, run.dataset)
    for url in (run.endpoint, run.agent_endpoint):
        find_key(url)
    return _start_job(run, run.concurrency, run.timeout, actor, send)


def _start_job(
    run: DialogueRun, concurrency: int, timeout: float, actor: Person | None, send: bool
) -> DialogueRun:
    return start_job(
        run,
        kind=DIALOGUES_JOB,
        subject="dialogues",
        concurrency=concurrency,
        timeout=timeout,
        actor=actor,
        send=send,
        agent=run.agent,
        agent_endpoint=run.agent_endpoint,
        agent_model=run.agent_model,
        agent_settings=run.agent_settings,
        rounds=run.rounds,
    )


def _check_side(side: DialogueSide, prefix: str) -> dict[str, Any]:
    url = check_endpoint(side.endpoint)
    return {
        f"{prefix}endpoint": url,
        f"{'agent_model' if prefix else 'served_model'}": check_model(side.served_model or side.name),
        f"{prefix}settings": check_settings(side.settings, key=find_key(url)),
    }


def _state_settings(run: DialogueRun | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """What may not change while a run goes on, of the run or of what is asked for now, as words and numbers."""
    stated = {name: values[name] if run is None else getattr(run, name) for name in values}
    return {name: str(value) if name in {"model", "collection"} else value for name, value in stated.items()}


def _refuse_taken_place(model: EvaluatedModel, dataset: Dataset, collection: Collection) -> None:
    """One model, dataset and collection are the responses of one run."""
    for kind in (DialogueRun, CollectionRun):
        other = kind._default_manager.filter(model=model, dataset=dataset, collection=collection).first()
        if other is not None:
            raise Conflict(
                N_("The run {run} fills this collection already; name another collection."), run=str(other)
            )


def execute_dialogues(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job; again after a stop it asks for the turns that are missing."""
    run = DialogueRun.objects.select_related("model", "dataset", "collection").get(pk=context.payload["run"])
    return _DialogueMaker(run, context).work()


class _DialogueMaker(EndpointJob[DialogueRun]):
    pending_model = PendingTurn
    rate_name = N_("turns a second")

    def __init__(self, run: DialogueRun, context: jobs.JobContext) -> None:
        super().__init__([run], context)
        self._script = build_script(run)
        self._dialogues: dict[int, OpenDialogue] = {}
        self._open_turns = 0

    def _ask(self) -> None:
        run = self._run
        self._open_turns = count_open_turns(run)
        endpoints = {
            AGENT: (run.agent_endpoint, run.agent_model, run.agent_settings),
            MODEL: (run.endpoint, run.served_model, run.settings),
        }
        send_conversations(
            self._list_openings(),
            {
                role: Endpoint(url, model, select_parameters(settings), run.timeout)
                for role, (url, model, settings) in endpoints.items()
            },
            concurrency=run.concurrency,
            sent=self._record_sent,
            done=self._record_outcomes,
        )

    def _list_openings(self) -> Iterator[DirectedQuestion]:
        for dialogue in list_open_dialogues(self._run):
            self._dialogues[dialogue.prompt] = dialogue
            yield self._build_question(dialogue)

    def _build_question(self, dialogue: OpenDialogue) -> DirectedQuestion:
        role = get_role(len(dialogue.texts))
        if role == AGENT:
            messages = self._script.build_agent_messages(dialogue.card, dialogue.language, dialogue.texts)
        else:
            messages = build_model_messages(self._run.settings, dialogue.texts)
        return DirectedQuestion(role, ChatQuestion(dialogue.prompt, messages))

    def _record_outcomes(self, batch: Sequence[Outcome], totals: RequestTotals) -> list[DirectedQuestion]:
        self._record_totals(totals)
        questions = []
        if batch:
            answers = [outcome for outcome in batch if isinstance(outcome, EndpointAnswer)]
            failures = [outcome for outcome in batch if isinstance(outcome, RequestFailure)]
            self._retry_write(partial(self._store, answers, failures))
            questions = self._advance(answers, failures)
            self._pending -= len(batch)
            self._answers += len(answers)
            self._failures += len(failures)
            self._replaced += sum(answer.replaced > 0 for answer in answers)
            self._recent.append((time.monotonic(), len(answers)))
        self._report()
        return questions

    def _advance(
        self, answers: Sequence[EndpointAnswer], failures: Sequence[RequestFailure]
    ) -> list[DirectedQuestion]:
        """The questions that follow these answers."""
        questions = []
        for answer in answers:
            dialogue = self._dialogues[answer.key]
            dialogue.texts.append(answer.text)
            dialogue.finish_reasons.append(answer.finish_reason)
            self._open_turns += 1
            if len(dialogue.texts) < self._script.turns:
                questions.append(self._build_question(dialogue))
            else:
                del self._dialogues[answer.key]
                self._stored += 1
                self._open_turns -= self._script.turns
        for failure in failures:
            del self._dialogues[failure.key]
        return questions

    def _store(self, answers: Sequence[EndpointAnswer], failures: Sequence[RequestFailure]) -> None:
        """Keep what came back, all of it or nothing."""
        prompts = [answer.key for answer in answers] + [failure.key for failure in failures]
        with self._hold_job():
            # Done again where the connection was lost at the very commit: then they are there.
            DialogueTurn.objects.bulk_create(
                [self._build_turn(answer) for answer in answers], ignore_conflicts=True
            )
            self._store_responses(
                [answer for answer in answers if self._count_turns(answer.key) + 1 == self._script.turns]
            )
            FailedTurn.objects.filter(run=self._run, prompt__in=prompts).delete()
            FailedTurn.objects.bulk_create(
                FailedTurn(
                    run=self._run,
                    prompt_id=failure.key,
                    place=self._count_turns(failure.key),
                    **build_failure(failure),
                )
                for failure in failures
            )
            self._delete_pending(prompts)

    def _store_responses(self, last_answers: Sequence[EndpointAnswer]) -> None:
        """The dialogues that end with these answers, and their faults."""
        run, faults, responses = self._run, {}, []
        for answer in last_answers:
            dialogue = self._dialogues[answer.key]
            turns = self._script.build_turns(dialogue.language, [*dialogue.texts, answer.text])
            is_cut = CUT in {*dialogue.finish_reasons, answer.finish_reason}
            faults[answer.key] = list_faults(turns, card=dialogue.card, is_cut=is_cut)
            responses.append(
                Response(
                    prompt_id=answer.key,
                    model_id=run.model_id,
                    collection_id=run.collection_id,
                    turns=turns,
                    sha256=response_sha256("", turns),
                )
            )
        stored = create_responses(run, responses)
        self._already += len(responses) - len(stored)
        DialogueFault.objects.bulk_create(
            DialogueFault(response=response, kind=kind)
            for response in stored
            for kind in faults[response.prompt_id]
        )

    def _count_turns(self, prompt: int) -> int:
        return len(self._dialogues[prompt].texts)

    def _build_turn(self, answer: EndpointAnswer) -> DialogueTurn:
        place = self._count_turns(answer.key)
        return DialogueTurn(
            run=self._run,
            prompt_id=answer.key,
            place=place,
            role=get_role(place),
            text=answer.text,
            **build_origin(answer),
        )

    def _compute_share(self) -> float:
        turns = self._script.turns
        return (self._stored * turns + self._open_turns) / max(1, self._prompts * turns)
