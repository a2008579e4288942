"""How a transformer is fine-tuned. Pure."""

from __future__ import annotations

from dataclasses import dataclass


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
