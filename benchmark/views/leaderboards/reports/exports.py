"""A board to take along: as CSV, JSON, LaTeX, and as a page that prints well."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.documents import DocumentTable
from annotation.core.http import as_attachment
from annotation.core.latex import escape_latex, format_table
from annotation.core.text_templates import join_sentences, render_text
from annotation.domain.permissions import READ_BOARDS
from annotation.domain.releases.gold_file import csv_cell
from annotation.models import Person
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of
from benchmark.domain.leaderboards.metrics import list_metrics, list_scopes
from benchmark.models import BenchmarkRun
from benchmark.selectors.estimates.sensitivity import list_participant_pseudonyms
from benchmark.selectors.leaderboards.runs import (
    find_board,
    find_part,
    get_finished_board,
    get_run,
    list_board_rows,
    refuse_sealed_run,
)
from benchmark.selectors.published_tables import list_reference_rows
from benchmark.services.sensitivity import load_sensitivity
from benchmark.views.leaderboards.formatting import BoardColumn, join_heading, list_overall_metrics
from benchmark.views.leaderboards.lineage import REFERENCES, Method, list_facts, list_methods
from benchmark.views.leaderboards.query import ESTIMATES, GROUPS, PAIRS, SENSITIVITY, choose
from benchmark.views.leaderboards.reports.report import ReportSection, list_report_sections
from benchmark.views.leaderboards.tabs.sensitivity import to_file
from scoring.selectors.gate import describe_promotion

MAX_NARROW_COLUMNS = 5
"""So many columns of a table fit into one column of a paper."""
_SHA256, _EIGHT_DIGITS = re.compile(r"\b[0-9a-f]{64}\b"), re.compile(r"[0-9a-f]{8}")
FORMATS = ("report", "csv", "json", "latex")
HEAD = (
    *("run", "dataset", "collection", "guideline", "model", "rank", "rank_low", "rank_high"),
    *("scope", "metric", "value", "low", "high", "n", "gold", "out_of_fold", "unseen", "missing"),
    *("origin", "table", "source", "url", "gate", "gate_margin", "gate_reason"),
    *("ground", "reason", "language", "better"),
)
GATE = "gate"
MEASURED, PUBLISHED = "measured", "published"


@require_GET
@never_cache
@act_required(READ_BOARDS)
def export(request: HttpRequest, name: str) -> HttpResponseBase:
    """``?format=`` csv, json, latex, or report (a page)."""
    run = get_run(name)
    reader = person_of(request)
    refuse_sealed_run(reader, run)
    get_finished_board(run)
    kind = choose(request.GET.get("format", ""), FORMATS)
    if kind != "report":
        record_file(actor=reader, target=f"run:{run.name}", file=f"{run.name}.{kind}")
    if kind == "csv":
        return as_attachment(
            HttpResponse(board_to_csv(run, reader), content_type="text/csv; charset=utf-8"), f"{run.name}.csv"
        )
    if kind == "json":
        return as_attachment(
            HttpResponse(as_json(run, reader), content_type="application/json"), f"{run.name}.json"
        )
    if kind == "latex":
        text = board_to_latex(run, get_language() or "en", reader)
        return as_attachment(
            HttpResponse(text, content_type="application/x-tex; charset=utf-8"), f"{run.name}.tex"
        )
    return render(request, "benchmark/leaderboards/report.html", report_context(run, reader))


def report_context(run: BenchmarkRun, reader: Person | None) -> dict[str, Any]:
    return {
        "run": run,
        "facts": list_facts(run, reader),
        "sections": list_report_sections(run, reader),
        "methods": _run_methods(run),
        "references": REFERENCES,
    }


def _run_methods(run: BenchmarkRun) -> list[Method]:
    parts = set(run.parts.values_list("name", flat=True))
    document = run.scorer.guideline.document
    return list_methods(document, pairs="pairs" in parts, estimates="estimates" in parts)


def board_to_csv(run: BenchmarkRun, reader: Person | None) -> str:
    """A row for each model, scope and metric, numbers in the metric's own unit; no text can start a formula.

    Then one for each number of the published tables beside the board, whose ``origin`` is not ``measured``, with the
    ``language`` of the prompts that it is of; blank for all. ``gate`` is the outcome with which the run's scorer was
    promoted, blank where it was compared with none. ``better`` is the direction of the metric: ``higher`` or ``lower``.
    """
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(HEAD)
    writer.writerows([csv_cell(value) for value in line] for line in _list_rows(run, reader))
    return file.getvalue()


def _list_rows(run: BenchmarkRun, reader: Person | None) -> Iterator[list[Any]]:
    document = run.scorer.guideline.document
    columns = [BoardColumn(None, overall_metric) for overall_metric in list_overall_metrics(document)]
    columns += [
        BoardColumn(scope, metric)
        for scope in list_scopes(document)
        for metric in list_metrics(document, scope)
    ]
    gate = describe_promotion(run.scorer) or {"outcome": None, "margin": None, "reason": ""}
    verdict = [gate[name] for name in ("outcome", "margin", "reason")]
    before = [run.name, run.dataset.name, run.collection.name, str(run.scorer.guideline)]
    for row in list_board_rows(run):
        rank = row["rank"] or {"value": None, "low": None, "high": None}
        for column in columns:
            statistic, bases = column.statistic(row), column.composition(row)
            yield [
                *before,
                row["model"],
                *(rank[name] for name in ("value", "low", "high")),
                column.name,
                column.metric.name,
                *(statistic[name] for name in ("value", "low", "high")),
                column.n(row),
                *(bases.get(name, 0) for name in ("gold", "out_of_fold", "unseen")),
                column.missing(row),
                *(MEASURED, "", "", ""),
                *verdict,
                *column.state_ground(row),
                "",
                column.metric.better,
            ]
    for row in list_reference_rows(run, reader):
        table = row["published"]
        for column in columns:
            statistic = column.statistic(row)
            if statistic["value"] is not None:
                yield [
                    *before,
                    row["model"],
                    *[None] * 3,
                    column.name,
                    column.metric.name,
                    *(statistic[name] for name in ("value", "low", "high")),
                    column.n(row),
                    *[None] * 4,
                    *(PUBLISHED, table["name"], table["source"], table["url"]),
                    *[None] * len(verdict),
                    *("", "", table["language"]),
                    column.metric.better,
                ]


def as_json(run: BenchmarkRun, reader: Person | None) -> str:
    """The board as ``leaderboard --json`` prints it, with the direction of each metric, its parts, what it cost, and
    published rows apart.
    """
    # Others are what plans of labels start from: ids of this database.
    parts = {
        name: content for name in (ESTIMATES, GROUPS, PAIRS) if (content := find_part(run, name)) is not None
    }
    parts[SENSITIVITY] = to_file(load_sensitivity(run, actor=reader), list_participant_pseudonyms(run))
    document = {
        **find_board(run),
        "better": {metric.name: metric.better for metric in run.scorer.guideline.document.metrics},
        GATE: describe_promotion(run.scorer, reader),
        PUBLISHED: _published_rows(run, reader),
        "parts": parts,
        "cost": run.cost,
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _published_rows(run: BenchmarkRun, reader: Person | None) -> list[dict[str, Any]]:
    return [
        {**row, PUBLISHED: {name: row[PUBLISHED][name] for name in ("name", "source", "url", "language")}}
        for row in list_reference_rows(run, reader)
    ]


def board_to_latex(run: BenchmarkRun, language: str, reader: Person | None) -> str:
    """A part of a document that uses the packages of its first lines; Chinese text needs XeLaTeX as well."""
    packages = ["booktabs", "amsmath", "graphicx", *(["ctex"] if language.startswith("zh") else [])]
    provenance = "; ".join(join_heading(term, text) for term, text in list_facts(run, reader))
    title, origin = _("Leaderboard {name}").format(name=run.name), _("Lineage")
    references = _("References")
    parts = [
        "\n".join(rf"% \usepackage{{{name}}}" for name in packages),
        rf"\section*{{{escape_latex(title)}}}",
        rf"\paragraph{{{escape_latex(origin)}}} {_add_breaks(escape_latex(provenance))}",
        *(
            _latex_section(report_section)
            for report_section in list_report_sections(run, reader, draw=lambda _spec: "")
        ),
        *(_latex_method(method) for method in _run_methods(run)),
        rf"\paragraph{{{escape_latex(references)}}} {escape_latex('; '.join(REFERENCES))}",
    ]
    return "\n\n".join(parts) + "\n"


def _add_breaks(text: str) -> str:
    """With places to break a line in its sums, which are longer than half a line."""
    return _SHA256.sub(lambda match: r"\allowbreak{}".join(_EIGHT_DIGITS.findall(match[0])), text)


def _latex_section(section: ReportSection) -> str:
    sentences = escape_latex(join_sentences([*section.sentences, *section.notes]))
    paragraph = [rf"\paragraph{{{escape_latex(section.title)}}} {sentences}"] if sentences else []
    return "\n\n".join(
        [*paragraph, *(_latex_table(section_table) for section_table in section.tables if section_table.rows)]
    )


def _latex_table(data: DocumentTable) -> str:
    numbers = len(data.head) - data.words
    columns = "l" * data.words + "r" * numbers
    wraps = data.name == "not-separated"  # a list of names
    if wraps:
        columns = r"lp{0.7\linewidth}"
    return format_table(
        columns=columns,
        head=data.head,
        rows=data.rows,
        caption=data.caption,
        label=f"tab:{data.name}",
        below=data.below,
        notes=data.notes,
        fitted=not wraps,
        across=len(data.head) > MAX_NARROW_COLUMNS,
    ).rstrip("\n")


def _latex_method(method: Method) -> str:
    description = render_text("benchmark/wording/method.txt", method=method)
    text = rf"\paragraph{{{escape_latex(method.name)}}} {escape_latex(description)}"
    return text + (f"\n\\[\n{method.latex}\n\\]" if method.latex else "")
