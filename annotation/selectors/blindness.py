"""Who may not see what yet. The one place that decides it.

Who annotates or adjudicates in a batch cannot open that batch's results until it closes, whatever else they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, QuerySet

from annotation.errors import N_, Forbidden
from annotation.models import Batch, Dataset, EvaluatedModel, Person, Response, Stratum


def sealed_batches(person: Person) -> QuerySet[Batch]:
    """The batches whose results this person may not open now. Whoever left a batch stays blind in it."""
    return Batch.objects.filter(memberships__person=person).exclude(state=Batch.State.CLOSED).distinct()


def refuse_sealed(person: Person, batches: Iterable[Batch] | QuerySet[Batch]) -> None:
    """Raise Forbidden if the results of any of ``batches`` are sealed for this person."""
    ids = {batch.pk for batch in batches}
    sealed = sealed_batches(person).filter(pk__in=ids).first()
    if sealed is not None:
        raise Forbidden(
            N_("You work in the batch {name}: its results open for you when it closes."), name=sealed.name
        )


def sealed_datasets(person: Person) -> QuerySet[Dataset]:
    """Datasets whose responses (and so the models' names) this person is judging blind now."""
    judged = Stratum.objects.filter(batch__in=sealed_batches(person)).order_by().values("dataset")
    return Dataset.objects.filter(pk__in=judged)


def unsealed_models(person: Person) -> QuerySet[EvaluatedModel]:
    """The models whose names this person may see: none with a response in a dataset that they judge blind."""
    sealed = list(sealed_datasets(person).values_list("pk", flat=True))
    theirs = Response.objects.filter(prompt__dataset__in=sealed, model=OuterRef("pk"))
    return EvaluatedModel.objects.exclude(Exists(theirs)) if sealed else EvaluatedModel.objects.all()
