"""Where a board comes from: the chain down to the guideline, what it was made with, and how its figures are made."""

from __future__ import annotations

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from annotation.core.text_templates import join_names
from benchmark.models import BenchmarkRun
from benchmark.selectors.runs import board_of, rows_of
from benchmark.views.board_methods import REFERENCES, methods
from benchmark.views.board_place import Context
from benchmark.views.board_reading import basis_counts, cost_tiles
from benchmark.views.lineages import chain, imports_note
from benchmark.views.presenting import composition


def lineage_context(run: BenchmarkRun, *, public: bool = False) -> Context:
    steps = chain(run, [])
    parts = set(run.parts.values_list("name", flat=True))
    return {
        "steps": [{**step, "url": ""} for step in steps] if public else steps,
        "facts": facts(run),
        "methods": methods(
            run.scorer.guideline.document, pairs="pairs" in parts, estimates="estimates" in parts
        ),
        "references": REFERENCES,
    }


def facts(run: BenchmarkRun) -> list[tuple[str, str]]:
    """(term, text), hashes in full: what a paper must say so that the board can be made again."""
    scorer, lineage = run.scorer, board_of(run).get("lineage", {})
    terms = [
        (_("Dataset"), run.dataset.name),
        (_("Collection"), run.collection.name or _("the default collection")),
        (_("Responses"), composition(basis_counts(rows_of(run)))),
        (_("Guideline"), f"{scorer.guideline}"),
        (_("Guideline, sha256"), scorer.guideline.sha256),
        (_("Gold release"), scorer.release.name),
        (_("Gold release, sha256"), scorer.release.sha256),
        (_("Labels of people"), "".join(imports_note(scorer.release))),
        (_("Scorer"), join_names([scorer.name, scorer.backbone])),
        (_("Weights, sha256"), run.weights_sha256 or scorer.weights_sha256),
        (_("Seed"), str(lineage.get("seed", "-"))),
        (_("Software"), f"Assay {run.code_version or lineage.get('code_version', '')}".strip()),
        (_("Finished"), _day(run)),
        *(
            (cost_tile["label"], f"{cost_tile['value']} ({cost_tile['note']})")
            for cost_tile in cost_tiles(run.cost)
        ),
    ]
    return [(term, text) for term, text in terms if text and text != "-"]


def _day(run: BenchmarkRun) -> str:
    return "" if run.finished_at is None else date_format(localtime(run.finished_at), "Y-m-d H:i")
