"""The figures of a release's datasheet, taken from its manifest alone. Pure.

Rows hold numbers and codes; the sentences around them and the words for the codes are in the template of the datasheet.
An older manifest knows less than a newer one; what it lacks is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from annotation.domain.adjudication import (
    ADJUDICATED,
    AGGREGATED,
    EXPERT,
    MAJORITY,
    MEDIAN,
    SINGLE,
    UNANIMOUS,
    WITHIN_TOLERANCE,
)
from annotation.domain.agreement import MASI
from annotation.domain.guidelines.values import NA, order_level
from annotation.domain.releases.manifest import index_dimensions
from annotation.domain.releases.origins import LabelOrigins, count_origins, find_batch_origins

Manifest: TypeAlias = Mapping[str, Any]
Statistic: TypeAlias = Mapping[str, float | None]
TASK_STATES = ("agreed", "adjudicated", "disputed", "open", "withdrawn")


class GuidelineTexts:
    """What the guidelines of a manifest call their parts, in one language or else in the first that they have."""

    def __init__(self, manifest: Manifest, language: str) -> None:
        self._language = "zh" if language.lower().startswith("zh") else "en"
        self._dimensions = index_dimensions(manifest["guidelines"])
        self._criteria: dict[str, Mapping[str, Any]] = {
            criterion["name"]: criterion
            for guideline in manifest["guidelines"]
            for criterion in guideline.get("criteria", ())
        }

    def choose(self, texts: Mapping[str, str] | None, default: str) -> str:
        """The text in the language; the texts may have been written in one language only."""
        texts = texts or {}
        matching = (text for code, text in texts.items() if code.startswith(self._language))
        return next(matching, next(iter(texts.values()), default))

    def guideline(self, guideline: Mapping[str, Any]) -> str:
        return self.choose(guideline.get("title"), guideline["name"])

    def criterion(self, name: str) -> str:
        return self.choose(self._criteria.get(name, {}).get("label"), name)

    def level(self, criterion: str, value: str) -> str:
        """The value with its name; of a set of options each option with its own."""
        known = self._criteria.get(criterion, {})
        levels = known.get("levels", {})
        if known.get("measurement") == MASI and value not in levels:
            options = [option for option in levels if option != NA and int(option) & int(value)]
            return ", ".join(self.level(criterion, option) for option in options)
        return f"{value} {self.choose(levels.get(value), '')}".strip()

    def dimension(self, name: str) -> str:
        dimension = self._dimensions.get(name)
        return self.choose(dimension["label"], name) if dimension else name

    def subcomponent(self, dimension: str, name: str) -> str:
        parts = self._dimensions.get(dimension, {}).get("subcomponents", ())
        return next((self.choose(part["label"], name) for part in parts if part["name"] == name), name)

    def measurement(self, criterion: str | None) -> str:
        measurement: str = self._criteria.get(criterion or "", {}).get("measurement", "nominal")
        return measurement


def list_levels(manifest: Manifest) -> Iterator[tuple[str, str, int]]:
    """Criterion, level and the number of labels."""
    for criterion, levels in manifest["counts"]["by_level"].items():
        for value in sorted(levels, key=order_level):
            yield criterion, value, levels[value]


def list_subcomponents(manifest: Manifest) -> list[tuple[str, str, int]]:
    """Dimension, subcomponent and the number of labels; nothing where no prompt has a subcomponent."""
    counts = manifest["counts"].get("by_subcomponent", {})
    rows = [(dimension, part, count) for dimension, parts in counts.items() for part, count in parts.items()]
    return rows if any(part for _dimension, part, _count in rows) else []


def list_same_texts(manifest: Manifest) -> list[Mapping[str, Any]]:
    """The warnings of prompts that share a text."""
    return [warning for warning in manifest.get("warnings", ()) if warning["kind"] == "same_text"]


@dataclass(frozen=True)
class BatchPolicy:
    """The policy of a batch, and where its annotations came from.

    ``pairing`` is None where nobody was given anything here; the days are those on which somebody submitted here.
    """

    batch: str
    guideline: str
    overlap: int
    pairing: str | None
    tolerance: float
    origins: LabelOrigins


def list_policies(manifest: Manifest) -> Iterator[BatchPolicy]:
    for batch in manifest["protocol"]:
        origins = find_batch_origins(batch, manifest.get("imported"))
        yield BatchPolicy(
            batch["name"],
            f"{batch['guideline']}@{batch['guideline_version']}",
            batch["overlap"],
            batch["pairing"] if origins.given_here else None,
            batch["tolerance"],
            origins,
        )


@dataclass(frozen=True)
class SettledLabels:
    """How many labels of a release were settled in each way; ``is_ruled``: by no other policy than adjudication."""

    single: int
    unanimous: int
    within_tolerance: int
    majority: int
    median: int
    aggregated: int
    adjudicated: int
    expert: int
    is_ruled: bool


def count_settled(manifest: Manifest) -> SettledLabels:
    counts = manifest["counts"]["by_source"]
    return SettledLabels(
        single=counts.get(SINGLE, 0),
        unanimous=counts.get(UNANIMOUS, 0),
        within_tolerance=counts.get(WITHIN_TOLERANCE, 0),
        majority=counts.get(MAJORITY, 0),
        median=counts.get(MEDIAN, 0),
        aggregated=counts.get(AGGREGATED, 0),
        adjudicated=counts.get(ADJUDICATED, 0),
        expert=counts.get(EXPERT, 0),
        is_ruled=set(counts) <= {SINGLE, UNANIMOUS, WITHIN_TOLERANCE, ADJUDICATED},
    )


@dataclass(frozen=True)
class LeftOut:
    """The tasks that the batches had and the release has not; None is not recorded."""

    gold_checks: int | None
    withdrawn: int | None
    unsettled: int | None


def count_left_out(manifest: Manifest) -> LeftOut:
    protocol = manifest.get("protocol")
    if not protocol:
        return LeftOut(None, None, None)
    states: Counter[str] = Counter()
    for batch in protocol:
        states.update(batch["tasks"])
    unsettled = states["open"] + states["disputed"]
    return LeftOut(count_origins(manifest).gold_checks, states["withdrawn"], unsettled)


@dataclass(frozen=True)
class AgreementFigures:
    """A row of agreement, with the alpha that suits the scale of its criterion."""

    guideline: str
    criterion: str | None
    group: Sequence[str]
    tasks: int
    disputed: int
    statistics: Sequence[Statistic | None]


def list_agreement(manifest: Manifest, texts: GuidelineTexts) -> Iterator[AgreementFigures]:
    for row in manifest["agreement"]:
        alpha = f"alpha_{texts.measurement(row['criterion'])}"
        yield AgreementFigures(
            row["guideline"],
            row["criterion"],
            [name or "" for name in row["group"].values()],
            row["n"],
            row["disputed"],
            [row.get(name) for name in ("percent_agreement", alpha, "gwet_ac1")],
        )


def list_headline_agreement(manifest: Manifest, texts: GuidelineTexts) -> list[AgreementFigures]:
    """The row of each guideline that stands for all its labels: its criteria pooled where there are several. None of a
    release that was cut before manifests had agreement."""
    headlines: dict[str, AgreementFigures] = {}
    for figures in list_agreement(manifest, texts) if manifest.get("agreement") else ():
        if not figures.group:
            headlines.setdefault(figures.guideline, figures)
    return list(headlines.values())


def list_files(manifest: Manifest) -> Sequence[Mapping[str, Any]]:
    """The files from which labels were imported."""
    files: Iterable[Mapping[str, Any]] = (manifest.get("imported") or {}).get("files") or ()
    return tuple(files)
