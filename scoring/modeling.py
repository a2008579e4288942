"""The transformer scorer as a network: a pretrained backbone, one linear head per criterion, one reader.

torch and transformers are imported here: import this module in the body of a task or a command only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)
from transformers.utils.logging import disable_progress_bar

from annotation.errors import N_, AssayError
from scoring.dataset import PROMPT_HEADING, RESPONSE_HEADING, Example, Head, trim

disable_progress_bar()  # progress is told through a report

Pooling = Literal["last", "mean"]

UNLABELLED = -100
"""The target of a head that an example has no label for."""

POSITION_OFFSET = 2
"""RoBERTa and its kin lose two positions to padding; two tokens less cost the others nothing."""


class ScorerModel(nn.Module):  # type: ignore[misc]
    """Logits for every head from one reading of prompt and response.

    ``input_ids`` and ``attention_mask`` are (batch, tokens), padded on the right. The result has a tensor
    (batch, levels) for each head, in the order of the heads.
    """

    def __init__(self, encoder: Any, heads: Sequence[Head], pooling: Pooling) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        width = encoder.config.hidden_size
        self.heads = nn.ModuleList(nn.Linear(width, len(head.values)) for head in heads)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        pooled = pool(states, attention_mask, self.pooling)
        return [head(pooled).float() for head in self.heads]


def pool(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    """(batch, tokens, width) to (batch, width), blind to padding: the last token's state, or the mean of all."""
    if pooling == "last":
        last = attention_mask.sum(dim=1) - 1
        return states[torch.arange(len(states), device=states.device), last]
    weights = attention_mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def pooling_for(config: Any) -> Pooling:
    """Only the last token of a decoder has read everything; an encoder's tokens all have."""
    kind = config.model_type
    causal_only = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return "last" if causal_only or getattr(config, "is_decoder", False) else "mean"


def masked_loss(logits: Sequence[Tensor], targets: Tensor) -> Tensor:
    """Cross entropy over the labels there are, each weighing the same.

    ``targets`` is (batch, heads) of positions on the scales. A head without a label here takes no part, so
    that it gets no gradient at all; the batch has at least one label.
    """
    known = targets != UNLABELLED
    losses = [
        cross_entropy(scores[known[:, i]], targets[known[:, i], i], reduction="sum")
        for i, scores in enumerate(logits)
        if known[:, i].any()
    ]
    return torch.stack(losses).sum() / known.sum()


class Reader:
    """Turns an example into token ids: the one template, cut where it is too long, with the ends marked."""

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self._start = _first_known(tokenizer.cls_token_id, tokenizer.bos_token_id)
        self._end = _first_known(tokenizer.sep_token_id, tokenizer.eos_token_id)
        self._before_prompt = self._tokens(PROMPT_HEADING)
        self._before_response = self._tokens(RESPONSE_HEADING)

    @property
    def padding(self) -> int:
        """Any id will do where the model has none of its own: what is padded is masked."""
        return int(self.tokenizer.pad_token_id or 0)

    def read(self, example: Example) -> list[int]:
        fixed = sum(map(len, (self._start, self._before_prompt, self._before_response, self._end)))
        prompt, response = trim(
            self._tokens(example.prompt), self._tokens(example.response), max(self.max_tokens - fixed, 0)
        )
        return [*self._start, *self._before_prompt, *prompt, *self._before_response, *response, *self._end]

    def batch(self, rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
        """Ids and mask, padded on the right to the longest row."""
        longest = max(map(len, rows))
        ids = [[*row, *[self.padding] * (longest - len(row))] for row in rows]
        mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    def _tokens(self, text: str) -> list[int]:
        text = text.encode("utf-8", "replace").decode("utf-8")  # a tokenizer panics at a lone surrogate
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids


def _first_known(*ids: int | None) -> list[int]:
    return [known for known in ids if known is not None][:1]


def token_limit(tokenizer: Any, config: Any, wanted: int) -> int:
    positions = getattr(config, "max_position_embeddings", None) or wanted + POSITION_OFFSET
    return int(min(wanted, tokenizer.model_max_length, positions - POSITION_OFFSET))


def from_pretrained(source: str, heads: Sequence[Head], max_tokens: int) -> tuple[ScorerModel, Reader]:
    """A pretrained backbone with new heads. A folder is read alone; only a hub name may use the network.

    Weights are read from safetensors alone, never from a pickle, which could run what it likes here.
    """
    options = {"local_files_only": Path(source).is_dir(), "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        encoder = AutoModel.from_pretrained(source, dtype=torch.float32, use_safetensors=True, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise AssayError(
            N_("The backbone {name} cannot be loaded: {reason}"), name=source, reason=reason
        ) from error
    return assemble(encoder, tokenizer, heads, max_tokens)


def from_folder(folder: Path, heads: Sequence[Head], max_tokens: int) -> tuple[ScorerModel, Reader]:
    """The network of a saved scorer, before its weights are read. Never asks the network."""
    options = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    config = AutoConfig.from_pretrained(folder, **options)
    encoder = AutoModel.from_config(config, trust_remote_code=False, dtype=torch.float32)
    return assemble(encoder, tokenizer, heads, max_tokens)


def assemble(
    encoder: Any, tokenizer: Any, heads: Sequence[Head], max_tokens: int
) -> tuple[ScorerModel, Reader]:
    config = encoder.config
    if getattr(config, "is_encoder_decoder", False):
        raise AssayError(
            N_("A {kind} model is an encoder with a decoder: take an encoder or a decoder."),
            kind=config.model_type,
        )
    config.use_cache = False
    reader = Reader(tokenizer, token_limit(tokenizer, config, max_tokens))
    return ScorerModel(encoder, heads, pooling_for(config)), reader


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def mixed_precision(device: torch.device) -> Any:
    """Matrix work in bfloat16 on a GPU, weights and loss in float32; on a CPU everything in float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")
