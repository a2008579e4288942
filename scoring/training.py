"""Fine-tuning a transformer scorer: batches, schedule, checkpoints. Imports torch: see modeling.py.

What a step does follows from the seed and the number of the step alone, so that a run that was killed and
resumed ends with the weights of one that was not.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, load_model, save_file, save_model

from scoring.dataset import Example, Head, Value, check_examples, head_state, level_counts, only_level
from scoring.interface import Progress, Report, silent
from scoring.modeling import (
    UNLABELLED,
    Reader,
    ScorerModel,
    best_device,
    from_pretrained,
    masked_loss,
    mixed_precision,
)
from scoring.predictor import TransformerScorer
from scoring.tuning import TransformerSettings

GRADIENT_NORM = 1.0
BUCKET_BATCHES = 50
"""Batches are cut from this many batches' worth of examples sorted by length: little padding, still shuffled."""


@dataclass(frozen=True)
class Row:
    """One example as the network sees it: token ids, and a target for each head."""

    tokens: list[int]
    targets: list[int]


def fit_transformer(
    source: str,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    settings: TransformerSettings,
    seed: int = 0,
    report: Report = silent,
    checkpoints: Path | None = None,
) -> TransformerScorer:
    check_examples(examples, heads)
    counts = {head.criterion: level_counts(examples, head) for head in heads}
    learned = frozenset(name for name, levels in counts.items() if head_state(levels) == "learned")
    constant: dict[str, Value] = {
        name: only_level(levels) for name, levels in counts.items() if head_state(levels) == "constant"
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        report(Progress("load", 0.0))
        model, reader = from_pretrained(source, heads, settings.max_tokens)
        rows = read_rows(examples, heads, learned, reader)
        key = run_key(source, rows, heads, settings, seed)
        run = Run(model, reader, rows, settings=settings, seed=seed, key=key, checkpoints=checkpoints)
        run.train(report)
    return TransformerScorer(source, tuple(heads), learned, constant, model, reader)


def read_rows(
    examples: Sequence[Example], heads: Sequence[Head], learned: frozenset[str], reader: Reader
) -> list[Row]:
    """The examples that a head can learn from."""
    rows = []
    for example in examples:
        targets = [
            head.position(example.labels[head.criterion])
            if head.criterion in learned and head.criterion in example.labels
            else UNLABELLED
            for head in heads
        ]
        if any(target != UNLABELLED for target in targets):
            rows.append(Row(reader.read(example), targets))
    return rows


def run_key(
    source: str, rows: Sequence[Row], heads: Sequence[Head], settings: TransformerSettings, seed: int
) -> str:
    """The sha256 of all that a run follows from: a checkpoint of another run is not resumed."""
    told = [source, [asdict(row) for row in rows], [h.to_json() for h in heads], asdict(settings), seed]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def epoch_batches(lengths: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """The examples of each batch of one epoch: every example once, examples of like length together."""
    shuffle = random.Random(f"{seed}:{epoch}")  # noqa: S311 (an order, not a secret)
    order = list(range(len(lengths)))
    shuffle.shuffle(order)
    batches = []
    for start in range(0, len(order), batch_size * BUCKET_BATCHES):
        bucket = sorted(order[start : start + batch_size * BUCKET_BATCHES], key=lambda i: lengths[i])
        batches += [bucket[i : i + batch_size] for i in range(0, len(bucket), batch_size)]
    shuffle.shuffle(batches)
    return batches


def rate_factor(step: int, steps: int, warmup: float) -> float:
    """Of the full learning rate: linear up over the warm-up's share of the steps, then linear down to 0."""
    warm = max(1, round(steps * warmup))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


class Run:
    """One training run. Its state is the model, the optimizer and the number of steps done."""

    def __init__(
        self,
        model: ScorerModel,
        reader: Reader,
        rows: Sequence[Row],
        *,
        settings: TransformerSettings,
        seed: int,
        key: str,
        checkpoints: Path | None,
    ) -> None:
        self.device = best_device()
        self.model = model.to(self.device)
        self.reader, self.rows, self.settings = reader, rows, settings
        self.seed, self.key, self.checkpoints = seed, key, checkpoints
        self.optimizer = torch.optim.AdamW(parameter_groups(model, settings))
        self.per_epoch = -(-len(rows) // settings.batch_size)
        self.steps = self.per_epoch * settings.epochs
        self.done = 0

    def train(self, report: Report) -> None:
        self.resume()
        self.model.train()
        batches: list[list[int]] = []
        epoch_read = -1
        while self.done < self.steps:
            epoch, at = divmod(self.done, self.per_epoch)
            if epoch != epoch_read:
                lengths = [len(row.tokens) for row in self.rows]
                batches = epoch_batches(lengths, self.settings.batch_size, self.seed, epoch)
                epoch_read = epoch
            loss = self.step([self.rows[i] for i in batches[at]])
            if self.done % self.settings.checkpoint_every == 0:
                self.save()
            report(Progress("learn", self.done / self.steps, loss=loss))
        self.model.eval()

    def step(self, rows: Sequence[Row]) -> float:
        torch.manual_seed(self.seed * 1_000_003 + self.done)  # dropout, the same after a resume
        factor = rate_factor(self.done, self.steps, self.settings.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_rate"] * factor
        ids, mask = self.reader.batch([row.tokens for row in rows], self.device)
        targets = torch.tensor([row.targets for row in rows], device=self.device)
        with mixed_precision(self.device):
            logits = self.model(ids, mask)
        loss = masked_loss(logits, targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), GRADIENT_NORM)
        self.optimizer.step()
        self.done += 1
        return float(loss.item())

    def save(self) -> None:
        """Written beside and moved in place: a checkpoint that is there is whole. Only the last one is kept."""
        if self.checkpoints is None:
            return
        beside = self.checkpoints / "part"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        save_model(self.model, str(beside / "model.safetensors"))
        save_file(self._optimizer_tensors(), str(beside / "optimizer.safetensors"))
        (beside / "state.json").write_text(json.dumps({"done": self.done, "key": self.key}), encoding="utf-8")
        earlier = list(self.checkpoints.glob("step-*"))
        beside.replace(self.checkpoints / f"step-{self.done:08d}")
        for folder in earlier:
            shutil.rmtree(folder, ignore_errors=True)

    def resume(self) -> None:
        """Go on from the last checkpoint of this very run, if there is one; another run's is dropped."""
        for folder in sorted(self.checkpoints.glob("step-*") if self.checkpoints else (), reverse=True):
            state: dict[str, Any] = json.loads((folder / "state.json").read_text(encoding="utf-8"))
            if state["key"] == self.key:
                load_model(self.model, str(folder / "model.safetensors"), device=str(self.device))
                self._load_optimizer(folder / "optimizer.safetensors")
                self.done = int(state["done"])
                return
            shutil.rmtree(folder)

    def _parameters(self) -> list[Any]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _optimizer_tensors(self) -> dict[str, Any]:
        """AdamW's moments by number of parameter. One that never had a gradient has none."""
        return {
            f"{i}.{name}": tensor.contiguous()
            for i, parameter in enumerate(self._parameters())
            for name, tensor in self.optimizer.state.get(parameter, {}).items()
        }

    def _load_optimizer(self, path: Path) -> None:
        parameters = self._parameters()
        for label, tensor in load_file(str(path)).items():
            number, name = label.split(".", 1)
            device = "cpu" if name == "step" else self.device
            self.optimizer.state[parameters[int(number)]][name] = tensor.to(device)


def parameter_groups(model: ScorerModel, settings: TransformerSettings) -> list[dict[str, Any]]:
    """New heads learn faster than the pretrained weights; biases and norms do not decay."""
    encoder = list(model.encoder.parameters())
    matrices = [p for p in encoder if p.ndim > 1]
    vectors = [p for p in encoder if p.ndim <= 1]
    parts = (
        (matrices, settings.learning_rate, settings.weight_decay),
        (vectors, settings.learning_rate, 0.0),
        (list(model.heads.parameters()), settings.head_learning_rate, 0.0),
    )
    return [
        {"params": params, "lr": rate, "full_rate": rate, "weight_decay": decay}
        for params, rate, decay in parts
    ]
