"""A board as a report: the same sections for the page to print and for LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from annotation.core.charts import chart_url
from annotation.core.documents import DocumentTable
from annotation.core.formatting import UNDEFINED, format_decimal, format_percent_number
from annotation.core.text_templates import join_names, render_text
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import Person
from benchmark.domain.leaderboards.grounds import PREDICTED, REASONS
from benchmark.domain.leaderboards.metrics import format_metric_difference, format_metric_value, format_rank
from benchmark.domain.leaderboards.responses import CROSS
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_part, list_board_rows
from benchmark.selectors.published_tables import list_reference_rows
from benchmark.views.leaderboards.charts import Draw, axes_by_metric, board_charts, chart_alt, group_by_table
from benchmark.views.leaderboards.formatting import (
    BoardColumn,
    BoardRow,
    attribute_label,
    heading,
    join_heading,
    list_columns,
    list_metric_views,
    metric_label,
)
from benchmark.views.leaderboards.query import OVERALL, BoardQuery
from benchmark.views.leaderboards.reports.sensitivity import sensitivity_parts
from benchmark.views.leaderboards.tabs import estimates, groups
from benchmark.views.leaderboards.tabs import pairs as pairs_views
from benchmark.views.leaderboards.tabs.reading import count_compared, find_leader, list_bias, reading_context

DAGGER, WORDING = "\N{DAGGER}", "benchmark/wording"
MIN_WIDE_COLUMNS = 7
"""Columns from here on are numbered, with their names below the table."""


@dataclass(frozen=True)
class ReportSection:
    """``charts`` are addresses; ``alt`` is what they show, in a sentence."""

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[DocumentTable] = ()
    charts: Sequence[str] = ()
    alt: str = ""
    notes: Sequence[str] = ()


def list_report_sections(
    run: BenchmarkRun, reader: Person | None, *, draw: Draw = chart_url
) -> list[ReportSection]:
    """In their order; a part that the run does not have is left out."""
    document = run.scorer.guideline.document
    sections = [
        _board_section(run, document, list_reference_rows(run, reader, of_language=False), draw),
        _pairs_section(run, document),
        *_estimate_sections(run, document, draw),
        _sensitivity_section(run, reader),
    ]
    return [section for section in [*sections, _groups_section(run, document, reader)] if section is not None]


def _board_section(
    run: BenchmarkRun, document: GuidelineDocument, published: Sequence[BoardRow], draw: Draw
) -> ReportSection:
    rows = list_board_rows(run)
    lead, *other_metrics = list_metric_views(document)
    columns = list_columns(document, lead)
    tables = [
        *_list_bias_tables(run),
        *(_board_table(run, document, metric, published) for metric in (lead, *other_metrics)),
    ]
    axes = axes_by_metric(document, [*rows, *published], columns)
    return ReportSection(
        title=_("Board"),
        sentences=list(_board_sentences(run)),
        tables=tables,
        charts=board_charts(document, rows, columns, axes, draw, published=published),
        alt=chart_alt(run, lead, columns, published),
    )


def _list_bias_tables(run: BenchmarkRun) -> Iterator[DocumentTable]:
    """Before the ranks: what the scorer's labels of each model are off by."""
    bias = list_bias(run)
    if bias["bias"]:
        yield DocumentTable(
            name="bias",
            caption=render_text(f"{WORDING}/table_caption.txt", code="bias", metric=bias["bias_metric"]),
            head=[_("Model"), _("Labelled"), *bias["bias_heads"]],
            rows=[
                [row.model, str(row.n), *(_format_bias(value, interval) for value, interval in row.cells)]
                for row in bias["bias"]
            ],
        )


def _format_bias(value: str, interval: str) -> str:
    return (f"{value} ({interval})" if interval else value) or UNDEFINED


def _board_sentences(run: BenchmarkRun) -> Iterator[str]:
    leader, reading = find_leader(run), reading_context(run)
    if leader is not None:
        yield render_text(f"{WORDING}/board_finding.txt", finding=leader)
    if reading["own_ranks"]:
        yield render_text(f"{WORDING}/own_ranks.txt", **reading)
    if reading["predicted_percent"] is not None:
        yield render_text(f"{WORDING}/predicted_share.txt", **reading)
    yield from _list_not_compared(run, None)


def _list_not_compared(run: BenchmarkRun, scope: str | None) -> Iterator[str]:
    compared = count_compared(run, scope)
    if not compared.are_all:
        yield render_text(f"{WORDING}/not_compared.txt", compared=compared)


def _board_table(
    run: BenchmarkRun, document: GuidelineDocument, metric: Metric, published: Sequence[BoardRow]
) -> DocumentTable:
    """With the published rows that have a number in it, marked and table by table, below what was measured."""
    columns = list_columns(document, metric)
    published_tables = group_by_table([row for row in published if _has_number(row, columns)])
    daggers = _list_daggers(len(published_tables))
    heads = [heading(document, column, columns) for column in columns]
    ranked = any(row["rank"] for row in list_board_rows(run))
    names = [_("Model"), _("Rank"), "n"] if ranked else [_("Model"), "n"]
    rows = [
        [
            row["model"],
            *([format_rank(row["rank"])] if ranked else []),
            str(row["n"]),
            *(_format_number(column, row) for column in columns),
        ]
        for row in list_board_rows(run)
    ]
    return DocumentTable(
        name=f"board-{metric.name}",
        caption=_caption(metric, ranked=ranked),
        head=[*names, *(f"{label}, {metric_name}" if metric_name else label for label, metric_name in heads)],
        rows=rows,
        below=[
            [_published_line(row, columns, dagger, ranked=ranked) for row in own]
            for dagger, own in zip(daggers, published_tables, strict=True)
        ],
        notes=[
            *_list_hollow_notes(run, columns),
            *(
                _source_note(dagger, own[0]["published"])
                for dagger, own in zip(daggers, published_tables, strict=True)
            ),
        ],
    )


def _list_daggers(tables: int) -> list[str]:
    return [DAGGER if tables == 1 else f"{DAGGER}{at}" for at in range(1, tables + 1)]


def _format_number(column: BoardColumn, row: BoardRow) -> str:
    """In parentheses where a scorer predicted it and it is not compared."""
    text = bracketed(column.metric, column.statistic(row))
    return f"({text})" if column.ground(row) == PREDICTED and text != UNDEFINED else text


def _list_hollow_notes(run: BenchmarkRun, columns: Sequence[BoardColumn]) -> Iterator[str]:
    if any(column.ground(row) == PREDICTED for row in list_board_rows(run) for column in columns):
        yield _("In brackets: predicted by a scorer, all or in part, without an interval; not compared.")


def _caption(metric: Metric, *, ranked: bool) -> str:
    code = "ranked" if ranked else "unranked"
    return render_text(f"{WORDING}/table_caption.txt", code=code, metric=metric_label(metric))


def _has_number(row: BoardRow, columns: Sequence[BoardColumn]) -> bool:
    return any(column.statistic(row)["value"] is not None for column in columns)


def _published_line(row: BoardRow, columns: Sequence[BoardColumn], dagger: str, *, ranked: bool) -> list[str]:
    n = UNDEFINED if row["n"] is None else str(row["n"])
    numbers = [_format_published(column.metric, column.statistic(row)) for column in columns]
    return [f"{row['model']}{dagger}", *([UNDEFINED] if ranked else []), n, *numbers]


def _source_note(dagger: str, table: Mapping[str, str]) -> str:
    source = ", ".join(reference for reference in (table["source"], table["url"]) if reference)
    return render_text(f"{WORDING}/published_note.txt", mark=dagger, table=table["name"], source=source)


def bracketed(metric: Metric, statistic: Mapping[str, float | None]) -> str:
    """``71.7 [57.5, 82.7]``, a rate in percent without its sign, as tables in papers have it."""
    return _format_short(metric, statistic["value"]) + _format_brackets(metric, statistic)


def _format_published(metric: Metric, statistic: Mapping[str, float | None]) -> str:
    """With the decimals that it was entered with, as the board has it: ``45.38``."""
    return format_metric_value(metric, statistic["value"]).removesuffix("%") + _format_brackets(
        metric, statistic
    )


def _format_brackets(metric: Metric, statistic: Mapping[str, float | None]) -> str:
    low, high = (_format_short(metric, statistic[name]) for name in ("low", "high"))
    return "" if UNDEFINED in (low, high) else f" [{low}, {high}]"


def _format_short(metric: Metric, value: float | None) -> str:
    decimals = 1 if metric.decimals is None else metric.decimals
    return (
        format_percent_number(value, decimals) if metric.kind == "rate" else format_decimal(value, decimals)
    )


def _pairs_section(run: BenchmarkRun, document: GuidelineDocument) -> ReportSection | None:
    content = find_part(run, "pairs")
    if content is None or not content["scopes"] or len(content["models"]) < 2:
        return None
    scope = content["scopes"][0]
    metric = pairs_views.metric_of(document, content["metric"], scope)
    values = pairs_views.statistics_by_model(run, scope, metric)
    pairs = pairs_views.ModelPairs.of(
        content,
        scope,
        {model: statistic["value"] for model, statistic in values.items()},
        not_compared=pairs_views.find_not_compared(run, scope),
    )
    neighbour_rows = pairs_views.neighbour_rows(pairs, values, metric, BoardQuery())
    differences = [pair_difference for _first, _second, pair_difference in pairs.list_pairs()]
    compared = any(difference.state for difference in differences)
    neighbours = DocumentTable(
        name="neighbours",
        caption=_("Neighbours on the board: difference to the next model, with its 95% interval")
        if compared
        else _("Neighbours on the board: difference to the next model"),
        head=[
            _("Model"),
            _("Next"),
            _("Difference"),
            "n",
            *([_("Significantly different")] if compared else []),
        ],
        rows=[
            [
                row["model"],
                row["next"]["model"],
                _format_signed_pair(row["next"]),
                str(row["next"]["n"]),
                *([row["next"]["word"]] if compared else []),
            ]
            for row in neighbour_rows
            if row["next"]
        ],
        words=2,
    )
    return ReportSection(
        title=pgettext("board", "Pairs"),
        sentences=list(_pairs_sentences(run, pairs_views.find_significant_pairs(pairs, metric), scope)),
        tables=[neighbours, _not_different_table(pairs)],
        notes=[render_text(f"{WORDING}/percentage_points.txt", metric=metric_label(metric))]
        if metric.kind == "rate"
        else [],
    )


def _pairs_sentences(
    run: BenchmarkRun, finding: pairs_views.PairsFinding | None, scope: str
) -> Iterator[str]:
    if finding is not None:
        yield render_text(f"{WORDING}/pairs_finding.txt", finding=finding)
    yield from _list_not_compared(run, None if scope == OVERALL else scope)


def _format_signed_pair(pair: Mapping[str, Any]) -> str:
    return f"{pair['value']} ({pair['interval']})" if pair["interval"] else str(pair["value"])


def _not_different_table(pairs: pairs_views.ModelPairs) -> DocumentTable:
    """Each pair once, under its better placed model."""
    not_different: dict[int, list[str]] = {}
    for first, second, pair_difference in pairs.list_pairs():
        if pair_difference.state == pairs_views.SAME:
            not_different.setdefault(first, []).append(pairs.models[second])
    return DocumentTable(
        name="not-separated",
        caption=_(
            "Pairs that are not significantly different, each named once, under the model that stands higher"
        ),
        head=[_("Model"), _("Not significantly different from")],
        rows=[
            [pairs.models[model], join_names(not_different[model])]
            for model in pairs.order
            if model in not_different
        ],
        words=2,
    )


def _estimate_sections(run: BenchmarkRun, document: GuidelineDocument, draw: Draw) -> Iterator[ReportSection]:
    content = find_part(run, "estimates")
    if not content or not content["rows"]:
        return
    columns = list_columns(document, document.metric(document.rank_by))
    first = columns[0]
    held = estimates.order_cells(run, content, first.name, first.metric)
    title = first.label(document)
    yield ReportSection(
        title=_("Estimates"),
        sentences=[
            render_text(f"{WORDING}/estimates_finding.txt", finding=finding)
            for finding in estimates.list_findings(held, first.metric)
        ],
        tables=[
            _estimates_table(title, held, first.metric),
            *([_combined_table(run, document, content, columns)] if len(columns) > 1 else []),
        ],
        charts=estimates.draw_charts(document, held, first.metric, draw),
        alt=estimates.chart_alt(title, first.metric, held),
        notes=[
            render_text(f"{WORDING}/selection.txt", selection=selection)
            for selection in estimates.list_unknown_selection(content)
        ]
        + list(_list_withheld(held)),
    )


def _list_withheld(held: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Why numbers that the board does not compare have no interval, reason by reason."""
    for reason in REASONS:
        models = [model for model, cell in held if cell.get("reason") == reason]
        if models:
            yield join_heading(join_names(models), render_text(f"{WORDING}/ground_reason.txt", reason=reason))


def _estimates_table(
    title: str, held: Sequence[tuple[str, Mapping[str, Any]]], metric: Metric
) -> DocumentTable:
    weighed = any(cell.get("weight") is not None for _model, cell in held)  # an overall number has none
    rows = []
    for model, cell in held:
        people = cell.get("people") or {}
        rows.append(
            [
                model,
                str(people.get("n", 0)),
                *(_format_estimate(cell, kind, metric) for kind in estimates.KINDS),
                *([format_decimal(cell.get("weight"), 2)] if weighed else []),
                format_metric_difference(metric, cell.get("bias")),
            ]
        )
    return DocumentTable(
        name="estimates",
        caption=render_text(
            f"{WORDING}/table_caption.txt", code="estimates", scope=title, metric=metric_label(metric)
        ),
        head=[
            _("Model"),
            _("Labelled"),
            *estimates.list_heads(),
            *([_("Weight")] if weighed else []),
            _("Bias of the scorer alone"),
        ],
        rows=rows,
    )


def _format_estimate(cell: Mapping[str, Any], kind: str, metric: Metric) -> str:
    return bracketed(metric, cell[kind]) if cell.get(kind) else UNDEFINED


def _combined_table(
    run: BenchmarkRun, document: GuidelineDocument, content: Mapping[str, Any], columns: Sequence[BoardColumn]
) -> DocumentTable:
    column_cells = [
        dict(estimates.order_cells(run, content, column.name, column.metric)) for column in columns
    ]
    models = list(column_cells[0])
    return DocumentTable(
        name="combined",
        caption=_("Combined estimates of all columns, with 95% intervals"),
        head=[_("Model"), *(heading(document, column, columns)[0] for column in columns)],
        rows=[
            [
                model,
                *(
                    _format_estimate(cells[model], "combined", column.metric)
                    for cells, column in zip(column_cells, columns, strict=True)
                ),
            ]
            for model in models
        ],
    )


def _sensitivity_section(run: BenchmarkRun, reader: Person | None) -> ReportSection | None:
    parts = sensitivity_parts(run, reader)
    return parts and ReportSection(title=parts[0], sentences=parts[1], tables=parts[2])


def _groups_section(
    run: BenchmarkRun, document: GuidelineDocument, reader: Person | None
) -> ReportSection | None:
    content = find_part(run, "groups")
    if not content:
        return None
    metric = document.metric(document.rank_by)
    published = list_reference_rows(run, reader, of_language=True)
    tables, notes, sentences = [], [], []
    hollow: set[str] = set()
    for attribute in groups.list_attributes(content):
        heat = groups.heat_context(run, document, content[attribute], attribute, metric)
        for at, table in enumerate(
            groups.list_group_tables(run, content[attribute], attribute, metric, published), 1
        ):
            stem = f"by-{attribute.replace(CROSS, '-and-')}"
            name = f"{stem}-{at}" if table.title else stem
            tables.append(_group_table(name, table.title or heat["heading"], table))
            if len(table.heads) > MIN_WIDE_COLUMNS and at == 1:
                notes.append(join_heading(attribute_label(attribute), _number_heads(table.heads)))
        if heat["any_hollow"]:
            hollow.add(
                _("In brackets: predicted by a scorer, all or in part, without an interval; not compared.")
            )
        if heat["findings"]:
            text = render_text(f"{WORDING}/groups_finding.txt", findings=heat["findings"])
            sentences.append(join_heading(attribute_label(attribute), text))
    return ReportSection(
        title=pgettext("board", "Groups"), sentences=sentences, tables=tables, notes=[*notes, *hollow]
    )


def _group_table(name: str, heading: str, table: groups.GroupTable) -> DocumentTable:
    """With the published rows of a language, marked, below what was measured."""
    names = [head.label for head in table.heads]
    is_wide = len(names) > MIN_WIDE_COLUMNS
    marked = list(zip(_list_daggers(len(table.references)), table.references, strict=True))
    return DocumentTable(
        name=name,
        caption=render_text(f"{WORDING}/table_caption.txt", code="groups", heading=heading),
        head=[_("Model"), *([str(at) for at in range(1, len(names) + 1)] if is_wide else names)],
        rows=[[model, *(_format_starred(cell) for cell in cells)] for model, cells in table.lines],
        below=[
            [
                [f"{model}{dagger}", *(_format_starred(cell) for cell in cells)]
                for model, cells in reference.lines
            ]
            for dagger, reference in marked
        ],
        notes=[_source_note(dagger, reference.published) for dagger, reference in marked],
    )


def _number_heads(heads: Sequence[groups.GroupHead]) -> str:
    """What the numbers over the columns of a wide table stand for, by dimension."""
    parts = []
    for scope, own in groupby(enumerate(heads, 1), key=lambda numbered_head: numbered_head[1].scope):
        names = "; ".join(f"{at} {head.label}" for at, head in own)
        parts.append(join_heading(scope, names) if scope else names)
    return "; ".join(parts)


def _format_starred(cell: groups.GroupCell) -> str:
    value = f"({cell.value})" if cell.hollow else cell.value
    return (value + ("*" if cell.small else "")) or UNDEFINED
