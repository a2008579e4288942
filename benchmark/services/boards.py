"""The leaderboard of a run, computed from its stored items alone and kept with what made it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from django.utils import timezone

from annotation.guidelines.values import as_number
from annotation.version import code_version
from benchmark.metrics import Cell, Value, board
from benchmark.models import BenchmarkRun, RunItem
from benchmark.selectors.runs import responses_of
from benchmark.services.items import scope_of

Place = tuple[str, str]
"""A model and a column of the board."""

BASES = (RunItem.Basis.GOLD, RunItem.Basis.OUT_OF_FOLD, RunItem.Basis.UNSEEN)


def finish_run(run: BenchmarkRun) -> dict[str, Any]:
    made = run.board = compute_board(run)
    run.weights_sha256 = run.scorer.weights_sha256
    run.code_version = code_version()
    run.finished_at = timezone.now()
    run.save(update_fields=["board", "weights_sha256", "code_version", "finished_at"])
    return made


def compute_board(run: BenchmarkRun) -> dict[str, Any]:
    responses = _counted(run)
    everything = _everything(run)
    cells: dict[Place, Cell] = defaultdict(Counter)
    composition: dict[Place, Counter[str]] = defaultdict(Counter)
    for place, labels, basis in responses.values():
        cells[place][tuple(sorted(labels))] += 1
        composition[place][basis] += 1
    for model in run.evaluated_models.values_list("name", flat=True):
        cells.setdefault((model, ""), Counter())  # a model without any value still has its row
    made = board(run.scorer.guideline.document, cells, seed=run.scorer.seed)
    for row in made["rows"]:
        for scope, cell in row["dimensions"].items():
            bases = composition[row["model"], scope]
            cell["composition"] = {str(basis): bases[basis] for basis in BASES}
            cell["missing"] = everything[row["model"], scope] - cell["n"]
    return made | {"run": run.name, "left_out": everything["", ""], "lineage": lineage(run)}


def _counted(run: BenchmarkRun) -> dict[int, tuple[Place, list[tuple[str, Value]], str]]:
    """By response: its place, its labels, and the weakest basis among them."""
    found: dict[int, tuple[Place, list[tuple[str, Value]], str]] = {}
    rows = run.items.order_by("pk").values_list(
        "response_id", "response__model__name", "response__prompt__dimension", "criterion", "value", "basis"
    )
    for response, model, dimension, criterion, value, basis in rows:
        scope = scope_of(run, dimension)
        number = as_number(value)
        assert scope is not None
        assert number is not None
        place, labels, weakest = found.get(response, ((model, scope), [], basis))
        found[response] = (place, [*labels, (criterion, number)], max(weakest, basis, key=BASES.index))
    return found


def _everything(run: BenchmarkRun) -> Counter[Place]:
    """How many responses there are in each place; under two blanks those that the guideline cannot judge."""
    counts: Counter[Place] = Counter()
    for model, dimension in responses_of(run).values_list("model__name", "prompt__dimension"):
        scope = scope_of(run, dimension)
        counts[("", "") if scope is None else (model, scope)] += 1
    return counts


def lineage(run: BenchmarkRun) -> dict[str, Any]:
    """What made the numbers, by name and by hash."""
    scorer = run.scorer
    return {
        "scorer": scorer.name,
        "weights_sha256": scorer.weights_sha256,
        "seed": scorer.seed,
        "release": scorer.release.name,
        "release_sha256": scorer.release.sha256,
        "guideline": str(scorer.guideline),
        "guideline_sha256": scorer.guideline.sha256,
        "dataset": run.dataset.name,
        "collection": run.collection.name,
        "code_version": code_version(),
    }
