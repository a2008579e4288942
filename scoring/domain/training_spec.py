"""What is to be trained: from which release, on which backbone, and how it is evaluated. Pure."""

from __future__ import annotations

from typing import Any, Self

from pydantic import field_validator, model_validator

from annotation.core.errors import N_, AssayError
from annotation.core.specs import FrozenSpec, Id, Name, Seed
from scoring.domain.evaluation.soft_labels import LABEL, TARGETS
from scoring.domain.spec import Spec

GROUPED = "grouped"
LEAVE_ONE_MODEL_OUT = "leave-one-model-out"
LEARNING_CURVE = "learning-curve"
EVALUATIONS = (GROUPED, LEAVE_ONE_MODEL_OUT, LEARNING_CURVE)
MAX_SEEDS = 10
TUNED_SEEDS = 3


class TrainingSpec(FrozenSpec):
    """A scorer from a release; without a ``backbone`` on that of its base, or on the default one.

    ``seeds`` is how many seeds the evaluation is made with, from ``seed`` on; None, as many as the backbone needs.
    With ``adapt_to`` it is an adaptation of the scorer ``base`` to that model. Release, base and model are named by
    their ids. With the ``target`` ``distribution`` it learns what share of the annotators gave each level, in place of
    the gold label. The grouped evaluation is always made: its predictions are what a board needs.
    """

    name: Name
    release: Id
    backbone: Spec | None = None
    evaluate: tuple[str, ...] = (GROUPED,)
    seed: Seed = 0
    seeds: int | None = None
    base: Id | None = None
    adapt_to: Id | None = None
    target: str = LABEL

    @field_validator("target")
    @classmethod
    def _check_target(cls, target: str) -> str:
        if target not in TARGETS:
            raise AssayError(
                N_("{unknown} is nothing that a scorer learns; use {known}."),
                unknown=target,
                known=", ".join(TARGETS),
            )
        return target

    @field_validator("evaluate")
    @classmethod
    def _order_evaluations(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in names if name not in EVALUATIONS]
        if unknown:
            raise AssayError(
                N_("{unknown} is no way to evaluate; use {known}."),
                unknown=", ".join(unknown),
                known=", ".join(EVALUATIONS),
            )
        return tuple(name for name in EVALUATIONS if name == GROUPED or name in names)

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: int | None) -> int | None:
        if seeds is not None and not 1 <= seeds <= MAX_SEEDS:
            raise AssayError(N_("An evaluation is made with 1 to {most} seeds."), most=MAX_SEEDS)
        return seeds

    @model_validator(mode="after")
    def _check_adaptation(self) -> Self:
        if (self.base is None) != (self.adapt_to is None):
            raise AssayError(N_("An adaptation needs both: the scorer, and the model that it is adapted to."))
        return self

    def build_config(self, backbone: Spec) -> dict[str, Any]:
        """What the scorer's row keeps for its job. Of fine-tuning, one seed alone says little."""
        seeds = self.seeds or (TUNED_SEEDS if backbone.is_tuned else 1)
        config = {"evaluate": list(self.evaluate), "spec": backbone.to_json(), "seeds": seeds}
        return config if self.target == LABEL else config | {"target": self.target}
