"""How the figures of a board are made: in words, as formulas, with where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from annotation.guidelines import GuidelineDocument, Metric
from benchmark.views.presenting import metric_label, sentences

from ..figures.draws import RESAMPLES


@dataclass(frozen=True)
class Method:
    """``formula`` is for a page, ``latex`` the same for a paper; both blank where words say it all."""

    name: str
    text: str
    formula: str = ""
    latex: str = ""


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
        *_numbers(document),
        *_intervals(),
        *(_pairs() if pairs else ()),
        *(_estimates() if estimates else ()),
    ]


def _numbers(document: GuidelineDocument) -> Iterator[Method]:
    for metric in document.metrics:
        yield Method(metric_label(metric), _value(metric))
    yield Method(
        _("What counts"),
        _(
            "For each response the gold label, where people settled one; else a prediction by a part of the scorer "
            "that has not learned from this text (out of fold), or by the scorer where the text is no part of its "
            "release (unseen). A response with none of these is counted as without a value."
        ),
    )


def _value(metric: Metric) -> str:
    overall = {
        "mean_of_dimensions": _(
            "Overall is the unweighted mean of the unrounded values of the dimensions; without one of them it is "
            "undefined."
        ),
        "pooled": _("Overall takes all labels together."),
        "none": _("It has no overall value."),
    }[metric.overall]
    if metric.kind == "rate":
        return sentences([_("The share of labels at the counted levels."), overall])
    formula = _("{formula} of the labels.").format(formula=metric.formula or "mean")
    return sentences([formula, overall])


def _intervals() -> Iterator[Method]:
    yield Method(
        _("Interval of a rate"),
        _("Wilson's score interval at 95%, for n labels of which the share p is counted, with z = 1.96."),
        "(p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)",
        r"\frac{p+\frac{z^2}{2n}\pm z\sqrt{\frac{p(1-p)}{n}+\frac{z^2}{4n^2}}}{1+\frac{z^2}{n}}",
    )
    yield Method(
        _("Interval of anything else"),
        _(
            "Bootstrap: the prompts of each dimension are drawn again with replacement {n} times; the interval is the "
            "middle 95% of the draws, and undefined where the draws cannot differ."
        ).format(n=f"{RESAMPLES:,}"),
    )


def _pairs() -> Iterator[Method]:
    yield Method(
        _("Paired difference"),
        _(
            "Two models are compared on the prompts that both answered. Of a rate of single labels the interval is "
            "Newcombe's, which joins the Wilson intervals of both models and takes their correlation into account; of "
            "anything else the prompts are drawn again, and with each of them the responses of both models. So what "
            "makes a prompt hard for both falls out of the difference."
        ),
        "d = Σᵢ (aᵢ − bᵢ) / n",
        r"d=\frac1n\sum_{i=1}^{n}(a_i-b_i)",
    )
    yield Method(
        _("Rank and its range"),
        _(
            "Equals share a rank. The range is what the paired differences leave possible when all pairs are looked at "
            "at once: with 95% confidence none of the orders that it states is wrong. A single difference is told "
            "apart where its own 95% interval leaves out 0, so more pairs are told apart than ranges show."
        ),
    )
    yield Method(
        _("Where predictions take part"),
        _(
            "Ranks and intervals of differences take every label for the truth, but a scorer's errors differ from "
            "model to model. In a simulation of ten equal models, ranges that were to hold for all of them on 95 of "
            "100 boards held on {low} to {high}. So wherever a prediction stands behind a number, neither its rank nor "
            "intervals of its differences are given; the combined numbers under Estimates know of the errors."
        ).format(low=0, high=64),
    )


def _estimates() -> Iterator[Method]:
    yield Method(
        _("People and scorer combined"),
        _(
            "Prediction-powered inference (PPI++): the mean of people's labels y, corrected by what the scorer's "
            "predictions f say of the responses that nobody labelled, within strata of how sure the scorer is. The "
            "weight λ is chosen from the data so that the variance is least; with a useless scorer it is 0 and the "
            "number is that of people alone. Predictions of labelled responses are out of fold. Within a stratum the "
            "labelled responses must be a random draw."
        ),
        "θ = mean(y) + λ·(mean(f, not labelled) − mean(f, labelled))",
        r"\hat\theta_\lambda=\frac1n\sum_{i=1}^{n}y_i"
        r"+\lambda\Bigl(\frac1N\sum_{j=1}^{N}f(\tilde x_j)-\frac1n\sum_{i=1}^{n}f(x_i)\Bigr)",
    )
    yield Method(
        _("For these prompts only"),
        _(
            "The same for the fixed set of prompts of this board: responses that people labelled are known, so only "
            "the rest is uncertain (finite population correction). The other intervals speak of all prompts like "
            "these."
        ),
    )
    yield Method(
        _("Bias of the scorer alone"),
        _("Its number less the one that people's labels correct."),
    )
