"""What a fine-tuning is computed to keep for the way back, beside what it really keeps."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from scoring.domain.spec import TransformerSettings
from tests.conftest import missing

HAS_TORCH = all(find_spec(package) is not None for package in ("torch", "transformers", "safetensors"))
if HAS_TORCH:
    import torch
    from transformers import AutoModel, BertConfig, DebertaV2Config

    from scoring.backbones.transformer.memory import count_activation_bytes
    from scoring.inference.encoder import ScorerModel
elif TYPE_CHECKING:
    raise ImportError

ROWS, TOKENS = 4, 96
SHAPE = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "attention_probs_dropout_prob": 0.0,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}


@pytest.fixture(autouse=True)
def with_torch() -> None:
    if not HAS_TORCH:
        missing("torch", "the encoder needs requirements-encoder.txt")


def really_kept(model: Any, *, half: bool) -> int:
    """Bytes of what autograd keeps of one batch, weights apart."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    storages: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage  # held, so that no other takes its place
        return tensor

    ids, mask = torch.full((ROWS, TOKENS), 7), torch.ones(ROWS, TOKENS, dtype=torch.long)
    mask[0, -1] = 0
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16, enabled=half):
        model.train()(ids, mask)
    return sum(storage.nbytes() for storage in storages.values())


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("relative", "attention"),
    [
        (None, "sdpa"),
        (None, "eager"),
        (RELATIVE | {"position_buckets": 256}, "eager"),
        (RELATIVE | {"position_buckets": 32}, "eager"),
        (RELATIVE | {"pos_att_type": ["c2p"], "max_relative_positions": 100}, "eager"),
    ],
)
def test_what_is_computed_is_what_is_kept(
    relative: dict[str, Any] | None, attention: str, half: bool
) -> None:
    config = BertConfig(**SHAPE) if relative is None else DebertaV2Config(**SHAPE, **relative)
    encoder = AutoModel.from_config(config, attn_implementation=attention)
    model = ScorerModel(encoder, [3], "mean")
    computed = ROWS * TOKENS * count_activation_bytes(model, "full", TransformerSettings(), TOKENS, half=half)
    assert computed == pytest.approx(really_kept(model, half=half), rel=0.2)
