"""With which studies a dataset, a release or a scorer is shared, and what rests on it there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import ForeignObjectRel, Model, QuerySet
from django.utils.translation import gettext

from annotation.core.study_scope import limit_to_studies
from annotation.domain.permissions import Act
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    GoldRelease,
    Person,
    Prompt,
    Response,
    Shareable,
    Stratum,
    Study,
)
from annotation.models.studies import StudyManager
from annotation.selectors.access import list_studies_to


@dataclass(frozen=True)
class Share:
    """``since`` and ``by`` as the audit trail has them."""

    study: Study
    since: datetime | None
    by: Person | None
    uses: str
    """What rests on it there, in the reader's language; empty where nothing does."""


def list_needed(row: Shareable) -> list[Shareable]:
    """What is shared together with the row, because nobody could read it without."""
    needed = list(row.list_needed())
    return [*needed, *(further for part in needed for further in list_needed(part))]


def list_target_studies(row: Shareable, person: Person, act: Act) -> QuerySet[Study]:
    """The other studies in which a role of the person permits the act."""
    with limit_to_studies(None):
        permitted = list_studies_to(person, act)
    studies = Study.objects.filter(archived_at=None).exclude(pk=row.study_id)
    return studies if permitted is None else studies.filter(pk__in=permitted)


def list_shares(row: Shareable, person: Person, act: Act) -> list[Share]:
    """Those with studies in which a role of the person permits the act, by name."""
    target = f"{row._meta.model_name}:{row}"
    events = AuditEvent.objects.filter(target=target, verb="share").select_related("actor")
    last = {event.data.get("to"): event for event in events.order_by("pk")}
    permitted = list_target_studies(row, person, act)
    shares = []
    for study in row.shared_with.filter(pk__in=permitted.values("pk")).order_by("name"):
        event = last.get(study.name)
        shares.append(
            Share(
                study,
                None if event is None else event.at,
                None if event is None else event.actor,
                format_counts(count_uses(row, study)),
            )
        )
    return shares


def count_uses(row: Shareable, study: Study) -> dict[type[Model], int]:
    """What the study has that rests on the shared row, by its kind."""
    uses: Counter[type[Model]] = Counter()
    with limit_to_studies([study.pk]):
        for model, path in _list_references(row):
            # The manager says what is of the study: a row without one stands below another row that rests on this.
            if isinstance(model._default_manager, StudyManager):
                uses[model] += model._default_manager.filter(**{path: row.pk}).count()
        if isinstance(row, Dataset):
            uses[Batch] += Batch.objects.filter(strata__dataset=row).distinct().count()
            uses[GoldRelease] += GoldRelease.objects.filter(batches__strata__dataset=row).distinct().count()
    return dict(+uses)


def count_what_rests(dataset: Dataset) -> dict[type[Model], int]:
    """What rests on a dataset, its prompts and its responses, by its kind: nothing where it can be moved."""
    counts: Counter[type[Model]] = Counter()
    for model, path in _list_references(dataset):
        if model is Stratum:
            batches = Batch._base_manager.filter(strata__dataset=dataset)
            counts[Batch] += batches.distinct().count()
            continue
        counts[model] += model._base_manager.filter(**{path: dataset.pk}).count()
    return dict(+counts)


def _list_references(row: Shareable) -> Iterator[tuple[type[Model], str]]:
    """The models with a foreign key to the row, or to a dataset's prompts and responses, and the path to it."""
    targets = ((Dataset, ""), (Prompt, "__dataset"), (Response, "__prompt__dataset"))
    for target, path in targets if isinstance(row, Dataset) else ((type(row), ""),):
        for field in target._meta.get_fields(include_hidden=True):
            model = field.related_model
            if not isinstance(field, ForeignObjectRel) or not isinstance(model, type):
                continue
            if field.many_to_many or model in (Prompt, Response) or model._meta.auto_created:
                continue
            yield model, f"{field.field.name}{path}"


def format_counts(counts: Mapping[type[Model], int]) -> str:
    """``12 tasks, 1 benchmark run`` in the reader's language."""
    return gettext(", ").join(
        f"{number} {kind._meta.verbose_name if number == 1 else kind._meta.verbose_name_plural}"
        for kind, number in counts.items()
    )
