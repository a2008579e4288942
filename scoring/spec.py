"""What is to be trained: which backbone, with which encoder, tuned how. Pure; it is kept with the scorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from annotation.errors import N_, AssayError
from annotation.guidelines.values import PROMPT, RESPONSE
from scoring.tuning import TransformerSettings

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
    def of(cls, name: str = "", *, encoder: str = "", tuning: str = "", default_encoder: str = "") -> Spec:
        """What a person asked for: a kind, or the encoder itself, which is then tuned in full.

        What the kind has no use for is passed over: a form sends all of its fields. Nothing asked for is the ensemble
        where there is a default encoder, else the embedded backbone. Raises AssayError where the parts do not fit.
        """
        name = name.strip() or ("ensemble" if default_encoder or encoder else EMBEDDED)
        if name in {EMBEDDED, FORMER}:
            return cls(EMBEDDED)
        kind: Kind = "ensemble" if name == "ensemble" else "encoder"
        named = name if name not in KINDS else ""
        found = named or encoder.strip() or default_encoder
        if kind == "encoder" and not found:
            raise AssayError(
                N_("An encoder needs its folder or its name on the hub: name one, or set ASSAY_ENCODER.")
            )
        return cls(kind, found, _tuning(tuning or ("full" if named else "frozen")))

    def at(self, encoder: str) -> Spec:
        return replace(self, encoder=encoder)

    def under(self, template: str | None) -> Spec:
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


def _tuning(name: str) -> Tuning:
    for known in TUNINGS:
        if name == known:
            return known
    raise AssayError(
        N_("{name} is no way to tune an encoder; use {known}."), name=name, known=", ".join(TUNINGS)
    )
