"""The leaderboard of a run with its parts, computed from its stored items alone and kept with what made it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.version import code_version
from benchmark.models import BenchmarkRun, BoardPart
from benchmark.selectors.counting import BASES, Place, counted, everything
from benchmark.selectors.gold_selection import selection_of
from benchmark.selectors.labelling import drawn_strata, planned_before, planning_parts

from ..estimating.estimates import estimates
from ..figures.board import BoardFigures
from ..figures.counted import CountedResponse

GROUPS, PAIRS, ESTIMATES = "groups", "pairs", "estimates"
SELECTION = "selection"


def finish_run(run: BenchmarkRun) -> dict[str, Any]:
    """Compute everything, then store it at once; done again, it changes nothing but the time."""
    board, parts = compute(run)
    run.board = board
    run.weights_sha256 = run.scorer.weights_sha256
    run.code_version = code_version()
    run.finished_at = timezone.now()
    with transaction.atomic():
        keep_parts(run, parts)
        run.save(update_fields=["board", "weights_sha256", "code_version", "finished_at"])
    return board


def keep_parts(run: BenchmarkRun, parts: Mapping[str, Any]) -> None:
    for name, content in parts.items():
        BoardPart.objects.update_or_create(run=run, name=name, defaults={"content": content})


def compute(run: BenchmarkRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """The board, and its parts by name."""
    rows = counted(run)
    models = run.evaluated_models.values_list("name", flat=True)  # one without any value still has its row
    document, seed = run.scorer.guideline.document, run.scorer.seed
    figures = BoardFigures(document, rows, models=models, seed=seed)
    before = planned_before(run)  # first: a plan that is made meanwhile makes what is kept stale, never wrong
    drawn = drawn_strata(run)
    parts = {
        GROUPS: figures.groups,
        PAIRS: figures.pairs,
        ESTIMATES: estimates(document, rows, seed=seed, strata=drawn) | {SELECTION: selection_of(run)},
    }
    planning = planning_parts(
        run, rows, estimates=parts[ESTIMATES], pairs=parts[PAIRS], drawn=drawn, before=before
    )
    return _with_bases(figures.board, run, rows), parts | planning


def _with_bases(board: dict[str, Any], run: BenchmarkRun, rows: Sequence[CountedResponse]) -> dict[str, Any]:
    """The board with what each cell rests on, and what made it."""
    totals = everything(run)
    composition: dict[Place, Counter[str]] = defaultdict(Counter)
    for counted_row in rows:
        composition[counted_row.model, counted_row.scope][counted_row.basis] += 1
    for row in board["rows"]:
        for scope, cell in row["dimensions"].items():
            bases = composition[row["model"], scope]
            cell["composition"] = {str(basis): bases[basis] for basis in BASES}
            cell["missing"] = totals[row["model"], scope] - cell["n"]
    return board | {"run": run.name, "left_out": totals["", ""], "lineage": lineage(run)}


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
