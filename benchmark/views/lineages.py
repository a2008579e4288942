"""The chain behind a number, for components/lineage.html."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from annotation.core.formatting import format_grouped
from annotation.core.text_templates import render_text
from annotation.models import GoldRelease
from annotation.selectors.origins import manifest_with_origins
from benchmark.models import BenchmarkRun


def chain(run: BenchmarkRun, first: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """From what is looked at (``first``) down to the guideline."""
    return [*first, run_step(run), *_below(run)]


def imports_note(release: GoldRelease) -> list[str]:
    """How many of the annotations behind a release were imported; nothing where none was."""
    imported = manifest_with_origins(release)["imported"]
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


def _below(run: BenchmarkRun) -> list[dict[str, Any]]:
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
