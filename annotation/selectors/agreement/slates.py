"""How well people agree on the entries of slates: on which is the best, ties apart, and on how all of them rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from annotation.domain.agreement.patterns import PromptCounts
from annotation.domain.agreement.rankings import (
    ChoiceAgreement,
    Concordance,
    measure_choices,
    measure_concordance,
)
from annotation.domain.guidelines import Criterion
from annotation.domain.guidelines.entries import read_ranking
from annotation.selectors.agreement.report import LabelPatterns, PatternCounts, statistic_to_json


@dataclass(frozen=True)
class SlateAgreement:
    """On one criterion: on the best entry (``choices``), or on a ranking (``concordance``)."""

    counted: PatternCounts
    choices: ChoiceAgreement | None = None
    concordance: Concordance | None = None

    def to_json(self) -> dict[str, Any]:
        """``decided``: of the labels that name an entry, so that ties and none are left out. ``chance`` is what
        Kendall's W would be if people ranked by chance.
        """
        row: dict[str, Any] = {"guideline": self.counted.guideline, "criterion": self.counted.criterion}
        if self.choices is not None:
            for name, agreement in (("every", self.choices.every), ("decided", self.choices.decided)):
                statistics = {key: statistic_to_json(value) for key, value in agreement.statistics.items()}
                row[name] = {"n": agreement.n, "disputed": agreement.disputed, **statistics}
        if self.concordance is not None:
            row |= {"n": self.concordance.items, "chance": self.concordance.chance}
            row["kendall_w"] = statistic_to_json(self.concordance.w)
        return row


def list_slate_agreement(patterns: LabelPatterns) -> list[SlateAgreement]:
    """A row for each criterion that asks for the best entry or a ranking, and that two people answered."""
    return patterns.labels.cache("agreement on slates", lambda: _measure_rows(patterns))


def _measure_rows(patterns: LabelPatterns) -> list[SlateAgreement]:
    rows = []
    for counted in patterns.list_counts():
        criterion = _find_criterion(patterns, counted)
        if criterion is None or not counted.n:
            continue
        if criterion.entries == "ranking":
            rows.append(SlateAgreement(counted, concordance=_measure_rankings(counted.counts)))
        elif not criterion.several:
            rows.append(SlateAgreement(counted, choices=measure_choices(counted.counts)))
    return rows


def _find_criterion(patterns: LabelPatterns, counted: PatternCounts) -> Criterion | None:
    """The criterion, in its newest version, where it asks for entries."""
    if counted.criterion is None:
        return None
    versions = patterns.labels.versions(counted.guideline, counted.criterion)
    return next((version for version in reversed(versions) if version.entries is not None), None)


def _measure_rankings(counts: PromptCounts) -> Concordance:
    items: list[list[tuple[int, ...]]] = []
    prompts: list[int] = []
    columns = (counts.place.tolist(), counts.prompt.tolist(), counts.n.tolist())
    for place, prompt, n in zip(*columns, strict=True):
        ranks = [read_ranking(int(label)) for label in counts.patterns[place] if label is not None]
        items += [ranks] * n
        prompts += [prompt] * n
    return measure_concordance(items, prompts)
