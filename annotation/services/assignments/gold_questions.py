"""Assigning gold questions: checks among the work, and the qualification before it. The membership is locked."""

from __future__ import annotations

from annotation.core.sampling import block_of
from annotation.core.sql import insert_object
from annotation.domain.gold_questions import pick_item
from annotation.models import GoldQuestionTask, Qualification, Task
from annotation.models.sql.assignments import FreeTask
from annotation.models.sql.counts import add_to_tally
from annotation.models.sql.gold_questions import KnownCandidate
from annotation.selectors.gold_questions import (
    derive_seed,
    has_check_in,
    list_qualification_items,
    list_unseen_checks,
)
from annotation.services.assignments.search import Search
from annotation.services.gold_questions.qualification import end_attempt_if_complete, get_or_start_attempt


def find_next_check(search: Search, *, live: int) -> FreeTask | None:
    """A check for the member's next place, where one is due and work waits as well; ``live`` items are in progress.

    Each block of the share holds one: at the place that was drawn, or after it where none could be given there. It is
    of the language and the dimension of that work, as far as there is such a one: else it would stand out where the
    work comes in the order of its prompts, dimension by dimension.
    """
    member, share = search.member, search.conditions.check_share
    if search.conditions.ended is None:
        return None
    number = int(search.conditions.ended) + live + 1  # a sum comes as a decimal
    seed = derive_seed(member.pk)
    block = block_of(number, share=share, seed=seed)
    if block is None or number < block.drawn or has_check_in(member, block):
        return None
    kind = search.find_next_kind()
    if kind is None:
        return None
    dimension, language = kind
    candidates = list_unseen_checks(member, without=search.tasks.ruled_out)
    candidates = [candidate for candidate in candidates if candidate.prompt != member.last_prompt]
    candidates = [candidate for candidate in candidates if candidate.language == language] or candidates
    candidates = [candidate for candidate in candidates if candidate.dimension == dimension] or candidates
    return (
        _make_task(search, pick_item(candidates, seed=seed, turn=number), Task.Kind.CHECK, number)
        if candidates
        else None
    )


def find_next_question(search: Search) -> FreeTask | None:
    """The next item of the member's round; None where nothing more of it can be given now, and where it is over."""
    member = search.member
    current = get_or_start_attempt(member)
    if current.state != Qualification.State.RUNNING:
        return None
    items = list_qualification_items(member, current.attempt, without=search.excluded_strata)
    if all(item.ended for item in items):
        end_attempt_if_complete(member.batch, member.person)
        return None
    free = [item.candidate for item in items if not item.is_assigned]
    free = [item for item in free if item.stratum not in search.resting]
    free = [item for item in free if item.prompt != member.last_prompt] or free
    if not free:
        return None
    turn = sum(item.is_assigned for item in items)
    candidate = pick_item(free, seed=derive_seed(member.pk), turn=f"{current.attempt}:{turn}")
    return _make_task(search, candidate, Task.Kind.QUALIFICATION, turn + 1, attempt=current.attempt)


def _make_task(
    search: Search, item: KnownCandidate, kind: Task.Kind, position: int, *, attempt: int = 1
) -> FreeTask:
    """A task of its own for this member; what belongs to it is written with the claim."""
    member = search.member
    task = Task.objects.create(
        batch_id=member.batch_id,
        response_id=item.response,
        prompt_id=item.prompt,
        stratum_id=item.stratum,
        kind=kind,
        overlap=1,
        position=position,
        rank=position,
    )
    known = GoldQuestionTask(task=task, item_id=item.item, person_id=member.person_id, attempt=attempt)
    search.statements += [insert_object(known), add_to_tally(member.pk, item.stratum, open=1)]
    return FreeTask(
        id=task.pk,
        stratum=item.stratum,
        prompt=item.prompt,
        panel=None,
        overlap=1,
        slots_taken=0,
        rank=position,
    )
