"""Runs of dialogues: how far they are, their dialogues turn by turn, and what is wrong with some of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Exists, OuterRef, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.models import DialogueFault, Person, Prompt, Response
from benchmark.domain.dialogues import Script
from benchmark.models import DialogueRun, DialogueTurn, FailedTurn
from benchmark.selectors.endpoint_runs import (
    CHUNK,
    EndpointRunRow,
    RunProgress,
    build_run_rows,
    get_run,
    leave_unanswered,
    list_collection_responses,
    list_unanswered,
    measure_run,
)

DIALOGUES_JOB = "make_dialogues"
COMPLETE, OPEN, FAILED, FAULTY = "complete", "open", "failed", "faulty"
STATES = (COMPLETE, OPEN, FAILED, FAULTY)


def build_script(run: DialogueRun) -> Script:
    return Script(run.templates, run.openings, run.rounds)


def get_dialogue_run(person: Person, number: int | None) -> DialogueRun:
    return get_run(DialogueRun, person, number, N_("There is no such run of dialogues."))


def build_dialogue_run_rows(runs: Sequence[DialogueRun]) -> list[EndpointRunRow[DialogueRun]]:
    """With the number of dialogues that have a fault."""
    return build_run_rows(runs, Exists(DialogueFault.objects.filter(response=OuterRef("pk"))))


@dataclass
class OpenDialogue:
    """A dialogue that is not whole yet; ``texts`` and ``finish_reasons`` are those of its turns so far."""

    prompt: int
    card: str
    language: str
    texts: list[str] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)


def list_open_dialogues(run: DialogueRun) -> Iterator[OpenDialogue]:
    """The cards without a response, with the turns that are stored; a chunk at a time: imports may be faster.

    Those that were begun come first.
    """
    turns_so_far = DialogueTurn.objects.filter(run=run, prompt=OuterRef("pk"))
    waiting = list_unanswered(run).annotate(has_turns=Exists(turns_so_far)).order_by("-has_turns", "pk")
    ids = list(waiting.values_list("pk", flat=True))
    for start in range(0, len(ids), CHUNK):
        chunk = waiting.filter(pk__in=ids[start : start + CHUNK])
        turns = defaultdict(list)
        for turn in DialogueTurn.objects.filter(run=run, prompt__in=chunk.values("pk")).order_by("place"):
            turns[turn.prompt_id].append(turn)
        for pk, text, language in chunk.values_list("pk", "text", "language"):
            own = turns[pk]
            yield OpenDialogue(
                pk, text, language, [turn.text for turn in own], [turn.finish_reason for turn in own]
            )


def count_open_turns(run: DialogueRun) -> int:
    """The turns that are stored of dialogues without a response."""
    return DialogueTurn.objects.filter(run=run, prompt__in=list_unanswered(run).order_by()).count()


@dataclass(frozen=True)
class DialogueProgress(RunProgress):
    """``answers`` are turns; ``open`` dialogues were begun and are not whole."""

    open: int


def compute_dialogue_progress(run: DialogueRun) -> DialogueProgress:
    turns = DialogueTurn.objects.filter(run=run)
    open_turns = turns.filter(prompt__in=list_unanswered(run).order_by())
    return DialogueProgress(
        made=_list_made(run).count(),
        open=open_turns.values("prompt").distinct().count(),
        **measure_run(run, turns, list_failures(run), run.pending.all()),
    )


def _list_made(run: DialogueRun) -> QuerySet[Response]:
    """The responses that the run made; one that was imported beside it has not all of its turns."""
    last = DialogueTurn.objects.filter(run=run, prompt=OuterRef("prompt"), place=2 * run.rounds - 1)
    return list_collection_responses(run).filter(Exists(last))


def count_faults(run: DialogueRun) -> dict[str, int]:
    """By kind, how many dialogues have it; kinds that none has included."""
    counts = dict(
        DialogueFault.objects.filter(response__in=list_collection_responses(run))
        .order_by()
        .values_list("kind")
        .annotate(n=Count("pk"))
    )
    return {kind: counts.get(kind, 0) for kind in DialogueFault.Kind.values}


def list_failures(run: DialogueRun) -> QuerySet[FailedTurn]:
    return leave_unanswered(run, FailedTurn.objects.filter(run=run))


@dataclass(frozen=True)
class DialogueRow:
    """A dialogue of a run; ``turns`` are those that are stored, ``faults`` their kinds."""

    prompt: Prompt
    turns: int
    is_complete: bool
    faults: Sequence[str]
    failure: FailedTurn | None


def list_dialogue_prompts(run: DialogueRun, state: str = "", fault: str = "") -> QuerySet[Prompt]:
    """The cards whose dialogue was begun or is there: in this state, or with this fault."""
    responses = list_collection_responses(run).filter(prompt=OuterRef("pk"))
    turns = DialogueTurn.objects.filter(run=run, prompt=OuterRef("pk"))
    failures = FailedTurn.objects.filter(run=run, prompt=OuterRef("pk"))
    faults = DialogueFault.objects.filter(
        response__prompt=OuterRef("pk"),
        response__model=run.model_id,
        response__collection=run.collection_id,
        **({"kind": fault} if fault else {}),
    )
    conditions = {
        COMPLETE: Exists(responses),
        OPEN: Exists(turns) & ~Exists(responses),
        FAILED: Exists(failures) & ~Exists(responses),
        FAULTY: Exists(faults),
    }
    condition = (
        Exists(faults)
        if fault
        else conditions.get(state, Exists(responses) | Exists(turns) | Exists(failures))
    )
    return Prompt.objects.filter(condition, dataset=run.dataset_id).order_by("pk")


def build_dialogue_rows(run: DialogueRun, prompts: Sequence[Prompt]) -> list[DialogueRow]:
    ids = [prompt.pk for prompt in prompts]
    turns = dict(
        DialogueTurn.objects.filter(run=run, prompt__in=ids)
        .order_by()
        .values_list("prompt")
        .annotate(n=Count("pk"))
    )
    faults = defaultdict(list)
    responses = list_collection_responses(run).filter(prompt__in=ids)
    for prompt, kind in (
        DialogueFault.objects.filter(response__in=responses)
        .order_by("pk")
        .values_list("response__prompt", "kind")
    ):
        faults[prompt].append(kind)
    complete = set(responses.values_list("prompt", flat=True))
    failures = {failure.prompt_id: failure for failure in run.failures.filter(prompt__in=ids)}
    return [
        DialogueRow(
            prompt,
            turns.get(prompt.pk, 0),
            prompt.pk in complete,
            faults[prompt.pk],
            None if prompt.pk in complete else failures.get(prompt.pk),
        )
        for prompt in prompts
    ]


@dataclass(frozen=True)
class Dialogue:
    """One dialogue as it stands: the greeting and what was said since, with how each turn came about.

    ``imported_turns`` are those of a response that this run did not make.
    """

    prompt: Prompt
    opening: str
    turns: Sequence[DialogueTurn]
    imported_turns: Sequence[dict[str, str]]
    is_complete: bool
    faults: Sequence[str]
    failure: FailedTurn | None
    previous: int | None
    next: int | None


def get_dialogue(run: DialogueRun, number: int | None) -> Dialogue:
    """That on the card of this number; NotFound where the dataset has no such card."""
    prompt = Prompt.objects.filter(dataset=run.dataset_id, pk=number).first() if number is not None else None
    if prompt is None:
        raise NotFound(N_("There is no such dialogue."))
    [row] = build_dialogue_rows(run, [prompt])
    turns = list(DialogueTurn.objects.filter(run=run, prompt=prompt).order_by("place"))
    response = list_collection_responses(run).filter(prompt=prompt).first()
    neighbours = list_dialogue_prompts(run)
    return Dialogue(
        prompt=prompt,
        opening=build_script(run).get_opening(prompt.language),
        turns=turns,
        imported_turns=response.turns if response is not None and len(turns) < 2 * run.rounds else (),
        is_complete=row.is_complete,
        faults=row.faults,
        failure=row.failure,
        previous=neighbours.filter(pk__lt=prompt.pk).order_by("-pk").values_list("pk", flat=True).first(),
        next=neighbours.filter(pk__gt=prompt.pk).order_by("pk").values_list("pk", flat=True).first(),
    )


def count_finish_reasons(run: DialogueRun) -> list[tuple[str, str, int]]:
    """(role, why its turns ended, how many): the commonest first; "" where the endpoint did not say."""
    turns = DialogueTurn.objects.filter(run=run).order_by().values_list("role", "finish_reason")
    return sorted(turns.annotate(n=Count("pk")), key=lambda row: (row[0], -row[2], row[1]))


def count_served_models(run: DialogueRun) -> list[tuple[str, str, str, int]]:
    """(role, model that answered, its fingerprint, how many turns): two of a role, and its endpoint changed."""
    turns = DialogueTurn.objects.filter(run=run).order_by().values_list("role", "served_model", "fingerprint")
    return sorted(turns.annotate(n=Count("pk")), key=lambda row: (row[0], -row[3], row[1:3]))
