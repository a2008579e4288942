"""What a batch is to be: its responses, its people and its policy, with the limits and the defaults of each. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Mapping
from datetime import date
from itertools import chain
from typing import Any, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from annotation.core.errors import N_, AssayError
from annotation.core.specs import FrozenSpec, Id, Name, Seed, check_choice
from annotation.domain.texts import TextFormat

MAX_OVERLAP = 10_000
# A plan names the people of each task beforehand; of so many at most it can keep the pairs even.
MAX_PLANNED_OVERLAP = 5
MAX_CHECK_SHARE = 0.5  # more checks than work would be no work any more
MAX_SECOND_READING_DAYS = 365

# What a number of the policy may be, from 0 on, and how whatever is beyond it is refused.
RANGES: Mapping[str, tuple[float, str]] = {
    "second_reading_share": (1, N_("The share of repeat adjudications is from 0 to 1.")),
    "second_adjudicator_share": (1, N_("The share of second adjudications is from 0 to 1.")),
    "second_reading_days": (
        MAX_SECOND_READING_DAYS,
        N_("A repeat adjudication waits from 0 to {most} days."),
    ),
    "check_share": (MAX_CHECK_SHARE, N_("The share of gold checks is from 0 to {most}.")),
}

Pairing = Literal["pool", "fixed", "balanced"]
Order = Literal["prompts", "shuffled"]
CollectionPlan = Literal["fixed", "open"]
Settling = Literal["adjudicate", "majority", "median", "experts", "aggregate"]
Aggregation = Literal["dawid-skene", "mace"]
AlarmAction = Literal["tell", "pause"]
Qualifying = Literal["", "accuracy", "kappa"]
QUALIFICATION_IS_HALF = N_(
    "A qualification needs both: by what it is measured, and the threshold to be reached."
)
QUALIFICATION_NEEDS_A_DRAFT = N_(
    "A batch that asks for a qualification begins as a draft: keep it as a draft, add its gold "
    "questions, then open it."
)


class Terms(FrozenSpec):
    """What of a batch's policy may still change while people work in it.

    The lease in seconds; when it is due; when its agreement alarms (``docs/decisions/agreement-alarm.md``); how
    many of the decided disputes, from 0 to 1, come back to their adjudicator after how many days; how many of the items
    are gold checks, and whether people are told after them; the qualification before the work, which stays as it is
    once the batch is open (``docs/gold-questions.md``); how texts are shown (``docs/texts.md``); whether the
    page takes a label only after the end of the response was in sight; and whether nothing is taken of somebody who has
    not read the guideline's introduction.
    """

    lease_seconds: int = 1800
    due_date: date | None = None
    agreement_threshold: float | None = None
    alarm_action: AlarmAction = "tell"
    second_reading_share: float = 0.05
    second_reading_days: int = 14
    second_adjudicator_share: float = 0
    check_share: float = 0
    check_feedback: bool = False
    qualifying: Qualifying = ""
    qualifying_threshold: float | None = None
    response_format: TextFormat = "auto"
    prompt_format: TextFormat = "auto"
    read_to_end: bool = False
    introduction_required: bool = False

    @field_validator("response_format", "prompt_format", mode="before")
    @classmethod
    def _check_format(cls, text_format: str) -> str:
        template = N_("There is no text format {format}; choose one of: {known}.")
        return check_choice(text_format, get_args(TextFormat), template, format=text_format)

    @field_validator("lease_seconds")
    @classmethod
    def _check_lease(cls, seconds: int) -> int:
        if seconds < 1:
            raise AssayError(N_("The lease is at least one second."))
        return seconds

    @field_validator("agreement_threshold")
    @classmethod
    def _check_agreement_threshold(cls, threshold: float | None) -> float | None:
        if threshold is not None and not -1 <= threshold <= 1:
            raise AssayError(
                N_("The agreement threshold is {threshold}; choose -1 to 1, as in 0.667."),
                threshold=threshold,
            )
        return threshold

    @field_validator("alarm_action", mode="before")
    @classmethod
    def _check_alarm_action(cls, action: str) -> str:
        template = N_("There is no alarm {action}; choose one of: {known}.")
        return check_choice(action, get_args(AlarmAction), template, action=action)

    @field_validator("second_reading_share", "second_adjudicator_share", "second_reading_days", "check_share")
    @classmethod
    def _check_range(cls, number: float, info: ValidationInfo) -> float:
        assert info.field_name
        most, template = RANGES[info.field_name]
        if not 0 <= number <= most:
            raise AssayError(template, most=most)
        return number

    @field_validator("qualifying", mode="before")
    @classmethod
    def _check_qualifying(cls, measure: str) -> str:
        template = N_("There is no qualification by {by}; choose one of: {known}.")
        return check_choice(measure, get_args(Qualifying), template, by=measure)

    @model_validator(mode="after")
    def _check_qualification(self) -> Self:
        threshold = self.qualifying_threshold
        if bool(self.qualifying) != (threshold is not None):
            raise AssayError(QUALIFICATION_IS_HALF)
        lowest = -1 if self.qualifying == "kappa" else 0
        if threshold is not None and not lowest <= threshold <= 1:
            raise AssayError(
                N_("The threshold of the qualification is {threshold}; choose {lowest} to 1, as in 0.8."),
                threshold=threshold,
                lowest=lowest,
            )
        return self

    def closes_in_blocks(self, overlap: int) -> bool:
        """Whether closings would tell gold checks from work: not where all closes at once or people are told."""
        return self.check_share > 0 and not self.check_feedback and overlap > 1


def draw_overlapped(keys: Iterable[Hashable], *, share: float, seed: int) -> frozenset[Hashable]:
    """Which of the prompts get the overlap: exactly the share of them, rounded up, by a draw that can be repeated."""
    different = list(dict.fromkeys(keys))
    number = min(len(different), math.ceil(round(share * len(different), 9)))
    return frozenset(random.Random(f"overlap {seed}").sample(different, number))  # noqa: S311  # no secret


class Policy(Terms):
    """How a batch hands out its tasks, and the terms that may change later. ``tolerance`` is in scale units.

    ``seed`` decides the shuffling, which items get the overlap, and the plan of who works with whom: the same seed
    gives the same. Of a ``fixed`` plan ``overlap_share`` of the prompts get ``overlap`` labels for each response and
    the others one; of an ``open`` one each response gets at least ``overlap``, and more until the manager ends the
    collection. ``settling`` is how gold comes of them (``docs/decisions/how-gold-is-settled.md``).
    """

    overlap: int = 2
    plan: CollectionPlan = "fixed"
    overlap_share: float = 1
    settling: Settling = "adjudicate"
    aggregation: Aggregation = "dawid-skene"
    aggregation_threshold: float = 0.9
    pairing: Pairing = "pool"
    order: Order = "prompts"
    seed: Seed = 0
    tolerance: float = 0

    @field_validator("overlap")
    @classmethod
    def _check_overlap(cls, overlap: int) -> int:
        if not 1 <= overlap <= MAX_OVERLAP:
            raise AssayError(
                N_("The overlap is {overlap}; choose 1 to {most}."), overlap=overlap, most=MAX_OVERLAP
            )
        return overlap

    @field_validator("plan", mode="before")
    @classmethod
    def _check_plan(cls, plan: str) -> str:
        template = N_("There is no plan {plan}; choose one of: {known}.")
        return check_choice(plan, get_args(CollectionPlan), template, plan=plan)

    @field_validator("settling", mode="before")
    @classmethod
    def _check_settling(cls, settling: str) -> str:
        template = N_("Gold is not settled by {settling}; choose one of: {known}.")
        return check_choice(settling, get_args(Settling), template, settling=settling)

    @field_validator("aggregation", mode="before")
    @classmethod
    def _check_aggregation(cls, aggregation: str) -> str:
        template = N_("Labels are not aggregated by {aggregation}; choose one of: {known}.")
        return check_choice(aggregation, get_args(Aggregation), template, aggregation=aggregation)

    @field_validator("overlap_share")
    @classmethod
    def _check_overlap_share(cls, share: float) -> float:
        if not 0 < share <= 1:
            raise AssayError(N_("The share of items with the overlap is above 0 and at most 1, as in 0.2."))
        return share

    @field_validator("aggregation_threshold")
    @classmethod
    def _check_aggregation_threshold(cls, threshold: float) -> float:
        if not 0.5 < threshold < 1:
            raise AssayError(N_("The probability that settles is above 0.5 and below 1, as in 0.9."))
        return threshold

    @field_validator("pairing", mode="before")
    @classmethod
    def _check_pairing(cls, pairing: str) -> str:
        template = N_("There is no pairing {pairing}; choose one of: {known}.")
        return check_choice(pairing, get_args(Pairing), template, pairing=pairing)

    @field_validator("order", mode="before")
    @classmethod
    def _check_order(cls, order: str) -> str:
        template = N_("There is no order {order}; choose one of: {known}.")
        return check_choice(order, get_args(Order), template, order=order)

    @field_validator("tolerance")
    @classmethod
    def _check_tolerance(cls, tolerance: float) -> float:
        if not 0 <= tolerance < math.inf:
            raise AssayError(N_("The tolerance is 0 or more."))
        return tolerance

    @property
    def settles_at_end(self) -> bool:
        """Whether nothing is settled before the manager ends the collection."""
        return self.plan == "open" or self.settling == "aggregate"

    @model_validator(mode="after")
    def _check_collection(self) -> Self:
        if self.plan == "open" and self.overlap_share != 1:
            raise AssayError(
                N_(
                    "An open plan has no share: each item gets as many labels as people give, at least the overlap."
                )
            )
        if self.pairing != "pool" and (self.plan == "open" or self.overlap_share != 1):
            raise AssayError(
                N_(
                    "The pairing {pairing} plans as many people for each item; for a share of the items, or an open"
                    " plan, choose the pairing pool."
                ),
                pairing=self.pairing,
            )
        return self

    @model_validator(mode="after")
    def _check_planned_overlap(self) -> Self:
        if self.pairing != "pool" and self.overlap > MAX_PLANNED_OVERLAP:
            raise AssayError(
                N_(
                    "The pairing {pairing} plans at most {most} people for each item; with an overlap of {overlap}"
                    " choose the pairing pool."
                ),
                pairing=self.pairing,
                most=MAX_PLANNED_OVERLAP,
                overlap=self.overlap,
            )
        return self


USUAL_POLICY = Policy()
"""The defaults, for forms, commands and the table."""


class AnnotatorShare(FrozenSpec):
    """What one annotator is to get of a batch: at most ``quota`` items, and none of the ``excluded_dimensions``."""

    quota: int | None = None
    excluded_dimensions: tuple[str, ...] = ()


class BatchSpec(FrozenSpec):
    """A batch of the dataset's responses: of all models or of ``models``; of one collection (``""`` has no name)
    or of all; with ``among`` of these responses alone, with ``subcomponents`` of those to their prompts;
    ``without_faults`` leaves out dialogues that have any.

    ``pairs`` are who works with whom where the pairing is fixed; they are annotators, named again or not. ``quota`` is
    for every annotator whose share has none. Guideline, dataset, models, responses and people are named by their ids.
    """

    name: Name
    guideline: Id
    dataset: Id
    models: tuple[Id, ...] = ()
    collection: str | None = None
    among: tuple[Id, ...] | None = None
    subcomponents: tuple[str, ...] = ()
    without_faults: bool = False
    pairs: tuple[tuple[Id, ...], ...] = ()
    annotators: tuple[Id, ...] = Field(default=(), validate_default=True)
    adjudicators: tuple[Id, ...] = ()
    quota: int | None = None
    shares: dict[Id, AnnotatorShare] = {}
    policy: Policy = USUAL_POLICY
    open_now: bool = True

    @field_validator("annotators")
    @classmethod
    def _add_pairs(cls, annotators: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        pairs: Iterable[tuple[int, ...]] = info.data.get("pairs", ())
        return tuple(dict.fromkeys([*annotators, *chain.from_iterable(pairs)]))

    @field_validator("shares", mode="before")
    @classmethod
    def _read_earlier_shares(cls, shares: Any) -> Any:
        """Jobs that were queued before this spec was there hold a list of person and share."""
        return shares if isinstance(shares, Mapping) else dict(shares)

    @model_validator(mode="after")
    def _check_opening(self) -> Self:
        if self.open_now:
            check_annotators(self.policy.overlap, len(self.annotators))
            if self.policy.qualifying:
                raise AssayError(QUALIFICATION_NEEDS_A_DRAFT)
        return self

    def build_share(self, annotator: int) -> AnnotatorShare:
        share = self.shares.get(annotator, AnnotatorShare())
        return share if share.quota is not None else share.model_copy(update={"quota": self.quota})


def check_annotators(overlap: int, annotators: int) -> None:
    """Raise where an open batch has too few people for its overlap."""
    if annotators < overlap:
        raise AssayError(
            N_("An overlap of {overlap} needs at least {overlap} annotators; {given} are named."),
            overlap=overlap,
            given=annotators,
        )
