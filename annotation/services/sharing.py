"""Sharing a dataset, a gold release or a scorer with another study, and moving a dataset to one.

What is shared is read, and worked from, in the other study; it is changed in the study that owns it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet

from annotation.core.errors import N_, Conflict, Forbidden
from annotation.core.study_scope import forget_in_scope, limit_to_studies
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Dataset, GoldRelease, Guideline, Person, Shareable, Study
from annotation.selectors.studies.sharing import count_uses, count_what_rests, format_counts, list_needed
from annotation.services.audit import record


def refuse_borrowed(row: Model) -> None:
    """Forbidden for what another study owns: it is changed there."""
    if isinstance(row, Shareable) and row.is_borrowed:
        raise Forbidden(
            N_(
                "{name} is of the study {study}, which shares it: it can be read here, and is changed there alone."
            ),
            name=str(row),
            study=row.study.name,
        )


@contextmanager
def _change_shares(study: Study) -> Iterator[None]:
    """One transaction, in which nobody else changes what is shared with the study. What this work knows of it is read
    again within, and after: also where the transaction is rolled back.
    """
    try:
        with transaction.atomic():
            Study.objects.select_for_update(no_key=True).get(pk=study.pk)
            forget_in_scope()
            yield
    finally:
        forget_in_scope()


def share(*, row: Shareable, study: Study, actor: Person | None) -> list[Shareable]:
    """Share the row, and what nobody could read it without, with the study; what was not shared with it before.

    Conflict where the study has another row of this name. Other acts of the same study go one after the other.
    """
    refuse_borrowed(row)
    with _change_shares(study):
        added = []
        for part in [row, *list_needed(row)]:
            if part.study_id == study.pk:
                if part == row:
                    raise Conflict(
                        N_("{name} is of the study {study} already."), name=str(row), study=study.name
                    )
                continue
            if part.shared_with.filter(pk=study.pk).exists():
                continue
            _refuse_same_name(part, study)
            if isinstance(part, GoldRelease):
                _refuse_same_version(part, study)
            part.shared_with.add(study)
            forget_in_scope()
            added.append(part)
            record(
                actor=actor,
                verb=AnnotationVerb.SHARE,
                target=f"{part._meta.model_name}:{part}",
                study=part.study.name,
                to=study.name,
                sha256=getattr(part, "sha256", "") or getattr(part, "weights_sha256", ""),
            )
        if not added:
            raise Conflict(
                N_("{name} is shared with the study {study} already."), name=str(row), study=study.name
            )
        return added


def end_sharing(*, row: Shareable, study: Study, actor: Person | None) -> bool:
    """Whether it was shared. Conflict where something of the study rests on it."""
    refuse_borrowed(row)
    with _change_shares(study):
        if not row.shared_with.filter(pk=study.pk).exists():
            return False
        uses = count_uses(row, study)
        if uses:
            raise Conflict(
                N_("{what} of the study {study} rest on {name}, so it stays shared."),
                what=format_counts(uses),
                study=study.name,
                name=str(row),
            )
        row.shared_with.remove(study)
        record(
            actor=actor,
            verb=AnnotationVerb.END_SHARING,
            target=f"{row._meta.model_name}:{row}",
            study=row.study.name,
            to=study.name,
        )
        return True


def move_dataset(*, dataset: Dataset, study: Study, actor: Person | None) -> None:
    """Make the dataset, with its prompts and responses, one of another study. Conflict where anything rests on it, or
    where the other study has one of its name.
    """
    refuse_borrowed(dataset)
    with _change_shares(study):
        locked = Dataset._base_manager.select_for_update().select_related("study").get(pk=dataset.pk)
        if locked.study_id == study.pk:
            raise Conflict(N_("{name} is of the study {study} already."), name=locked.name, study=study.name)
        resting = count_what_rests(locked)
        if resting or locked.shared_with.exclude(pk=study.pk).exists():
            raise Conflict(
                N_("The dataset {name} cannot be moved: {what} rest on it. It can be shared."),
                name=locked.name,
                what=format_counts(resting or {Study: locked.shared_with.count()}),
            )
        locked.shared_with.clear()
        forget_in_scope()
        _refuse_same_name(locked, study)
        before = locked.study.name
        locked.study = study
        locked.save(update_fields=["study"])
        record(
            actor=actor,
            verb=AnnotationVerb.MOVE,
            target=f"dataset:{locked.name}",
            study=before,
            to=study.name,
        )


def _refuse_same_name(row: Shareable, study: Study) -> None:
    """Conflict where the study owns, or has been given, a row of this kind and name: no address would say which."""
    with limit_to_studies([study.pk]):
        known: QuerySet[Any] = type(row)._default_manager.all()
    if known.filter(name=str(row)).exclude(pk=row.pk).exists():
        raise Conflict(
            N_("The study {study} has something of the same kind and name: {name}."),
            study=study.name,
            name=str(row),
        )


def _refuse_same_version(release: GoldRelease, study: Study) -> None:
    """Conflict where the study has another guideline of the name and version by which somebody labelled."""
    guidelines = Guideline._base_manager.filter(batches__releases=release).distinct()
    for guideline in guidelines:
        with limit_to_studies([study.pk]):
            same = Guideline.objects.filter(name=guideline.name, version=guideline.version)
        if same.exclude(pk=guideline.pk).exists():
            raise Conflict(
                N_("The study {study} has something of the same kind and name: {name}."),
                study=study.name,
                name=str(guideline),
            )
