"""How the figures of a board are made: which methods it has, as formulas, and where they come from.

What each does is said by ``templates/benchmark/wording/method.txt``.

The chain behind a number, for components/lineage.html.

Where a board comes from: the chain down to the guideline, what it was made with, and how its figures are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from annotation.core.formatting import format_grouped
from annotation.core.text_templates import join_names, render_text
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import GoldRelease, Person
from annotation.selectors.origins import add_origins
from benchmark.domain.leaderboards.grounds import MIN_LABELS, MIN_PROMPTS
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_board, list_board_rows
from benchmark.views.leaderboards.formatting import format_composition, metric_label
from benchmark.views.leaderboards.query import Context
from benchmark.views.leaderboards.tabs.reading import count_bases
from benchmark.views.leaderboards.tabs.table import list_cost_tiles
from scoring.views.scorers.promotions import describe_promotion_text


@dataclass(frozen=True)
class Method:
    """``formula`` is for a page, ``latex`` the same for a paper; both blank where words say it all."""

    code: str
    name: str
    formula: str = ""
    latex: str = ""
    metric: Metric | None = None
    min_labels: int = MIN_LABELS
    min_prompts: int = MIN_PROMPTS


REFERENCES = (
    "Wilson (1927), Journal of the American Statistical Association 22, 209–212",
    "Newcombe (1998), Statistics in Medicine 17, 873–890 and 2635–2650",
    "Yan & Su (2010), Statistics in Biopharmaceutical Research 2, 329–335",
    "Romano & Wolf (2005), Journal of the American Statistical Association 100, 94–108",
    "Mogstad, Romano, Shaikh & Wilhelm (2024), Inference for ranks, Review of Economic Studies 91, 476–518",
    "Angelopoulos, Bates, Fannjiang, Jordan & Zrnic (2023), Prediction-powered inference, Science 382, 669–674",
    "Angelopoulos, Duchi & Zrnic (2023), PPI++: Efficient prediction-powered inference, arXiv:2311.01453",
    "Fisch et al. (2024), Stratified prediction-powered inference, arXiv:2406.04291",
    "Cochran (1977), Sampling Techniques, 3rd edition",
)


def list_methods(document: GuidelineDocument, *, pairs: bool, estimates: bool) -> list[Method]:
    """Those of what the run has."""
    return [
        *(Method("metric", metric_label(metric), metric=metric) for metric in document.metrics),
        Method("basis", _("Labels and predictions that count")),
        *_interval_methods(),
        *(_pair_methods() if pairs else ()),
        *(_estimate_methods() if estimates else ()),
    ]


def _interval_methods() -> Iterator[Method]:
    yield Method(
        "wilson",
        _("Interval of a rate"),
        "(p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)",
        r"\frac{p+\frac{z^2}{2n}\pm z\sqrt{\frac{p(1-p)}{n}+\frac{z^2}{4n^2}}}{1+\frac{z^2}{n}}",
    )
    yield Method("mean", _("Interval of a mean"), "m ± t·s/√n", r"m\pm t\,\frac{s}{\sqrt n}")
    yield Method("overall_interval", _("Interval of an overall number"))


def _pair_methods() -> Iterator[Method]:
    yield Method(
        "paired_difference",
        _("Paired difference"),
        "d = Σᵢ (aᵢ − bᵢ) / n",
        r"d=\frac1n\sum_{i=1}^{n}(a_i-b_i)",
    )
    yield Method("rank", _("Rank and its range"))
    yield Method("grounds", _("Compared models"))


def _estimate_methods() -> Iterator[Method]:
    yield Method(
        "combined",
        _("Gold and scorer combined"),
        "θ = mean(y) + λ·(mean(f, not labelled) − mean(f, labelled))",
        r"\hat\theta_\lambda=\frac1n\sum_{i=1}^{n}y_i"
        r"+\lambda\Bigl(\frac1N\sum_{j=1}^{N}f(\tilde x_j)-\frac1n\sum_{i=1}^{n}f(x_i)\Bigr)",
    )
    yield Method("finite", _("For these prompts only"))
    yield Method("bias", _("Bias of the scorer alone"))


def list_lineage_steps(run: BenchmarkRun, first: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """From what is looked at (``first``) down to the guideline."""
    return [*first, run_step(run), *_list_lower_steps(run)]


def imports_note(release: GoldRelease) -> list[str]:
    """How many of the annotations behind a release were imported; nothing where none was."""
    imported = add_origins(release)["imported"]
    if not imported["annotations"] and not imported["adjudications"]:
        return []
    return [
        render_text(
            "benchmark/wording/imported.txt",
            annotations=imported["annotations"],
            decisions=imported["adjudications"],
        )
    ]


def run_step(run: BenchmarkRun) -> dict[str, Any]:
    return {
        "kind": _("Benchmark run"),
        "label": run.name,
        "url": reverse("run", args=[run.name]),
        "note": _("code {version}").format(version=run.code_version) if run.code_version else "",
    }


def _list_lower_steps(run: BenchmarkRun) -> list[dict[str, Any]]:
    scorer = run.scorer
    return [
        {
            "kind": _("Scorer"),
            "label": scorer.name,
            "url": reverse("scorer", args=[scorer.name]),
            "note": scorer.backbone,
            "hash": run.weights_sha256 or scorer.weights_sha256,
        },
        {
            "kind": _("Gold release"),
            "label": scorer.release.name,
            "url": reverse("release", args=[scorer.release.name]),
            "hash": scorer.release.sha256,
        },
        {
            "kind": _("Gold labels"),
            "label": format_grouped(scorer.release.labels),
            "url": reverse("release-labels", args=[scorer.release.name]),
            "note": "; ".join([_("each with the annotations behind it"), *imports_note(scorer.release)]),
        },
        {
            "kind": _("Guideline"),
            "label": str(scorer.guideline),
            "url": reverse("guideline", args=[scorer.guideline.name, scorer.guideline.version]),
            "hash": scorer.guideline.sha256,
        },
    ]


def lineage_context(run: BenchmarkRun, reader: Person | None = None, *, public: bool = False) -> Context:
    steps = list_lineage_steps(run, [])
    parts = set(run.parts.values_list("name", flat=True))
    return {
        "steps": [{**step, "url": ""} for step in steps] if public else steps,
        "facts": list_facts(run, reader),
        "methods": list_methods(
            run.scorer.guideline.document, pairs="pairs" in parts, estimates="estimates" in parts
        ),
        "references": REFERENCES,
    }


def list_facts(run: BenchmarkRun, reader: Person | None = None) -> list[tuple[str, str]]:
    """(term, text), hashes in full: what a paper must say so that the board can be made again."""
    scorer, lineage = run.scorer, find_board(run).get("lineage", {})
    terms = [
        (_("Dataset"), run.dataset.name),
        (_("Collection"), run.collection.name or _("the default collection")),
        (_("Responses"), format_composition(count_bases(list_board_rows(run)))),
        (_("Guideline"), f"{scorer.guideline}"),
        (_("Guideline, sha256"), scorer.guideline.sha256),
        (_("Gold release"), scorer.release.name),
        (_("Gold release, sha256"), scorer.release.sha256),
        (_("Origin of the labels"), "".join(imports_note(scorer.release))),
        (_("Scorer"), join_names([scorer.name, scorer.backbone])),
        (_("Gate"), describe_promotion_text(scorer, reader)),
        (_("Weights, sha256"), run.weights_sha256 or scorer.weights_sha256),
        (_("Seed"), str(lineage.get("seed", "-"))),
        (_("Software"), f"Assay {run.code_version or lineage.get('code_version', '')}".strip()),
        (_("Finished"), _finished_day(run)),
        *(
            (cost_tile["label"], f"{cost_tile['value']} ({cost_tile['note']})")
            for cost_tile in list_cost_tiles(run.cost)
        ),
    ]
    return [(term, text) for term, text in terms if text and text != "-"]


def _finished_day(run: BenchmarkRun) -> str:
    return "" if run.finished_at is None else date_format(localtime(run.finished_at), "Y-m-d H:i")
