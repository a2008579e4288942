"""Keeping a guideline's must-fail set: adding, removing, and taking in a file of items."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, Forbidden, InputError
from annotation.domain.formats import generic
from annotation.domain.formats.rows import Row, Source, csv_rows, json_rows
from annotation.domain.guidelines import Criterion
from annotation.models import Guideline, Person, Response
from annotation.selectors.access import sealed_datasets
from annotation.services.audit import record
from annotation.services.gold_questions.sources import response_of
from scoring.models import RegressionCase
from scoring.selectors.regression_cases import harmless_levels
from scoring.selectors.scorers import get_latest_guideline

Value = int | float
MOST_ROWS = 10_000
LONGEST_REASON = 2000
FIELDS = frozenset(
    {"dataset", "prompt_id", "prompt", "model", "collection", "criterion", "refused", "reason"}
)


@transaction.atomic
def add_must_fail(
    *,
    guideline_name: str,
    response: Response,
    criterion: str = "",
    refused: Sequence[Value] = (),
    reason: str = "",
    actor: Person | None = None,
) -> list[RegressionCase]:
    """The response into the set: for one criterion, or for all that are asked of its prompt.

    ``refused`` are the values that it may not be given; left out, those that the guideline's headline rate counts.
    What is there already with the same values is left as it is; with other values it is refused (Conflict).
    """
    guideline = get_latest_guideline(guideline_name)
    if actor is not None and sealed_datasets(actor).filter(pk=response.prompt.dataset_id).exists():
        raise Forbidden(
            N_("You judge responses of {name} blind now: this opens for you when your batch closes."),
            name=response.prompt.dataset.name,
        )
    if len(reason) > LONGEST_REASON:
        raise AssayError(N_("The reason is longer than {most} characters."), most=LONGEST_REASON)
    wanted = [
        (one, _values(guideline, response, one, refused)) for one in _asked(guideline, response, criterion)
    ]
    made = [
        item
        for one, values in wanted
        if (
            item := _add(
                guideline_name=guideline.name,
                response=response,
                criterion=one.name,
                refused=values,
                reason=reason,
                created_by=actor,
            )
        )
        is not None
    ]
    for item in made:
        record(
            actor=actor,
            verb="add_must_fail",
            target=f"guideline:{guideline.name}",
            item=item.pk,
            response=response.pk,
            criterion=item.criterion,
            refused=item.refused,
        )
    return made


def _asked(guideline: Guideline, response: Response, criterion: str) -> list[Criterion]:
    asked = guideline.document.criteria_for(response.prompt.dimension or None)
    found = [one for one in asked if criterion in {"", one.name}]
    if not found:
        raise AssayError(
            N_('"{criterion}" is not asked of this prompt; asked: {known}.'),
            criterion=criterion or "-",
            known=", ".join(one.name for one in asked) or "-",
        )
    return found


def _values(
    guideline: Guideline, response: Response, criterion: Criterion, refused: Sequence[Value]
) -> list[Value]:
    dimension = response.prompt.dimension or None
    values = [criterion.check(value) for value in refused] or list(
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


def _add(**wanted: Any) -> RegressionCase | None:
    """The new item, or None where it is there already."""
    try:
        with transaction.atomic():
            return RegressionCase.objects.create(**wanted)
    except IntegrityError:
        same = {name: wanted[name] for name in ("guideline_name", "response", "criterion")}
        there = RegressionCase.objects.get(**same, removed_at=None)
        if there.refused == wanted["refused"]:
            return None
        raise Conflict(
            N_("This response is in the must-fail set with other refused values: remove item {item} first."),
            item=there.pk,
        ) from None


@transaction.atomic
def remove_must_fail(*, item: RegressionCase, actor: Person | None = None) -> None:
    """Out of the set; the row stays, with when it was. Removing twice changes nothing."""
    if RegressionCase.objects.filter(pk=item.pk, removed_at=None).update(removed_at=timezone.now()):
        record(
            actor=actor,
            verb="remove_must_fail",
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
    made: list[RegressionCase] = []
    number = 0
    for number, row in enumerate(rows, 1):
        if isinstance(row, InputError):
            raise row
        if number > MOST_ROWS:
            raise row.error(N_("there are more than {most} items; add them in parts."), most=MOST_ROWS)
        made += _from_row(guideline_name, row, actor)
    if not number:
        raise InputError(N_("there are no rows in this file."), path=source.name)
    return made


def _from_row(guideline_name: str, row: Row, actor: Person | None) -> list[RegressionCase]:
    unknown = next((field for field in row.fields if field not in FIELDS), None)
    if unknown is not None:
        raise row.error(
            N_("there is no such field here; known are: {known}."),
            field=unknown,
            known=", ".join(sorted(FIELDS)),
        )
    response = response_of(row)
    try:
        return add_must_fail(
            guideline_name=guideline_name,
            response=response,
            criterion=row.optional("criterion"),
            refused=_refused(row),
            reason=row.optional("reason", longest=LONGEST_REASON),
            actor=actor,
        )
    except InputError:
        raise
    except AssayError as error:
        raise row.error(error.template, **error.params) from error


def _refused(row: Row) -> list[float]:
    """A number, a list of numbers, or in CSV numbers with ``;`` between them."""
    if not row.has("refused"):
        return []
    given = row.fields["refused"]
    parts = given if isinstance(given, list) else str(given).split(";")
    return [generic.value(row, "refused", part) for part in parts]
