"""Who may not see what yet, and who has seen what. The one place that decides it.

Who annotates or adjudicates in a batch cannot open that batch's results until it closes, whatever else they are. Who
opened them cannot become one of its annotators or adjudicators (docs/decisions/results-opened.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.errors import N_, Forbidden
from annotation.models import (
    Assignment,
    Batch,
    Dataset,
    EvaluatedModel,
    KnownItem,
    Person,
    Response,
    ResultOpening,
    Stratum,
)


def sealed_batches(person: Person) -> QuerySet[Batch]:
    """The batches whose results this person may not open now. Whoever left a batch stays blind in it, and whoever
    closed one in which they work or worked until another manager has confirmed that.
    """
    closed_alone = Q(closed_by=person, closing_confirmed_at=None)
    sealed = ~Q(state=Batch.State.CLOSED) | closed_alone
    return Batch.objects.filter(sealed, memberships__person=person).distinct()


def awaits_confirmation(batch: Batch) -> bool:
    """Whether the results of the batch are sealed for who closed it, because they work or worked in it."""
    if batch.closed_by_id is None or batch.closing_confirmed_at is not None:
        return False
    return batch.memberships.filter(person=batch.closed_by_id).exists()


def refuse_sealed(person: Person, batches: Iterable[Batch] | QuerySet[Batch]) -> None:
    """Raise Forbidden if the results of any of ``batches`` are sealed for this person. Else they open them now."""
    chosen = {batch.pk for batch in batches}
    check_sealed(person, chosen)
    record_openings(person, chosen)


def check_sealed(person: Person, batches: Iterable[int]) -> None:
    """As ``refuse_sealed``, of batches by their ids, for who only asks and opens nothing."""
    sealed = sealed_batches(person).filter(pk__in=list(batches)).first()
    if sealed is None:
        return
    if sealed.state == Batch.State.CLOSED:
        raise Forbidden(
            N_(
                "You work in the batch {name} and closed it: its results open for you when another manager confirms"
                " the closing."
            ),
            name=sealed.name,
        )
    raise Forbidden(
        N_("You work in the batch {name}: its results open for you when it closes."), name=sealed.name
    )


def record_openings(person: Person, batches: Iterable[int]) -> None:
    """Note that the person opens the results of these batches: the first time, and where there are any to read."""
    chosen = set(batches)
    recorded = ResultOpening.objects.filter(person=person, batch__in=chosen).values_list("batch", flat=True)
    new = chosen - set(recorded)
    if new:
        _record_first(person, _with_results(new))


def record_reader(person: Person, batch: Batch, *, is_new: bool = False) -> None:
    """As ``record_openings``, of who brings labels into the batch: they are in their file, whatever is here by now.

    Nobody else sees a batch that ``is_new``, so that nothing is locked for as long as it takes to fill it.
    """
    if has_opened(batch, person):
        return
    if is_new:
        _write(person, [batch.pk])
    else:
        _record_first(person, [batch.pk])


def _with_results(batches: Iterable[int]) -> list[int]:
    """Those in which somebody submitted something, or whose known items can be read."""
    submitted = Assignment.objects.filter(batch=OuterRef("pk"), submitted_at__isnull=False)
    known = KnownItem.objects.filter(batch=OuterRef("pk"))
    readable = Batch.objects.filter(Exists(submitted) | Exists(known), pk__in=list(batches))
    return list(readable.values_list("pk", flat=True))


@transaction.atomic
def _record_first(person: Person, batches: list[int]) -> None:
    """The person's row is locked, as whoever adds them to a batch does: of the two one comes first."""
    if not batches:
        return
    lock_people([person.pk])
    check_sealed(person, batches)
    _write(person, batches)


def _write(person: Person, batches: list[int]) -> None:
    now = timezone.now()
    ResultOpening.objects.bulk_create(
        [ResultOpening(person_id=person.pk, batch_id=batch, first_at=now) for batch in sorted(batches)],
        ignore_conflicts=True,
    )


def lock_people(people: Iterable[int]) -> None:
    """Until the transaction ends none of these people opens results for the first time, or becomes a member."""
    rows = Person.objects.select_for_update(no_key=True).filter(pk__in=list(people)).order_by("pk")
    list(rows.values_list("pk", flat=True))


def has_opened(batch: Batch, person: Person) -> bool:
    return ResultOpening.objects.filter(batch=batch, person=person).exists()


def openings_of(batch: Batch) -> QuerySet[ResultOpening]:
    """Who opened the batch's results and never judged in it, with the person, by name."""
    members = batch.memberships.values("person")
    openings = ResultOpening.objects.filter(batch=batch).exclude(person__in=members)
    return openings.select_related("person").order_by("person__username")


def sealed_datasets(person: Person) -> QuerySet[Dataset]:
    """Datasets whose responses (and so the models' names) this person is judging blind now."""
    judged = Stratum.objects.filter(batch__in=sealed_batches(person)).order_by().values("dataset")
    return Dataset.objects.filter(pk__in=judged)


def unsealed_models(person: Person) -> QuerySet[EvaluatedModel]:
    """The models whose names this person may see: none with a response in a dataset that they judge blind."""
    sealed = list(sealed_datasets(person).values_list("pk", flat=True))
    theirs = Response.objects.filter(prompt__dataset__in=sealed, model=OuterRef("pk"))
    return EvaluatedModel.objects.exclude(Exists(theirs)) if sealed else EvaluatedModel.objects.all()
