"""How the figures of a board are made: which methods it has, as formulas, and where they come from.

What each does is said by ``templates/benchmark/wording/method.txt``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from annotation.guidelines import GuidelineDocument, Metric
from benchmark.views.presenting import metric_label

from ..figures.draws import RESAMPLES

MIN_HELD, MAX_HELD = 0, 64
"""Of 100 boards of ten equal models with predictions: on so many did ranges hold that were to hold on 95."""


@dataclass(frozen=True)
class Method:
    """``formula`` is for a page, ``latex`` the same for a paper; both blank where words say it all."""

    code: str
    name: str
    formula: str = ""
    latex: str = ""
    metric: Metric | None = None
    resamples: int = RESAMPLES
    min_held: int = MIN_HELD
    max_held: int = MAX_HELD


REFERENCES = (
    "Wilson (1927), Journal of the American Statistical Association 22, 209–212",
    "Newcombe (1998), Statistics in Medicine 17, 873–890 and 2635–2650",
    "Efron & Tibshirani (1993), An Introduction to the Bootstrap",
    "Mogstad, Romano, Shaikh & Wilhelm (2024), Inference for ranks, Review of Economic Studies 91, 476–518",
    "Angelopoulos, Bates, Fannjiang, Jordan & Zrnic (2023), Prediction-powered inference, Science 382, 669–674",
    "Angelopoulos, Duchi & Zrnic (2023), PPI++: Efficient prediction-powered inference, arXiv:2311.01453",
    "Fisch et al. (2024), Stratified prediction-powered inference, arXiv:2406.04291",
    "Cochran (1977), Sampling Techniques, 3rd edition",
)


def methods(document: GuidelineDocument, *, pairs: bool, estimates: bool) -> list[Method]:
    """Those of what the run has."""
    return [
        *(Method("metric", metric_label(metric), metric=metric) for metric in document.metrics),
        Method("basis", _("What counts")),
        *_intervals(),
        *(_pairs() if pairs else ()),
        *(_estimates() if estimates else ()),
    ]


def _intervals() -> Iterator[Method]:
    yield Method(
        "wilson",
        _("Interval of a rate"),
        "(p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)",
        r"\frac{p+\frac{z^2}{2n}\pm z\sqrt{\frac{p(1-p)}{n}+\frac{z^2}{4n^2}}}{1+\frac{z^2}{n}}",
    )
    yield Method("bootstrap", _("Interval of anything else"))


def _pairs() -> Iterator[Method]:
    yield Method(
        "paired_difference",
        _("Paired difference"),
        "d = Σᵢ (aᵢ − bᵢ) / n",
        r"d=\frac1n\sum_{i=1}^{n}(a_i-b_i)",
    )
    yield Method("rank", _("Rank and its range"))
    yield Method("withheld", _("Where predictions take part"))


def _estimates() -> Iterator[Method]:
    yield Method(
        "combined",
        _("People and scorer combined"),
        "θ = mean(y) + λ·(mean(f, not labelled) − mean(f, labelled))",
        r"\hat\theta_\lambda=\frac1n\sum_{i=1}^{n}y_i"
        r"+\lambda\Bigl(\frac1N\sum_{j=1}^{N}f(\tilde x_j)-\frac1n\sum_{i=1}^{n}f(x_i)\Bigr)",
    )
    yield Method("finite", _("For these prompts only"))
    yield Method("bias", _("Bias of the scorer alone"))
