"""What stands behind a number: the cell with its items, and one item with its prediction."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.domain.permissions import READ_BOARDS, READ_TASKS
from annotation.models import Person
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.selectors.origins import has_imported
from annotation.views.access import act_required, may, person_of
from benchmark.domain.leaderboards.metrics import ALL, list_metrics, list_scopes
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.leaderboards.comparison import ItemChange, list_changes
from benchmark.selectors.leaderboards.runs import (
    find_part,
    get_finished_board,
    get_run,
    list_items,
    refuse_sealed_run,
)
from benchmark.views.leaderboards.formatting import (
    BoardColumn,
    cell_url,
    cell_view,
    join_heading,
    list_columns,
    list_metric_views,
    list_overall_metrics,
    metric_label,
    overall_view,
    scope_label,
)
from benchmark.views.leaderboards.lineage import list_lineage_steps
from benchmark.views.leaderboards.query import ESTIMATES, OVERALL, BoardQuery
from benchmark.views.leaderboards.tabs.estimates import (
    EstimateRow,
    count_unknown_selection,
    list_dimensions,
    list_heads,
    make_row,
)
from scoring.selectors.training import response_text

PER_PAGE = 50
MAX_CHANGES = 100


@require_GET
@act_required(READ_BOARDS)
def cell(request: HttpRequest, name: str) -> HttpResponse:
    """``?model=..&dimension=..``; without a dimension the whole row of the model."""
    run, reader = get_run(name), person_of(request)
    refuse_sealed_run(reader, run)
    model, scope = request.GET.get("model", ""), request.GET.get("dimension")
    row = _get_row(run, model)
    view = overall_view(run, row) if scope is None else cell_view(run, model, scope, _get_cell(row, scope))
    document = run.scorer.guideline.document
    items = _filter_items(request, list_items(run, model, scope if document.dimensions else None))
    page = Paginator(items, PER_PAGE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    heading = join_heading(model, scope_label(document, scope))
    estimates, changed = _estimates(run, model, scope), _changes(run, model, scope)
    context = {
        "run": run,
        "model": model,
        "heading": heading,
        "cell": view,
        "levels": _levels(document, row, scope),
        "items": [_item_row(item, document, reader) for item in page],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": query.urlencode(),
        "basis": request.GET.get("basis", ""),
        "bases": RunItem.Basis.choices,
        "scope": scope,
        "crumbs": _crumbs(run, heading),
        "steps": list_lineage_steps(run, [{"kind": _("Number"), "label": heading, "note": view.composition}]),
        "changes": [_change_row(change, document, reader) for change in changed[:MAX_CHANGES]],
        "changed": len(changed),
        "estimates": estimates,
        "estimate_heads": list_heads(),
        "estimates_url": _estimates_url(run, document, scope),
        "weighed": any(line.weight for line in estimates),
    }
    return render(request, "benchmark/leaderboards/cell.html", context)


def _estimates(run: BenchmarkRun, model: str, scope: str | None) -> list[EstimateRow]:
    """What people, the scorer and both say of each metric of the cell; nothing of a run without estimates."""
    content = find_part(run, ESTIMATES)
    row = (
        next((model_row for model_row in content["rows"] if model_row["model"] == model), None)
        if content
        else None
    )
    if content is None or row is None:
        return []
    document = run.scorer.guideline.document
    metrics = list_overall_metrics(document) if scope is None else list_metrics(document, scope)
    held = row["cells"].get(OVERALL if scope is None else scope) or {}
    return [
        make_row(
            metric_label(metric),
            held[metric.name],
            metric,
            count_unknown_selection(content, model, list_dimensions(document, BoardColumn(scope, metric))),
        )
        for metric in metrics
        if held.get(metric.name) is not None
    ]


def _estimates_url(run: BenchmarkRun, document: GuidelineDocument, scope: str | None) -> str:
    """Where the estimates of all models stand for the cell's column; the tab as it opens where it has none of them."""
    address = reverse("run", args=[run.name])
    for lead in list_metric_views(document):
        for column in list_columns(document, lead):
            if column.scope == scope:
                return (
                    address
                    + BoardQuery(view=ESTIMATES, metric=lead.name, scope=column.choice_name(document)).link()
                )
    return address + BoardQuery(view=ESTIMATES).link()


def _get_row(run: BenchmarkRun, model: str) -> dict[str, Any]:
    row: dict[str, Any] | None = next(
        (candidate for candidate in get_finished_board(run)["rows"] if candidate["model"] == model), None
    )
    if row is None:
        raise Http404
    return row


def _get_cell(row: dict[str, Any], scope: str) -> dict[str, Any]:
    if scope not in row["dimensions"]:
        raise Http404
    held: dict[str, Any] = row["dimensions"][scope]
    return held


def _filter_items(request: HttpRequest, items: QuerySet[RunItem]) -> QuerySet[RunItem]:
    basis = request.GET.get("basis")
    if basis in RunItem.Basis.values:
        items = items.filter(basis=basis)
    return _join_origins(items).order_by("response__prompt_id", "response_id", "criterion")


def _join_origins(items: QuerySet[RunItem]) -> QuerySet[RunItem]:
    """The items with what a page shows of them; ``is_imported`` says that the gold label's were."""
    return items.select_related(
        "response__prompt", "response__model", "released_label__task", "prediction"
    ).annotate(is_imported=has_imported("released_label__task"))


def _item_row(item: RunItem, document: GuidelineDocument, reader: Person) -> dict[str, Any]:
    return {
        "item": item,
        "text": response_text(item.response.text, item.response.turns),
        "level": label_text(document, item.criterion, item.value),
        "url": source_url(item, reader),
    }


def level_name(document: GuidelineDocument, criterion: str, value: float) -> str:
    level = document.criterion(criterion).level(value)
    return "" if level is None else localize(level.name, get_language() or "en")


def source_url(item: RunItem, reader: Person) -> str:
    """Where the value comes from: the task that was labelled, where the reader may see it, or what was counted."""
    if item.released_label is not None and may(reader, READ_TASKS):
        return reverse("task", args=[item.released_label.task_id])
    return reverse("run-item", args=[item.run.name, item.pk])


def _levels(document: GuidelineDocument, row: dict[str, Any], scope: str | None) -> list[dict[str, Any]]:
    """How many labels of each level there are, by criterion."""
    counted_scopes = list_scopes(document) if scope is None else (scope,)
    return [
        {
            "criterion": criterion_label(document, criterion),
            "value": value,
            "name": level_name(document, criterion, float(value)),
            "n": n,
        }
        for counted_scope in counted_scopes
        for criterion, levels in row["dimensions"][counted_scope]["levels"].items()
        for value, n in levels.items()
    ]


def _changes(run: BenchmarkRun, model: str, scope: str | None) -> list[ItemChange]:
    """What changed in the cell since the run that this one replaces."""
    if run.replaces is None:
        return []
    scope_changes = list_changes(run.replaces, run, model=model)
    return [
        change
        for (_model, place), cell_changes in scope_changes.items()
        if scope in (None, place)
        for change in cell_changes
    ]


def _change_row(change: ItemChange, document: GuidelineDocument, reader: Person) -> dict[str, Any]:
    """With the old and the new level, as ``3 Harmless``, and what each rests on."""
    return {
        "change": change,
        "word": change_word(change.kind),
        "url": source_url(change.item, reader),
        "sides": [
            side
            and {"level": label_text(document, side.criterion, side.value), "basis": side.get_basis_display()}
            for side in (change.old, change.new)
        ],
    }


def change_word(kind: str) -> str:
    words = {
        "gold_added": _("gold label added"),
        "gold_changed": _("gold label changed"),
        "gold_removed": _("gold label no longer there"),
        "prediction_changed": _("prediction changed"),
        "response_added": _("response added"),
        "response_removed": _("response no longer there"),
    }
    return words[kind]


@require_GET
@act_required(READ_BOARDS)
def item(request: HttpRequest, name: str, item_id: int) -> HttpResponse:
    """One counted value: the texts, the probabilities, and which model of the scorer said it."""
    run = get_run(name)
    refuse_sealed_run(person_of(request), run)
    run_item = get_object_or_404(_join_origins(run.items.all()), pk=item_id)
    document = run.scorer.guideline.document
    scope = run_item.response.prompt.dimension if document.dimensions else ALL
    label = join_heading(run_item.response.model.name, scope_label(document, scope))
    number_step = {
        "kind": _("Number"),
        "label": label,
        "url": cell_url(run, run_item.response.model.name, scope),
    }
    context = {
        "run": run,
        "item": run_item,
        "level": label_text(document, run_item.criterion, run_item.value),
        "criterion": criterion_label(document, run_item.criterion),
        "dimension": dimension_label(document, run_item.response.prompt.dimension),
        "probabilities": _probabilities(run_item, document),
        "turns": run_item.response.turns or [{"role": "assistant", "text": run_item.response.text}],
        "crumbs": _crumbs(run, label, number_step["url"], run_item.response.prompt.key),
        "steps": list_lineage_steps(run, [number_step]),
    }
    return render(request, "benchmark/leaderboards/item.html", context)


def _probabilities(item: RunItem, document: GuidelineDocument) -> list[dict[str, Any]]:
    if item.prediction is None:
        return []
    return [
        {"value": value, "name": level_name(document, item.criterion, float(value)), "share": share}
        for value, share in item.prediction.probabilities.items()
    ]


def _crumbs(run: BenchmarkRun, label: str, url: str = "", last: str = "") -> list[dict[str, str]]:
    crumbs = [
        {"label": _("Boards"), "url": reverse("runs")},
        {"label": run.name, "url": reverse("run", args=[run.name])},
        {"label": label, "url": url},
    ]
    return [*crumbs, {"label": last, "url": ""}] if last else crumbs
