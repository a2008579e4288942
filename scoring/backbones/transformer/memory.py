"""What a fine-tuning needs of memory, before it starts. Computed from the network's shape, not measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from annotation.core.errors import N_, AssayError
from scoring.domain.spec import TransformerSettings, Tuning
from scoring.inference.encoder import ScorerModel, has_bf16

FLOAT, HALF = 4, 2
GIB = 2**30
MOMENTS = 2
"""AdamW's, each in float32."""
RUNTIME = GIB // 2
"""Work space of the kernels and what the allocator cannot give out, as it was measured (docs/benchmarks.md)."""
MEMORY_FILES = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Folder, limit, use, and the entry of memory.stat for files that were read and can be dropped at any time."""


@dataclass(frozen=True)
class MemoryNeeds:
    """Bytes. ``best`` is the copy of the best weights so far, which lies in the processor's memory."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    best: int

    @property
    def on_device(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations + RUNTIME

    @property
    def total(self) -> int:
        return self.on_device + self.best

    def to_json(self) -> dict[str, float]:
        """In GiB."""
        parts = {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
        }
        return {name: round(size / GIB, 3) for name, size in {**parts, "total": self.total}.items()}


def compute_needs(
    outline: ScorerModel, tuning: Tuning, settings: TransformerSettings, tokens: int, device: torch.device
) -> MemoryNeeds:
    """Of a network (its shape is enough) at batches of ``settings.batch_size`` rows of ``tokens`` tokens.

    Full: weights, gradients and two moments in float32. Low rank: the frozen weights in half precision on a GPU, and
    all of that for what is added. Activations: what each linear layer reads and writes is kept for the way back, in
    the precision it is computed in, and the residual stream in float32 (after Korthikanti et al. 2022, whose 34 bytes
    per token and unit of width this gives for a BERT layer); with checkpointing one layer's, and every layer's input.
    """
    half = device.type == "cuda" or has_bf16(device)
    all_parameters = sum(parameter.numel() for parameter in outline.parameters())
    learned_parameters = (
        all_parameters if tuning == "full" else count_added_parameters(outline, settings.lora_rank)
    )
    frozen_bytes = HALF if device.type == "cuda" else FLOAT
    weights = (
        all_parameters * FLOAT
        if tuning == "full"
        else all_parameters * frozen_bytes + learned_parameters * FLOAT
    )
    return MemoryNeeds(
        weights=weights,
        gradients=learned_parameters * FLOAT,
        optimizer=learned_parameters * FLOAT * MOMENTS,
        activations=settings.batch_size
        * tokens
        * count_activation_bytes(outline, tuning, settings, tokens, half=half),
        best=learned_parameters * FLOAT,
    )


def count_added_parameters(outline: ScorerModel, rank: int) -> int:
    """Parameters of the low-rank additions to every linear layer, and of the heads."""
    pairs = sum(rank * (inside + outside) for inside, outside in _list_linear_shapes(outline.encoder))
    return pairs + sum(int(parameter.numel()) for parameter in outline.heads.parameters())


def count_activation_bytes(
    outline: ScorerModel, tuning: Tuning, settings: TransformerSettings, tokens: int, *, half: bool
) -> int:
    """Bytes of activations for each token of a batch of rows of ``tokens`` tokens. Low-rank additions read a copy of
    their own in half precision."""
    config = outline.encoder.config
    layers, width = int(config.num_hidden_layers), int(config.hidden_size)
    linear = sum(inside + outside for inside, outside in _list_linear_shapes(outline.encoder))
    stored = linear * (HALF if half else FLOAT)
    if half and tuning == "lora":
        stored += HALF * sum(inside for inside, _outside in _list_linear_shapes(outline.encoder))
    stored += _count_attention_bytes(outline.encoder, tokens, half=half)
    streams = 4 * layers * width * FLOAT  # two norms and two sums a layer
    if settings.gradient_checkpointing:
        return (stored + streams) // layers + layers * width * FLOAT
    return stored + streams


def _count_attention_bytes(encoder: nn.Module, tokens: int, *, half: bool) -> int:
    """Bytes for each token of what attention keeps where no fused kernel computes it, as of DeBERTa: in every layer and
    head its row of the matrix of tokens by tokens. Half precision keeps that in both.

    Where positions are relative to each other also, of each kind, its scores against every position that there is, and
    the projected positions, which are repeated for every row of the batch.
    """
    config = encoder.config
    if getattr(config, "_attn_implementation", None) != "eager":
        return 0
    heads, width, size = int(config.num_attention_heads), int(config.hidden_size), HALF if half else FLOAT
    relative = [
        module
        for module in encoder.modules()
        if hasattr(module, "pos_att_type") and module.relative_attention
    ]
    if not relative:
        return int(config.num_hidden_layers) * heads * tokens * (FLOAT + HALF if half else FLOAT)
    stored = 0
    for module in relative:
        positions = 2 * int(getattr(module, "pos_ebd_size", min(tokens, module.max_relative_positions)))
        scores = heads * positions + positions * width // max(tokens, 1)
        stored += size * (heads * tokens + len(module.pos_att_type) * scores)
    return stored


def _list_linear_shapes(encoder: nn.Module) -> Iterator[tuple[int, int]]:
    for module in encoder.modules():
        if isinstance(module, nn.Linear):
            yield module.in_features, module.out_features
        elif isinstance(module, Conv1D):
            yield module.weight.shape[0], module.weight.shape[1]


def read_available_memory(device: torch.device) -> int:
    """Bytes that can still be had: of the GPU; or of the machine, and of the group of processes if that is less."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(
        _read_machine_memory(), *(_read_group_memory(Path(folder), *names) for folder, *names in MEMORY_FILES)
    )


def _read_machine_memory() -> int:
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 2**63  # no such file here: nothing is known, and nothing refused


def _read_group_memory(folder: Path, limit: str, used: str, droppable: str) -> int:
    """Cached files count as used there, so that after a large model was read nothing would seem to be free."""
    max_bytes, used_bytes = _read(folder / limit).strip(), _read(folder / used).strip()
    if not (max_bytes.isdigit() and used_bytes.isdigit()):
        return 2**63
    entries = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
    return int(max_bytes) - int(used_bytes) + int(entries.get(droppable, 0))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def check_memory(needs: MemoryNeeds, device: torch.device, *, free: int | None = None) -> None:
    """Raises AssayError, with the numbers and what would help, where a training cannot fit."""
    free = read_available_memory(device) if free is None else free
    needed = needs.on_device if device.type == "cuda" else needs.total
    if needed <= free:
        return
    raise AssayError(
        N_(
            "This training needs about {wanted} GiB and {free} GiB are free: weights {weights}, gradients {gradients}, "
            "optimizer {optimizer}, activations {activations}. Tune it with lora, take a smaller encoder, or give "
            "train_scorer a lower --set batch_size=N or --set max_tokens=N, or --set gradient_checkpointing=true."
        ),
        wanted=f"{needed / GIB:.1f}",
        free=f"{free / GIB:.1f}",
        weights=f"{needs.weights / GIB:.1f}",
        gradients=f"{needs.gradients / GIB:.1f}",
        optimizer=f"{needs.optimizer / GIB:.1f}",
        activations=f"{needs.activations / GIB:.1f}",
    )
