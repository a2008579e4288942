"""Keeping a guideline's regression cases: adding, removing, and taking in a file of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, Forbidden, InputError
from annotation.core.study_scope import choose_study_id
from annotation.domain.formats import generic
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.rows import FileRow, Source, json_rows
from annotation.domain.guidelines import Criterion, Label
from annotation.models import Guideline, Person, Response
from annotation.selectors.access import sealed_datasets
from annotation.services.audit import record
from annotation.services.gold_questions.sources import get_response
from scoring.domain.verbs import ScoringVerb
from scoring.models import RegressionCase
from scoring.selectors.regression_cases import harmless_levels
from scoring.selectors.scorers import get_latest_guideline

Value = int | float
MAX_ROWS = 10_000
MAX_REASON_CHARACTERS = 2000
FIELDS = frozenset(
    {"dataset", "prompt_id", "prompt", "model", "collection", "criterion", "refused", "reason"}
)


@transaction.atomic
def add_must_fail(
    *,
    guideline_name: str,
    response: Response,
    criterion: str = "",
    refused: Sequence[Label] = (),
    reason: str = "",
    actor: Person | None = None,
) -> list[RegressionCase]:
    """The response into the set: for one criterion, or for all that are asked of its prompt.

    ``refused`` are the values that it may not be given; left out, those that the guideline's headline rate counts.
    What is there already with the same values is left as it is; with other values it is refused (Conflict).
    """
    guideline = get_latest_guideline(guideline_name)
    Guideline.objects.select_for_update().get(pk=guideline.pk)  # no promotion between its check and its row
    if actor is not None and sealed_datasets(actor).filter(pk=response.prompt.dataset_id).exists():
        raise Forbidden(
            N_("You judge responses of {name} blind now: this opens for you when your batch closes."),
            name=response.prompt.dataset.name,
        )
    if len(reason) > MAX_REASON_CHARACTERS:
        raise AssayError(N_("The reason is longer than {most} characters."), most=MAX_REASON_CHARACTERS)
    criterion_values = [
        (asked_criterion, _get_refused_values(guideline, response, asked_criterion, refused))
        for asked_criterion in _get_criteria(guideline, response, criterion)
    ]
    added = [
        item
        for asked_criterion, values in criterion_values
        if (
            item := _create_item(
                study_id=choose_study_id(response.prompt.dataset.study_id),
                guideline_name=guideline.name,
                response=response,
                criterion=asked_criterion.name,
                refused=values,
                reason=reason,
                created_by=actor,
            )
        )
        is not None
    ]
    for item in added:
        record(
            actor=actor,
            verb=ScoringVerb.ADD_REGRESSION_CASE,
            target=f"guideline:{guideline.name}",
            item=item.pk,
            response=response.pk,
            criterion=item.criterion,
            refused=item.refused,
        )
    return added


def _get_criteria(guideline: Guideline, response: Response, criterion: str) -> list[Criterion]:
    prompt = response.prompt
    asked_criteria = guideline.document.countable_at(prompt.dimension or None, prompt.subcomponent)
    matching = [
        asked_criterion for asked_criterion in asked_criteria if criterion in {"", asked_criterion.name}
    ]
    if not matching:
        raise AssayError(
            N_('"{criterion}" is not asked of this prompt; asked: {known}.'),
            criterion=criterion or "-",
            known=", ".join(asked_criterion.name for asked_criterion in asked_criteria) or "-",
        )
    return matching


def _get_refused_values(
    guideline: Guideline, response: Response, criterion: Criterion, refused: Sequence[Label]
) -> list[Value]:
    dimension = response.prompt.dimension or None
    values = [criterion.check_level(value) for value in refused] or list(
        harmless_levels(guideline.document, dimension, criterion.name)
    )
    if not values:
        raise AssayError(
            N_("No rate of {guideline} counts levels of {criterion} here: say which values are refused."),
            guideline=guideline.name,
            criterion=criterion.name,
        )
    if set(values) >= set(criterion.values):
        raise AssayError(
            N_("Every value of {criterion} would be refused: leave out at least one."),
            criterion=criterion.name,
        )
    return sorted(set(values))


def _create_item(**fields: Any) -> RegressionCase | None:
    """The new item, or None where it is there already."""
    try:
        with transaction.atomic():
            return RegressionCase.objects.create(**fields)
    except IntegrityError:
        identity = {name: fields[name] for name in ("study_id", "guideline_name", "response", "criterion")}
        existing = RegressionCase.objects.get(**identity, removed_at=None)
        if existing.refused == fields["refused"]:
            return None
        raise Conflict(
            N_(
                "This response is a regression case with other refused values already: remove case "
                "{item} first."
            ),
            item=existing.pk,
        ) from None


@transaction.atomic
def remove_must_fail(*, item: RegressionCase, actor: Person | None = None) -> None:
    """Out of the set; the row stays, with when it was. Removing twice changes nothing."""
    if RegressionCase.objects.filter(pk=item.pk, removed_at=None).update(removed_at=timezone.now()):
        record(
            actor=actor,
            verb=ScoringVerb.REMOVE_REGRESSION_CASE,
            target=f"guideline:{item.guideline_name}",
            item=item.pk,
            response=item.response_id,
            criterion=item.criterion,
        )


@transaction.atomic
def import_must_fail(
    *, guideline_name: str, path: str | Path, name: str | None = None, actor: Person | None = None
) -> list[RegressionCase]:
    """The items of a JSON-lines or CSV file, all or none of them: dataset, prompt_id and model name the response.

    Further fields: collection, criterion, refused (values; in CSV with ``;`` between them), reason. The first thing
    that is wrong is raised as an InputError with its line; ``name`` is what it calls the file. Returns what is new.
    """
    get_latest_guideline(guideline_name)
    source = Source(path, name)
    is_csv = source.name.lower().endswith(".csv")
    rows = csv_rows(source, required=[("prompt_id", "prompt"), ("model",)]) if is_csv else json_rows(source)
    added: list[RegressionCase] = []
    number = 0
    for number, row in enumerate(rows, 1):
        if isinstance(row, InputError):
            raise row
        if number > MAX_ROWS:
            raise row.error(N_("there are more than {most} items; add them in parts."), most=MAX_ROWS)
        added += _add_row(guideline_name, row, actor)
    if not number:
        raise InputError(N_("there are no rows in this file."), path=source.name)
    return added


def _add_row(guideline_name: str, row: FileRow, actor: Person | None) -> list[RegressionCase]:
    unknown = next((field for field in row.fields if field not in FIELDS), None)
    if unknown is not None:
        raise row.error(
            N_("there is no such field here; known are: {known}."),
            field=unknown,
            known=", ".join(sorted(FIELDS)),
        )
    response = get_response(row)
    try:
        return add_must_fail(
            guideline_name=guideline_name,
            response=response,
            criterion=row.optional("criterion"),
            refused=_read_refused(row),
            reason=row.optional("reason", longest=MAX_REASON_CHARACTERS),
            actor=actor,
        )
    except InputError:
        raise
    except AssayError as error:
        raise row.error(error.template, **error.params) from error


def _read_refused(row: FileRow) -> list[Label]:
    """A number, a list of numbers, or in CSV numbers with ``;`` between them."""
    if not row.has("refused"):
        return []
    field_value = row.fields["refused"]
    parts = field_value if isinstance(field_value, list) else str(field_value).split(";")
    return [generic.read_value(row, "refused", part) for part in parts]
