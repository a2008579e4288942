"""Published tables: what others measured by the same guideline, as rows that stand beside a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from annotation.core.errors import N_, Forbidden, NotFound
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import Dataset, Person, Prompt
from annotation.selectors.access import sealed_batches
from benchmark.domain.leaderboards.metrics import ALL, list_metrics, list_scopes
from benchmark.domain.published_tables import compute_interval
from benchmark.models import BenchmarkRun, PublishedTable

UNDEFINED = {"value": None, "low": None, "high": None}


def list_published_tables() -> QuerySet[PublishedTable]:
    """Those that were not removed, by guideline and name."""
    return PublishedTable.objects.filter(removed_at=None).select_related("created_by", "dataset")


@dataclass(frozen=True)
class PublishedTableRow:
    """A table as the list shows it; of a ``sealed`` one no more than its name."""

    table: PublishedTable
    sealed: bool


def list_table_rows(person: Person, tables: QuerySet[PublishedTable]) -> list[PublishedTableRow]:
    """Who judges by a guideline blind now reads no names of models in its tables."""
    sealed = set(sealed_batches(person).values_list("guideline__name", flat=True))
    return [PublishedTableRow(table, table.guideline_name in sealed) for table in tables]


def _is_sealed(person: Person, guideline: str) -> bool:
    return sealed_batches(person).filter(guideline__name=guideline).exists()


def get_table(person: Person, table_id: int) -> PublishedTable:
    """The table, if the person may open it."""
    table = list_published_tables().filter(pk=table_id).first()
    if table is None:
        raise NotFound(N_("There is no such published table."))
    if _is_sealed(person, table.guideline_name):
        raise Forbidden(
            N_("You judge by the guideline {name} blind now: this opens for you when your batch closes."),
            name=table.guideline_name,
        )
    return table


def list_prompt_languages(datasets: QuerySet[Dataset]) -> list[str]:
    """Those that prompts of these datasets have."""
    prompts = Prompt.objects.filter(dataset__in=datasets.values("pk")).exclude(language="")
    return list(prompts.order_by("language").values_list("language", flat=True).distinct())


def list_reference_rows(
    run: BenchmarkRun, reader: Person | None, *, of_language: bool | None = None
) -> list[dict[str, Any]]:
    """The published rows that belong beside the run's board (``of_language`` False) or, of a table of one language,
    beside the group of its prompts in that language (True), or both: of its guideline and dataset, in the columns of
    both.

    None for a ``reader`` who judges by the guideline blind now; without a reader (an outsider's link) all of them.

    Of the shape of a row of the board with ``rank`` None, ``n`` None where the table does not tell it, no labels by
    level and no composition (they are empty), and ``published``: ``{"id", "name", "source", "url", "language"}``, the
    language blank for all prompts. They are never ranked with what was measured.
    """
    guideline = run.scorer.guideline
    if reader is not None and _is_sealed(reader, guideline.name):
        return []
    tables = list_published_tables().filter(guideline_name=guideline.name, dataset=run.dataset_id)
    if of_language is not None:
        tables = tables.exclude(language="") if of_language else tables.filter(language="")
    return [row for table in tables for row in build_table_rows(table, guideline.document)]


NO_GROUND = {"ground": None, "reason": None}
"""What a published number rests on is its table's to say."""


def build_table_rows(table: PublishedTable, document: GuidelineDocument) -> list[dict[str, Any]]:
    """In the table's own order."""
    published = {
        "id": table.pk,
        **{field: getattr(table, field) for field in ("name", "source", "url", "language")},
    }
    return [{**build_board_row(row, document), "published": published} for row in table.rows]


def build_board_row(row: Mapping[str, Any], document: GuidelineDocument) -> dict[str, Any]:
    """One published row as a board has its rows; a metric that the guideline no longer declares is left out.

    Without dimensions the only column is all responses, so that what a table says of it is the overall number.
    """
    counts = row.get("n", {})
    ns = [counts.get(scope) for scope in list_scopes(document)]
    cells = {
        scope: _build_cell(list_metrics(document, scope), row["dimensions"].get(scope, {}), counts.get(scope))
        for scope in list_scopes(document)
    }
    overall = {
        metric.name: cells[ALL][metric.name]
        if not document.dimensions and metric.name not in row["overall"]
        else _build_statistic(metric, row["overall"], None)
        for metric in document.metrics
        if metric.overall != "none"
    }
    return {
        "model": row["model"],
        "rank": None,
        "n": None if None in ns else sum(ns),
        **NO_GROUND,
        "dimensions": cells,
        "overall": overall,
    }


def _build_cell(metrics: Sequence[Metric], values: Mapping[str, float], n: int | None) -> dict[str, Any]:
    statistics = {metric.name: _build_statistic(metric, values, n) for metric in metrics}
    return {"n": n, "levels": {}, "composition": {}, "missing": 0, **NO_GROUND, "rank": None, **statistics}


def _build_statistic(metric: Metric, values: Mapping[str, float], n: int | None) -> dict[str, float | None]:
    """A rate of so many responses has Wilson's interval; nothing else that is printed tells how sure it is."""
    value = values.get(metric.name)
    if value is None:
        return dict(UNDEFINED)
    low, high = compute_interval(value, n) if metric.kind == "rate" else (None, None)
    return {"value": value, "low": low, "high": high}
