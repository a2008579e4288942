"""How a transformer is fine-tuned. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TransformerSettings:
    """Learning rates are AdamW's; ``warmup`` is a share of all steps."""

    epochs: int = 3
    batch_size: int = 16
    max_tokens: int = 768
    learning_rate: float = 2e-5
    head_learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.1
    checkpoint_every: int = 200
