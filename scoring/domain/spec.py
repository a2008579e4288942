"""How a transformer is fine-tuned. Pure.

What is to be trained: which backbone, with which encoder, tuned how. Pure; it is kept with the scorer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from annotation.core.errors import N_, AssayError
from annotation.domain.guidelines.values import PROMPT, RESPONSE


@dataclass(frozen=True)
class TransformerSettings:
    """Learning rates are AdamW's; ``warmup`` is a share of all steps.

    A run has ``rounds`` rounds of one epoch each, or of as many as make ``least_steps`` steps of them all; the
    validation part is predicted after each. ``patience`` rounds in a row without a lower loss there end the run.
    """

    rounds: int = 4
    least_steps: int = 150
    patience: int = 1
    batch_size: int = 16
    max_tokens: int = 768
    learning_rate: float = 5e-5
    lora_learning_rate: float = 5e-4
    head_learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.1
    balance: float = 0.5
    """What a level's labels weigh: its share of the labels to minus this power. 0 is all the same, 1 is balanced."""
    ordinal: float = 0.0
    """How much the squared distance of the cumulative distributions adds to the loss of an ordered scale."""
    restarts: int = 2
    """How often a run that collapsed begins again, with another seed and half the rate."""
    lora_rank: int = 16
    lora_alpha: int = 32
    gradient_checkpointing: bool = False
    """Keeps one layer's activations at a time: less memory, about a third more time."""
    checkpoint_every: int = 200

    def with_assignments(self, assignments: Sequence[str]) -> TransformerSettings:
        """With what a person wrote, each as ``name=value``. Raises AssayError with what would be right."""
        changes: dict[str, Any] = {}
        for text in assignments:
            name, equals, value = (part.strip() for part in text.partition("="))
            if not equals:
                raise AssayError(N_("{text} is no setting: write it as KEY=VALUE."), text=text)
            if name not in SETTINGS:
                raise AssayError(
                    N_("{name} is no setting of a tuned encoder; use {known}."),
                    name=name,
                    known=", ".join(SETTINGS),
                )
            if name in changes:
                raise AssayError(N_("{name} is set twice."), name=name)
            changes[name] = _read_setting(name, value, getattr(self, name))
        return replace(self, **changes)


SETTINGS: Mapping[str, tuple[float, float]] = {
    "rounds": (1, 1000),
    "least_steps": (0, 1_000_000),
    "patience": (1, 1000),
    "batch_size": (1, 4096),
    "max_tokens": (16, 131_072),
    "learning_rate": (1e-8, 1),
    "lora_learning_rate": (1e-8, 1),
    "head_learning_rate": (1e-8, 1),
    "weight_decay": (0, 1),
    "warmup": (0, 1),
    "balance": (0, 1),
    "ordinal": (0, 100),
    "restarts": (0, 10),
    "lora_rank": (1, 1024),
    "lora_alpha": (1, 4096),
    "gradient_checkpointing": (0, 1),
    "checkpoint_every": (1, 1_000_000),
}
"""By name the least and the most that can be asked for."""


def _read_setting(name: str, text: str, now: float) -> float:
    """A value of the kind that is there ``now``."""
    least, most = SETTINGS[name]
    if isinstance(now, bool):
        if text.lower() not in {"true", "false"}:
            raise AssayError(N_("{name} is true or false, not {value}."), name=name, value=text or "-")
        return text.lower() == "true"
    kind = int if isinstance(now, int) else float
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if least <= value <= most:
        return value
    words = (
        N_("{name} is a whole number from {least} to {most}, not {value}.")
        if kind is int
        else N_("{name} is a number from {least} to {most}, not {value}.")
    )
    raise AssayError(words, name=name, least=f"{least:.10g}", most=f"{most:.10g}", value=text or "-")


Kind = Literal["ngram", "encoder", "ensemble"]
Tuning = Literal["frozen", "full", "lora"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TUNINGS: tuple[Tuning, ...] = get_args(Tuning)
EMBEDDED: Kind = "ngram"
"""The backbone that needs no weights and no packages."""
FORMER = "char-ngram"
"""What the embedded backbone was called in scorers of the first version."""


@dataclass(frozen=True)
class Spec:
    """``encoder`` is a folder, or a name on the hub; empty where the backbone has none.

    ``tuning`` says what of the encoder learns: ``frozen`` nothing (a linear head reads its embeddings), ``full``
    everything, ``lora`` low-rank additions. ``settings`` are those of ``full`` and ``lora``. Code that comes with an
    encoder runs only with ``remote_code``. ``template`` is the guideline's for such an encoder; empty the standard one.
    """

    kind: Kind = EMBEDDED
    encoder: str = ""
    tuning: Tuning = "frozen"
    remote_code: bool = False
    settings: TransformerSettings = field(default_factory=TransformerSettings)
    template: str = ""

    @classmethod
    def from_request(
        cls, name: str = "", *, encoder: str = "", tuning: str = "", default_encoder: str = ""
    ) -> Spec:
        """What a person asked for: a kind, or the encoder itself, which is then tuned in full.

        What the kind has no use for is passed over: a form sends all of its fields. Nothing asked for is the ensemble
        where there is a default encoder, else the embedded backbone. Raises AssayError where the parts do not fit.
        """
        name = name.strip() or ("ensemble" if default_encoder or encoder else EMBEDDED)
        if name in {EMBEDDED, FORMER}:
            return cls(EMBEDDED)
        kind: Kind = "ensemble" if name == "ensemble" else "encoder"
        named = name if name not in KINDS else ""
        encoder_folder = named or encoder.strip() or default_encoder
        if kind == "encoder" and not encoder_folder:
            raise AssayError(
                N_("An encoder needs its folder or its name on the hub: name one, or set ASSAY_ENCODER.")
            )
        return cls(kind, encoder_folder, _check_tuning(tuning or ("full" if named else "frozen")))

    def with_encoder(self, encoder: str) -> Spec:
        return replace(self, encoder=encoder)

    def with_template(self, template: str | None) -> Spec:
        """With the guideline's template, if it has one and the encoder reads prompt and response together."""
        return replace(self, template=template or "") if self.is_tuned else self

    @property
    def is_tuned(self) -> bool:
        return bool(self.encoder) and self.tuning != "frozen"

    @property
    def headings(self) -> tuple[str, ...]:
        """What stands before the prompt, before the response and behind it; none for the standard template."""
        if not self.template:
            return ()
        before, _, rest = self.template.partition(PROMPT)
        between, _, after = rest.partition(RESPONSE)
        return before, between, after

    @property
    def title(self) -> str:
        """For a list: the kind, and what the encoder is and how it is tuned."""
        if not self.encoder:
            return self.kind
        return f"{self.kind} ({self.encoder.rstrip('/').rsplit('/', 1)[-1]}, {self.tuning})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spec:
        return cls(**{**data, "settings": TransformerSettings(**data["settings"])})


def _check_tuning(name: str) -> Tuning:
    for known in TUNINGS:
        if name == known:
            return known
    raise AssayError(
        N_("{name} is no way to tune an encoder; use {known}."), name=name, known=", ".join(TUNINGS)
    )
