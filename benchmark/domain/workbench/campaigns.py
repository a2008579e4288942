"""What a campaign is to be, how a prompt is classified, and when an attack succeeds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import field_validator, model_validator

from annotation.core.errors import N_, AssayError, Unprocessable
from annotation.core.names import check_printable_name
from annotation.core.specs import FrozenSpec, Id, Name
from annotation.domain.datasets import EXPLICIT, IMPLICIT
from annotation.domain.guidelines import GuidelineDocument
from benchmark.domain.workbench.duplicates import DEFAULT_THRESHOLDS

MAX_TARGETS = 5
MAX_TEXT_CHARACTERS = 8000
MAX_REASON_CHARACTERS = 4000
MAX_WANTED = 100_000
MAX_TARGET_TIMEOUT = 600.0
MIN_JACCARD, MIN_EDIT = 0.4, 0.7
"""Below these the bands of texts fetch too few candidates for what a threshold promises."""
MALICE = (EXPLICIT, IMPLICIT)


class TargetSpec(FrozenSpec):
    """A model, by the name it has here, at an endpoint that knows it as ``served_model``. ``timeout`` is in seconds."""

    model: str
    endpoint: str
    served_model: str = ""
    settings: dict[str, Any] = {}
    timeout: float = 60.0

    @field_validator("model")
    @classmethod
    def _check_model(cls, name: str) -> str:
        return check_printable_name(name)

    @field_validator("timeout")
    @classmethod
    def _check_timeout(cls, seconds: float) -> float:
        if not 0 < seconds <= MAX_TARGET_TIMEOUT:
            raise AssayError(
                N_("Give a request up after more than 0 and at most {longest} seconds."),
                longest=int(MAX_TARGET_TIMEOUT),
            )
        return seconds


class QuotaSpec(FrozenSpec):
    """So many prompts are wanted of a cell; ``method`` is the name of an attack method of the study."""

    dimension: str = ""
    subcomponent: str = ""
    method: str
    wanted: int
    per_person: int | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        least = self.wanted if self.per_person is None else min(self.wanted, self.per_person)
        if least < 1 or self.wanted > MAX_WANTED:
            raise AssayError(
                N_("A quota is a whole number from 1 to {most}, of each person too."), most=MAX_WANTED
            )
        return self

    @property
    def cell(self) -> tuple[str, str, str]:
        return self.dimension, self.subcomponent, self.method


class CampaignSpec(FrozenSpec):
    """A campaign: ``success`` are the levels of each criterion that count as a success of the attack. Without a number
    of requests there is no limit, and without ``warn_cosine`` texts are not compared by meaning. Dataset, guideline and
    people are named by their ids.
    """

    name: Name
    dataset: Id
    guideline: Id
    targets: tuple[TargetSpec, ...]
    quotas: tuple[QuotaSpec, ...]
    success: dict[str, tuple[float, ...]]
    languages: tuple[str, ...] = ("zh",)
    authors: tuple[Id, ...] = ()
    reviewers: tuple[Id, ...] = ()
    is_blind: bool = False
    disclosure: dict[str, str] = {}
    requests_per_person: int | None = None
    max_requests: int | None = None
    warn_jaccard: float = DEFAULT_THRESHOLDS.warn_jaccard
    warn_edit: float = DEFAULT_THRESHOLDS.warn_edit
    block_jaccard: float = DEFAULT_THRESHOLDS.block_jaccard
    block_edit: float = DEFAULT_THRESHOLDS.block_edit
    warn_cosine: float | None = None

    @field_validator("targets")
    @classmethod
    def _check_targets(cls, targets: tuple[TargetSpec, ...]) -> tuple[TargetSpec, ...]:
        if not 1 <= len(targets) <= MAX_TARGETS:
            raise AssayError(N_("A campaign has 1 to {most} targets."), most=MAX_TARGETS)
        names = [target.model for target in targets]
        if len(set(names)) < len(names):
            raise AssayError(N_("Each target is another model; one is named twice."))
        return targets

    @field_validator("quotas")
    @classmethod
    def _check_quotas(cls, quotas: tuple[QuotaSpec, ...]) -> tuple[QuotaSpec, ...]:
        if not quotas:
            raise AssayError(N_("Say how many prompts are wanted of at least one cell."))
        cells = [quota.cell for quota in quotas]
        twice = next((cell for cell in cells if cells.count(cell) > 1), None)
        if twice is not None:
            raise AssayError(
                N_("The cell {cell} is named twice."), cell=" / ".join(filter(None, twice)) or "-"
            )
        return quotas

    @field_validator("languages")
    @classmethod
    def _check_languages(cls, languages: tuple[str, ...]) -> tuple[str, ...]:
        if not languages or any(not name or len(name) > 20 or not name.isprintable() for name in languages):
            raise AssayError(N_("Name the languages of the prompts, such as zh or en."))
        return tuple(dict.fromkeys(languages))

    @field_validator("requests_per_person", "max_requests")
    @classmethod
    def _check_budget(cls, requests: int | None) -> int | None:
        if requests is not None and requests < 1:
            raise AssayError(N_("A budget is at least one request; leave it out for no limit."))
        return requests

    @field_validator("warn_cosine")
    @classmethod
    def _check_cosine(cls, cosine: float | None) -> float | None:
        if cosine is not None and not 0 < cosine <= 1:
            raise AssayError(
                N_("The cosine that warns is above 0 and at most 1; this one is {cosine}."),
                cosine=f"{cosine:g}",
            )
        return cosine

    @model_validator(mode="after")
    def _check_thresholds(self) -> Self:
        for least, warn, block in (
            (MIN_JACCARD, self.warn_jaccard, self.block_jaccard),
            (MIN_EDIT, self.warn_edit, self.block_edit),
        ):
            if not least <= warn <= block <= 1:
                raise AssayError(
                    N_(
                        "The similarity that warns is at least {least} and at most the one that blocks, which is at"
                        " most 1; these are {warn} and {block}."
                    ),
                    least=f"{least:g}",
                    warn=f"{warn:g}",
                    block=f"{block:g}",
                )
        return self

    @model_validator(mode="after")
    def _check_people(self) -> Self:
        if both := set(self.authors) & set(self.reviewers):
            # They could review nothing of their own, but know what the others were asked.
            raise AssayError(
                N_("{n} people are named as author and as reviewer; choose one for each."), n=len(both)
            )
        return self


class Classification(FrozenSpec):
    """What kind of attack a prompt is. ``method`` is the name of an attack method."""

    dimension: str = ""
    subcomponent: str = ""
    method: str
    malice: str

    def list_differences(self, other: Classification) -> list[str]:
        """The names of the fields in which they differ."""
        return [name for name in type(self).model_fields if getattr(self, name) != getattr(other, name)]


def check_classification(
    classification: Classification, document: GuidelineDocument, methods: Sequence[str]
) -> Classification:
    """Unprocessable where the guideline or the study does not know a part of it, or a part is missing."""
    dimensions = document.dimension_names
    if dimensions and classification.dimension not in dimensions:
        raise Unprocessable(N_("Choose the dimension, one of: {known}."), known=", ".join(dimensions))
    known = list_subcomponents(document, classification.dimension)
    if classification.subcomponent not in (known or ("",)):
        raise Unprocessable(N_("Choose the subcomponent, one of: {known}."), known=", ".join(known) or "-")
    if classification.method not in methods:
        raise Unprocessable(N_("Choose the attack method, one of: {known}."), known=", ".join(methods) or "-")
    if classification.malice not in MALICE:
        raise Unprocessable(N_("Say whether the malice is explicit or implicit."))
    return classification


def list_subcomponents(document: GuidelineDocument, dimension: str) -> tuple[str, ...]:
    known = document.dimension(dimension)
    return tuple(part.name for part in known.subcomponents) if known else ()


def check_success(success: Mapping[str, Sequence[float]], document: GuidelineDocument) -> None:
    """AssayError where a level does not exist, or a dimension has no criterion that could show a success."""
    if not success:
        raise AssayError(N_("Say which levels count as a success of the attack."))
    by_name = {criterion.name: criterion for criterion in document.countable_criteria}
    for name, levels in success.items():
        if name not in by_name:
            raise AssayError(
                N_("{guideline} has no criterion {name} with levels; use one of {known}."),
                guideline=document.name,
                name=name,
                known=", ".join(by_name),
            )
        unknown = [level for level in levels if level not in by_name[name].values]
        if unknown or not levels:
            raise AssayError(
                N_("Levels of {name} that count as a success are some of {known}."),
                name=name,
                known=", ".join(f"{value:g}" for value in by_name[name].values),
            )
    for dimension in document.dimension_names or (None,):
        if not list_asked(success, document, dimension or ""):
            raise AssayError(
                N_("No criterion of the dimension {dimension} says what counts as a success."),
                dimension=dimension or "-",
            )


def list_asked(
    success: Mapping[str, Sequence[float]], document: GuidelineDocument, dimension: str
) -> tuple[str, ...]:
    """The criteria whose levels decide whether an attack of this dimension succeeds."""
    return tuple(
        criterion.name for criterion in document.countable_for(dimension or None) if criterion.name in success
    )


def check_levels(
    levels: Mapping[str, object],
    success: Mapping[str, Sequence[float]],
    document: GuidelineDocument,
    dimension: str,
) -> dict[str, int | float]:
    """A level for each criterion that is asked, and for no other; else Unprocessable."""
    criteria = list_asked(success, document, dimension)
    if set(levels) != set(criteria):
        raise Unprocessable(N_("Give a level of: {criteria}."), criteria=", ".join(criteria))
    return {name: document.criterion(name).check_level(levels[name]) for name in criteria}


def is_success(levels: Mapping[str, float], success: Mapping[str, Sequence[float]]) -> bool:
    """Whether the response shows what was attacked: any of the levels counts as a success."""
    return any(level in success.get(name, ()) for name, level in levels.items())


ATTACK_SUCCESS_RATE = "attack_success_rate"
"""The metric in which a guideline declares which levels show that an attack succeeded."""


def default_success(document: GuidelineDocument) -> dict[str, tuple[float, ...]]:
    """By criterion, what the guideline's attack success rate counts; nothing where it declares none."""
    metric = next((metric for metric in document.metrics if metric.name == ATTACK_SUCCESS_RATE), None)
    if metric is None:
        return {}
    return {
        criterion.name: tuple(level for level in metric.levels_for(dimension) if level in criterion.values)
        for dimension in document.dimensions_of(metric) or (None,)
        for criterion in document.criteria_of(metric, dimension)
    }
