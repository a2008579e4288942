"""The transformer scorer while it learns: pretrained weights with new heads, low-rank additions, the loss.

What reads texts and predicts is in ``scoring/inference/encoder.py``. torch and transformers are imported here: import
this module in the body of a task or a command only.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from annotation.core.errors import N_, AssayError
from scoring.domain.spec import Spec, TransformerSettings
from scoring.domain.training_data import Head, Value
from scoring.inference.encoder import (
    HEADINGS,
    Pooling,
    ScorerModel,
    TokenReader,
    best_device,
    choose_pooling,
    compute_token_limit,
    pool_states,
    trim_pair,
)

__all__ = [
    "UNLABELLED",
    "Pooling",
    "Pretrained",
    "ScorerModel",
    "TokenReader",
    "add_low_rank",
    "best_device",
    "choose_pooling",
    "head_loss",
    "level_weights",
    "merge_low_rank",
    "mixed_precision",
    "pool_states",
    "trim_pair",
]

disable_progress_bar()  # progress is told through a report

UNLABELLED = -100
"""The target of a head that an example has no label for."""

ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
"""Set to 0: with dropout inside the attention no fused kernel can compute it."""


def head_loss(
    logits: Sequence[Tensor],
    targets: Tensor,
    weights: Sequence[Tensor] | None = None,
    ordinal: Sequence[float] | None = None,
) -> Tensor:
    """The sum over the labels there are of their cross entropy, times their level's weight.

    ``logits`` are (batch, levels) for each head; ``targets`` is (batch, heads) of positions on the scales. A head
    without a label here takes no part, so that it gets no gradient at all. ``ordinal`` is, for each head, how much
    of the squared earth mover's distance is added (Hou, Yu and Samaras 2016: the sum of squared differences of the
    cumulative distributions).
    """
    known = targets != UNLABELLED
    losses = []
    for i, scores in enumerate(logits):
        if not known[:, i].any():
            continue
        rows, truth = scores[known[:, i]], targets[known[:, i], i]
        loss = cross_entropy(rows, truth, reduction="none")
        if ordinal is not None and ordinal[i]:
            reached = torch.arange(rows.shape[1], device=rows.device)[None, :] >= truth[:, None]
            loss = loss + ordinal[i] * (rows.softmax(1).cumsum(1) - reached.float()).square().sum(1)
        losses.append((loss if weights is None else loss * weights[i][truth]).sum())
    return torch.stack(losses).sum()


def level_weights(counts: Mapping[Value, int], power: float) -> list[float]:
    """For each level its share to minus ``power``, such that the labels weigh 1 on average; 0 where it has none."""
    total = sum(counts.values())
    raw = [(n / total) ** -power if n else 0.0 for n in counts.values()]
    mean = sum(weight * n for weight, n in zip(raw, counts.values(), strict=True)) / max(total, 1)
    return [weight / mean if mean else 0.0 for weight in raw]


@dataclass(frozen=True)
class Pretrained:
    """An encoder's configuration and its reader, before its weights are read."""

    spec: Spec
    config: Any
    reader: TokenReader

    @classmethod
    def load(cls, spec: Spec) -> Pretrained:
        """A folder is read alone; only a hub name may use the network. Raises AssayError with the reason."""
        source, options = spec.encoder, _build_options(spec)
        try:
            config = AutoConfig.from_pretrained(source, **options)
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise _build_load_error(source, error) from error
        if getattr(config, "is_encoder_decoder", False):
            raise AssayError(
                N_("A {kind} model is an encoder with a decoder: take an encoder or a decoder."),
                kind=config.model_type,
            )
        config.use_cache = False
        for name in ATTENTION_DROPOUTS:
            if hasattr(config, name):
                setattr(config, name, 0.0)
        limit = compute_token_limit(tokenizer, config, spec.settings.max_tokens)
        reader = TokenReader(tokenizer, limit, spec.headings or HEADINGS)
        if reader.template_length > limit // 2:
            raise AssayError(
                N_(
                    "The guideline's scorer_template takes {fixed} of the {limit} tokens that this encoder reads, and "
                    "leaves less than half for prompt and response: shorten it in a new version of the guideline."
                ),
                fixed=reader.template_length,
                limit=limit,
            )
        return cls(spec, config, reader)

    def build_model(self, heads: Sequence[Head], dtype: Any = torch.float32) -> ScorerModel:
        """With the pretrained weights and new heads, which follow from torch's seed.

        Weights are read from safetensors alone, never from a pickle, which could run what it likes here.
        """
        source = self.spec.encoder
        try:
            encoder = AutoModel.from_pretrained(
                source, config=self.config, dtype=dtype, use_safetensors=True, **_build_options(self.spec)
            )
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise _build_load_error(source, error) from error
        if self.spec.settings.gradient_checkpointing:
            encoder.gradient_checkpointing_enable()
        return ScorerModel(encoder, [len(head.values) for head in heads], choose_pooling(self.config))

    def build_outline(self, heads: Sequence[Head]) -> ScorerModel:
        """Its shape without any memory for weights."""
        remote = self.spec.remote_code
        with torch.device("meta"):
            encoder = AutoModel.from_config(self.config, trust_remote_code=remote, dtype=torch.float32)
            return ScorerModel(encoder, [len(head.values) for head in heads], choose_pooling(self.config))


def _build_options(spec: Spec) -> dict[str, Any]:
    return {"local_files_only": Path(spec.encoder).is_dir(), "trust_remote_code": spec.remote_code}


def _build_load_error(source: str, error: Exception) -> AssayError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return AssayError(N_("The backbone {name} cannot be loaded: {reason}"), name=source, reason=reason)


def add_low_rank(model: ScorerModel, settings: TransformerSettings) -> None:
    """Freeze the encoder and add low-rank matrices to each of its linear layers (Hu et al. 2021)."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=settings.lora_rank, lora_alpha=settings.lora_alpha, target_modules="all-linear")
    with warnings.catch_warnings():  # peft warns of what it sets right by itself
        warnings.simplefilter("ignore")
        model.encoder = get_peft_model(model.encoder, config)


def merge_low_rank(model: ScorerModel) -> None:
    """The plain encoder again, with what was added in its own weights."""
    model.encoder = model.encoder.merge_and_unload()


def mixed_precision(device: torch.device, *, half: bool) -> Any:
    """With ``half`` matrix work in bfloat16; weights and loss are in float32 either way."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=half)
