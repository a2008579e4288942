"""What an outsider's link shows of a run: the parts of its own page that need no more than the run itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmark.models import BenchmarkRun
from benchmark.views.board_context import board_context
from benchmark.views.board_estimates import estimates_context
from benchmark.views.board_groups import groups_context
from benchmark.views.board_lineage import lineage_context
from benchmark.views.board_pairs import pairs_context
from benchmark.views.board_place import BOARD, ESTIMATES, GROUPS, LINEAGE, PAIRS, Place, one_of
from benchmark.views.charting import Draw
from benchmark.views.runs import tabs

PARTS = (PAIRS, GROUPS, ESTIMATES)
"""Views of which a run may have nothing to show."""


def shared_context(
    run: BenchmarkRun, query: Mapping[str, str], *, draw: Draw, with_published: bool
) -> dict[str, Any]:
    """AssayError where something is asked for that is not there, as on the page of the run."""
    parts = set(run.parts.values_list("name", flat=True))
    views = [BOARD, *(view for view in PARTS if view in parts), LINEAGE]
    view = one_of(Place.of(query).view, views)
    return {
        "run": run,
        "public": True,
        "part": f"benchmark/tabs/{view or 'board'}.html",
        "tabs": tabs(view, tuple(views)),
        **_of_view(run, query, view, draw, with_published=with_published),
    }


def _of_view(
    run: BenchmarkRun, query: Mapping[str, str], view: str, draw: Draw, *, with_published: bool
) -> dict[str, Any]:
    if view == PAIRS:
        return pairs_context(run, query, public=True, draw=draw)
    if view == GROUPS:
        return groups_context(run, query, public=True)
    if view == ESTIMATES:
        return estimates_context(run, query, public=True, draw=draw)
    if view == LINEAGE:
        return lineage_context(run, public=True)
    return board_context(run, query, reader=None, public=True, draw=draw, with_published=with_published)
