"""What the agreement pages call things, in the reader's language."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from annotation.core.formatting import (
    format_compact,
    format_decimal,
    format_interval,
    format_interval_percent,
    format_percent,
)
from annotation.domain.agreement import Agreement, Measurement, Statistic
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.guidelines.values import strip_turn
from annotation.models import DisputeReason, Guideline, Prompt
from annotation.selectors.agreement import Narrowing, PatternCounts
from annotation.selectors.agreement.causes import ShareEstimate
from annotation.selectors.guidelines import criterion_label, dimension_label, level_text, subcomponent_label
from annotation.views.annotations.outcomes import localize_reason

STATISTICS: dict[str, str | Promise] = {
    "percent_agreement": gettext_lazy("Percent agreement"),
    "cohen_kappa": gettext_lazy("Cohen's kappa"),
    "alpha_nominal": gettext_lazy("Alpha, nominal"),
    "alpha_ordinal": gettext_lazy("Alpha, ordinal"),
    "alpha_interval": gettext_lazy("Alpha, interval"),
    "alpha_masi": gettext_lazy("Alpha, MASI"),
    "gwet_ac1": gettext_lazy("Gwet's AC1"),
    "gwet_ac2": gettext_lazy("Gwet's AC2"),
    "cohen_kappa_linear": gettext_lazy("Kappa, linear weights"),
    "cohen_kappa_quadratic": gettext_lazy("Kappa, quadratic weights"),
    "cohen_kappa_quadratic_observed": gettext_lazy("Kappa, quadratic weights, observed levels"),
    "spearman": gettext_lazy("Spearman's correlation"),
    "icc_single": gettext_lazy("ICC(2,1)"),
    "icc_average": gettext_lazy("ICC(2,k)"),
    "scott_pi": gettext_lazy("Scott's pi"),
    "fleiss_kappa": gettext_lazy("Fleiss' kappa"),
}
"""In the order of the columns: what a reader looks for first stands first."""

POOL_KAPPAS: dict[str, str | Promise] = {
    "pairwise": gettext_lazy("Mean pairwise kappa"),
    "conger": gettext_lazy("Conger's kappa"),
}
"""Of more than two people, in place of Cohen's."""

FACETS: dict[str, str | Promise] = {
    "dimension": gettext_lazy("Dimension"),
    "subcomponent": gettext_lazy("Subcomponent"),
    "criterion": gettext_lazy("Criterion"),
    "guideline_version": gettext_lazy("Guideline version"),
    "model": gettext_lazy("Model"),
    "pair": gettext_lazy("Pair"),
    "week": gettext_lazy("Week"),
    "language": gettext_lazy("Language"),
    "attack_method": gettext_lazy("Attack method"),
    "malice": gettext_lazy("Malice"),
    "round": gettext_lazy("Labelling round"),
}
# The customary marks for alpha: K. Krippendorff, Content Analysis (2004), chapter 11.
RELIABLE, TENTATIVE = 0.8, 0.667


class GuidelineWords:
    """What guidelines call their parts in the reader's language: each by its latest version that has the part."""

    def __init__(self, guidelines: Iterable[Guideline]) -> None:
        self._documents: dict[str, list[GuidelineDocument]] = defaultdict(list)
        for guideline in sorted(guidelines, key=lambda guideline: -guideline.pk):
            self._documents[guideline.name].append(guideline.document)
        self.several = len(self._documents) > 1

    def criterion(self, guideline: str, name: str | None) -> str:
        """Without a name several of them, pooled."""
        if name is None:
            return gettext("all criteria pooled")
        return self.translate_name(criterion_label, guideline, name)

    def group(self, counted: PatternCounts) -> tuple[str, ...]:
        """The values of the row's facets; empty where a prompt has none."""
        return tuple(self.value(facet, name, counted.guideline) for facet, name in counted.group.items())

    def value(self, facet: str, name: str | None, guideline: str = "") -> str:
        """A facet's value; without a ``guideline`` as any of them calls it, and empty where there is none."""
        labels = {
            "dimension": dimension_label,
            "subcomponent": subcomponent_label,
            "criterion": criterion_label,
        }
        if facet == "malice" and name in Prompt.Malice.values:
            return str(Prompt.Malice(name).label)
        if not name or facet not in labels:
            return name or ""
        names = (
            self.translate_name(labels[facet], document_name, name)
            for document_name in ([guideline] if guideline else self._documents)
        )
        return next((words for words in names if words != name), name)

    def translate_name(
        self, label: Callable[[GuidelineDocument, str], str], guideline: str, name: str
    ) -> str:
        names = (label(document, name) for document in self._documents[guideline])
        return next((words for words in names if words != name), name)

    def level(self, guideline: str, criterion: str, value: float) -> str:
        name = strip_turn(criterion)
        criteria = (criterion for document in self._documents[guideline] for criterion in document.criteria)
        named_criterion = next(
            (known_criterion for known_criterion in criteria if known_criterion.name == name), None
        )
        return level_text(named_criterion, value) if named_criterion else format_compact(value)


@dataclass(frozen=True)
class FigureWords:
    value: str
    interval: str


def format_figure(statistic: Statistic) -> FigureWords | None:
    if statistic.value is None:
        return None
    return FigureWords(format_decimal(statistic.value), format_interval(statistic.low, statistic.high))


def format_effect(agreement: Agreement) -> str:
    """The design effect of percent agreement; empty where nothing varies."""
    effect = agreement.statistics["percent_agreement"].design_effect
    return "" if effect is None else format_decimal(effect, 2)


def list_no_intervals(statistics: Iterable[Statistic]) -> list[str]:
    """The codes of why some of them have no interval, for the template's words."""
    codes = [statistic.no_interval for statistic in statistics]
    return [code for code in dict.fromkeys(codes) if code]


def format_share(share: ShareEstimate) -> FigureWords | None:
    """As percent, with its interval."""
    if share.value is None or share.low is None or share.high is None:
        return None
    return FigureWords(format_percent(share.value), format_interval_percent(share.low, share.high))


def find_reading(low: float | None) -> tuple[str, str] | None:
    """A badge's state and word, by the lower end of alpha's interval, so that a few units cannot pass for reliable."""
    if low is None:
        return None
    if low >= RELIABLE:
        return "success", gettext("Reliable")
    if low >= TENTATIVE:
        return "warning", gettext("Tentative")
    return "error", gettext("Not established")


def alpha_name(measurement: Measurement) -> str:
    """The name of alpha at the level of a scale: what a row is read by."""
    return f"alpha_{measurement}"


def format_level_pair(criterion: Criterion | None, low: float, high: float) -> str:
    if criterion is None:
        return f"{format_compact(low)} – {format_compact(high)}"
    return f"{level_text(criterion, low)} – {level_text(criterion, high)}"


def reasons_by_key() -> dict[str, str]:
    """Every reason for a dispute in the reader's language, the retired ones too."""
    return {
        dispute_reason.key: localize_reason(dispute_reason.words) or dispute_reason.key
        for dispute_reason in DisputeReason.objects.all()
    }


@dataclass(frozen=True)
class NarrowingChip:
    """One way in which a page is narrowed, with the address of the page without it."""

    label: str
    value: str
    url: str


def list_chips(
    narrowing: Narrowing, words: GuidelineWords, without: Callable[[str], str]
) -> list[NarrowingChip]:
    """``without`` gives the page's address without one of the narrowing's parameters."""
    parameters = {facet: facet_words(facet, name, words) for facet, name in narrowing.facets}
    parameters |= dict(list_other_parameters(narrowing))
    return [NarrowingChip(label, value, without(name)) for name, (label, value) in parameters.items()]


def facet_words(facet: str, name: str | None, words: GuidelineWords) -> tuple[str, str]:
    return str(FACETS.get(facet, gettext("Guideline"))), words.value(facet, name) or "-"


def list_other_parameters(narrowing: Narrowing) -> Iterable[tuple[str, tuple[str, str]]]:
    if narrowing.levels is not None:
        yield "levels", (gettext("Levels"), format_level_pair(None, *narrowing.levels))
    if narrowing.level is not None:
        yield "level", (gettext("Level"), format_compact(narrowing.level))
    if narrowing.prompt is not None:
        key = Prompt.objects.filter(pk=narrowing.prompt).values_list("key", flat=True).first()
        yield "prompt", (gettext("Prompt"), key or "-")
    if narrowing.day:
        yield "day", (gettext("Day"), narrowing.day)
    if narrowing.reason:
        yield "reason", (gettext("Reason"), reasons_by_key().get(narrowing.reason, narrowing.reason))
    if narrowing.disputed:
        yield "disputed", (gettext("Labels"), gettext("disputed only"))


def drop_parameter(parameters: Mapping[str, str], without: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name != without}
