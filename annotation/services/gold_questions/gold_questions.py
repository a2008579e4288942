"""The gold questions of a batch: a manager adds them, takes them out and puts them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.domain.guidelines import Label
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Batch, GoldQuestion, Person, Response, Stratum, Task
from annotation.services.audit import record

MAX_EXPLANATION_LENGTH = 5000
MAX_ITEMS = 10_000
STRATUM_FIELDS = ("prompt__dataset", "prompt__dimension", "prompt__language", "model")


@dataclass(frozen=True)
class GoldAnswer:
    """A response with the right labels by criterion, and why they are right."""

    response: int
    labels: Mapping[str, Any]
    explanation: str = ""


@transaction.atomic
def add_questions(
    *, batch: Batch, kind: str, items: Sequence[GoldAnswer], actor: Person | None = None
) -> list[GoldQuestion]:
    """Put these items in, all or none of them: each is refused where it is work in the batch, or known there already.

    The strata they are of are made with them, so that what rules people out rules them out here as well.
    """
    locked = _lock_batch(batch)
    if kind not in GoldQuestion.Kind.values:
        raise AssayError(
            N_("There is no kind {kind}; choose one of: {known}."),
            kind=kind,
            known=", ".join(GoldQuestion.Kind.values),
        )
    if not items:
        raise AssayError(N_("There is no item to add."))
    responses = Response.objects.select_related("prompt").in_bulk([item.response for item in items])
    for item in items:
        refuse_unfit(locked, responses[item.response], item)
    _refuse_duplicates(locked, items, responses)
    _make_strata(locked, kind, [item.response for item in items])
    last = GoldQuestion.objects.filter(batch=batch).aggregate(n=Max("position"))["n"]
    start = 0 if last is None else last + 1
    made = GoldQuestion.objects.bulk_create(
        GoldQuestion(
            batch=batch,
            kind=kind,
            response_id=item.response,
            labels=_check_labels(locked, responses[item.response], item),
            explanation=item.explanation,
            position=position,
            created_by=actor,
        )
        for position, item in enumerate(items, start=start)
    )
    record(
        actor=actor,
        verb=AnnotationVerb.ADD_GOLD_QUESTIONS,
        target=f"batch:{batch.name}",
        kind=kind,
        n=len(made),
    )
    return made


@transaction.atomic
def set_question_active(
    *, batch: Batch, item: int, active: bool, actor: Person | None = None
) -> GoldQuestion:
    """Give the item to nobody any more, or again. While it is out its answers are not counted; they stay stored."""
    _lock_batch(batch)
    question = GoldQuestion.objects.filter(batch=batch, pk=item).first()
    if question is None:
        raise NotFound(N_("There is no such gold question in the batch {name}."), name=batch.name)
    if question.active != active:
        question.active = active
        question.save(update_fields=["active"])
        verb = AnnotationVerb.PUT_BACK_GOLD_QUESTION if active else AnnotationVerb.TAKE_OUT_GOLD_QUESTION
        record(actor=actor, verb=verb, target=f"batch:{batch.name}", item=question.pk)
    return question


@dataclass(frozen=True)
class BatchScope:
    """The dimensions and the languages of a batch's work."""

    dimensions: frozenset[str]
    languages: frozenset[str]

    @classmethod
    def from_batch(cls, batch: Batch) -> BatchScope:
        strata = Stratum.objects.filter(batch=batch, kind=Task.Kind.WORK).order_by()
        kinds = list(strata.values_list("dimension", "language").distinct())
        dimensions, languages = ([kind[place] for kind in kinds] for place in (0, 1))
        return cls(frozenset(dimensions), frozenset(languages))

    def is_foreign(self, language: str) -> bool:
        """Whether an item would stand out by its language: never where one of the two is not known."""
        if not language or not self.languages or "" in self.languages:
            return False
        return _main_language(language) not in map(_main_language, self.languages)


def _main_language(tag: str) -> str:
    """Of a language tag: zh of zh-Hans."""
    return tag.partition("-")[0].lower()


def refuse_unfit(batch: Batch, response: Response, answer: GoldAnswer) -> None:
    """Raise where the labels are not what the guideline asks of this response, or it would stand out in the batch."""
    dimension, language, worked = (
        response.prompt.dimension,
        response.prompt.language,
        BatchScope.from_batch(batch),
    )
    dimensions = worked.dimensions
    if worked.is_foreign(language):
        raise AssayError(
            N_(
                "No work of the batch {name} is in {language}, so the item would stand out; there are: {known}."
            ),
            language=language,
            name=batch.name,
            known=", ".join(sorted(worked.languages)),
        )
    if dimensions and dimension not in dimensions:
        raise AssayError(
            N_(
                "{dimension} is no dimension of the batch {name}, so the item would stand out; there are: {known}."
            ),
            dimension=dimension or '""',
            name=batch.name,
            known=", ".join(sorted(dimensions)),
        )
    if len(answer.explanation) > MAX_EXPLANATION_LENGTH:
        raise AssayError(N_("The explanation is longer than {most} characters."), most=MAX_EXPLANATION_LENGTH)
    _check_labels(batch, response, answer)


def _check_labels(batch: Batch, response: Response, answer: GoldAnswer) -> dict[str, Label]:
    prompt, document = response.prompt, batch.guideline.document
    return document.check_labels(prompt.dimension, answer.labels, subcomponent=prompt.subcomponent)


def _lock_batch(batch: Batch) -> Batch:
    locked = (
        Batch.objects.select_for_update(no_key=True, of=("self",))
        .select_related("guideline")
        .get(pk=batch.pk)
    )
    if locked.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed."), name=batch.name)
    return locked


def _refuse_duplicates(batch: Batch, items: Sequence[GoldAnswer], responses: Mapping[int, Response]) -> None:
    ids = [item.response for item in items]
    twice = next((pk for pk in ids if ids.count(pk) > 1), None) if len(set(ids)) < len(ids) else None
    work = Task.objects.filter(batch=batch, kind=Task.Kind.WORK, response__in=ids)
    known = GoldQuestion.objects.filter(batch=batch, response__in=ids)
    for duplicate, words in (
        (twice, N_("The response to the prompt {prompt} is there twice.")),
        (
            work.values_list("response", flat=True).first(),
            N_(
                "The response to the prompt {prompt} is work in the batch {name}, so it cannot be a "
                "gold question there."
            ),
        ),
        (
            known.values_list("response", flat=True).first(),
            N_("The response to the prompt {prompt} is a gold question of the batch {name} already."),
        ),
    ):
        if duplicate is not None:
            raise Conflict(words, prompt=responses[duplicate].prompt.key, name=batch.name)


def _make_strata(batch: Batch, kind: str, responses: Iterable[int]) -> None:
    of = Response.objects.filter(pk__in=list(responses)).order_by().values_list(*STRATUM_FIELDS).distinct()
    for dataset, dimension, language, model in of:
        Stratum.objects.get_or_create(
            batch=batch, kind=kind, dataset_id=dataset, dimension=dimension, language=language, model_id=model
        )
