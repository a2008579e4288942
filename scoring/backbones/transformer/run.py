"""The processes that train one model together: one, unless ``accelerate launch`` started more. Imports torch.

One fine-tuning run: steps, rounds, early stopping, collapse and restart, checkpoints. Imports torch.

The state of a run is what learns, the optimizer, and a few numbers; the rest follows from the seed.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from scoring.backbones.transformer.modeling import (
    UNLABELLED,
    Pretrained,
    add_low_rank,
    head_loss,
    mixed_precision,
)
from scoring.domain.backbone import FitProgress, Report, scale_report
from scoring.domain.spec import TransformerSettings
from scoring.domain.training_data import Head
from scoring.inference.encoder import ScorerModel, best_device, has_bf16, run_sorted

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """``rank`` is this process among ``size``; the first one validates, keeps checkpoints and tells."""

    rank: int
    size: int
    device: torch.device
    accelerator: Any = None

    @classmethod
    def from_environment(cls) -> Team:
        """As ``accelerate launch`` says in the environment."""
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return cls(0, 1, best_device())
        from accelerate import Accelerator, DistributedDataParallelKwargs

        # A head without labels in a batch takes no part in it.
        unused = DistributedDataParallelKwargs(find_unused_parameters=True)
        accelerator = Accelerator(kwargs_handlers=[unused], cpu=not torch.cuda.is_available())
        return cls(accelerator.process_index, accelerator.num_processes, accelerator.device, accelerator)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wrap_model(self, model: Any) -> Any:
        """The model, such that its gradients are the mean over the team's."""
        return model if self.accelerator is None else self.accelerator.prepare_model(model)

    def take_share(self, rows: Sequence[T]) -> Sequence[T]:
        """This process's part of a batch; the first row where there are fewer rows than processes."""
        return rows[self.rank :: self.size] or rows[:1]

    def has_share(self, rows: Sequence[Any]) -> bool:
        return len(rows) > self.rank

    def broadcast(self, value: T) -> T:
        """What the first process says, so that all decide alike."""
        if self.accelerator is None:
            return value
        from accelerate.utils import broadcast_object_list

        values: list[T] = broadcast_object_list([value])
        return values[0]

    def wait_for_all(self) -> None:
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()


MAX_GRADIENT_NORM = 1.0
BUCKET_BATCHES = 50
"""Batches are cut from this many batches' worth of examples sorted by length: little padding, still shuffled."""
MIN_JUDGED_STEPS = 100
"""A round that ends before this step is too early to call a run collapsed; its end never is."""
MAX_PRIOR_LOSS_SHARE = 0.98
"""A run whose validation loss is above this share of the loss of always telling the frequencies learned nothing."""


@dataclass(frozen=True)
class TokenRow:
    """One example as the network sees it: token ids, and a target for each head."""

    tokens: list[int]
    targets: list[int]


@dataclass(frozen=True)
class TrainingMaterial:
    """Rows to learn from, rows held out, and by head for each level its weight and how often it is learned from.

    ``cut`` counts the examples, learned from or not, that are longer than a row."""

    learn: list[TokenRow]
    check: list[TokenRow]
    weights: list[list[float]]
    counts: list[list[int]]
    cut: int

    @property
    def watched(self) -> list[TokenRow]:
        """What a round is judged by. Of very few examples, which leave nothing out, those that are learned."""
        return self.check or self.learn


@dataclass
class TrainingState:
    """Where a run is. ``half``: it computes in bfloat16, and does so to its end wherever it is resumed; ``learned`` is
    whether this attempt had a round that was no collapse; ``rounds`` has what each round of each attempt gave;
    ``best`` names the best weights so far."""

    half: bool = False
    attempt: int = 0
    done: int = 0
    best_loss: float | None = None
    attempt_best: float | None = None
    worse: int = 0
    learned: bool = False
    best: str = ""
    over: bool = False
    rounds: list[dict[str, Any]] = field(default_factory=list)
    collapsed: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class RoundJudgement:
    """How the watched rows are predicted: loss and accuracy over their labels; ``prior`` is the frequencies' loss."""

    loss: float
    accuracy: float
    prior: float
    one_level: bool

    @property
    def collapse(self) -> str | None:
        """Why this is no learning, or None."""
        if not math.isfinite(self.loss):
            return "the loss is not a number"
        if self.loss > MAX_PRIOR_LOSS_SHARE * self.prior:
            return "the loss is no better than that of the frequencies"
        return "every prediction is one level" if self.one_level else None


def deal_epoch_batches(lengths: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
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


def compute_rate_factor(step: int, steps: int, warmup: float) -> float:
    """Of the full learning rate: linear up over the warm-up's share of the steps, then linear down to 0."""
    warm = max(1, round(steps * warmup))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


def plan_schedule(rows: int, settings: TransformerSettings) -> tuple[int, int]:
    """Steps of an epoch, and epochs of a round. Few examples are gone through more often in a round."""
    per_epoch = -(-rows // settings.batch_size)
    epochs = max(1, -(-settings.least_steps // (per_epoch * settings.rounds)))
    return per_epoch, epochs


class FineTuningRun:
    """One training run; ``train`` gives the model with the weights of its best round."""

    def __init__(
        self,
        pretrained: Pretrained,
        material: TrainingMaterial,
        heads: Sequence[Head],
        *,
        seed: int,
        team: Team,
        key: str = "",
        checkpoints: Path | None = None,
    ) -> None:
        self.pretrained, self.material, self.heads = pretrained, material, tuple(heads)
        self.settings, self.seed, self.key = pretrained.spec.settings, seed, key
        self.team, self.device, self.checkpoints = team, team.device, checkpoints
        self.per_epoch, epochs = plan_schedule(len(material.learn), self.settings)
        self.per_round = self.per_epoch * epochs
        self.steps = self.per_round * self.settings.rounds
        self.weights = [torch.tensor(levels, device=self.device) for levels in material.weights]
        self.ordinal = [self.settings.ordinal if h.measurement != "nominal" else 0.0 for h in self.heads]
        self.state = TrainingState(half=has_bf16(self.device))
        self.model: ScorerModel
        self._best: dict[str, Tensor] = {}
        self._batches: tuple[int, int, list[list[int]]] = (-1, -1, [])

    def train(self, report: Report) -> ScorerModel:
        report = scale_report(report, 0, 1, stage="learn")
        self._resume()
        while not self.state.over:
            self._advance(report)
        self._restore(self._best)
        self.model.eval()
        return self.model

    def describe_training(self) -> dict[str, Any]:
        """For the card: the curve of every attempt, and what was judged a collapse."""
        return {
            "steps": self.steps,
            "computed_in": "bf16" if self.state.half else "fp32",
            "rounds": self.state.rounds,
            "restarts": self.state.collapsed,
            "collapsed": not self.state.learned,
        }

    def _advance(self, report: Report) -> None:
        """One step; at the end of a round what is to be decided there."""
        loss = self._step()
        if not math.isfinite(loss):
            self._handle_divergence()
            return
        metrics = self._round(loss) if self.state.done % self.per_round == 0 else {}
        if metrics or self.state.done % self.settings.checkpoint_every == 0:
            self.save()
        share = 1.0 if self.state.over else self.state.done / self.steps
        report(FitProgress("learn", share, loss=loss, metrics=metrics))

    def _round(self, loss: float) -> dict[str, float]:
        """Judge the watched rows: keep the weights if they are the best, stop if it gets worse, restart a collapse."""
        judgement = self.team.broadcast(self._judge_watched_rows() if self.team.is_first else None)
        assert judgement is not None
        state = self.state
        state.rounds.append(
            {
                "attempt": state.attempt,
                "step": state.done,
                "loss": loss,
                "validation_loss": judgement.loss,
                "validation_accuracy": judgement.accuracy,
            }
        )
        self._compare_with_best(judgement)
        last = state.done == self.steps or (self.material.check and state.worse >= self.settings.patience)
        state.learned = state.learned or judgement.collapse is None
        if judgement.collapse and not state.learned and (last or state.done >= MIN_JUDGED_STEPS):
            self._restart_or_end(judgement.collapse)
        elif last:
            state.over = True
        return {"validation_loss": judgement.loss, "validation_accuracy": judgement.accuracy}

    def _compare_with_best(self, judgement: RoundJudgement) -> None:
        state = self.state
        if not math.isfinite(judgement.loss):
            return
        if not self.material.check:  # nothing tells which round is best: the last one is
            if state.done == self.steps:
                self._keep_best(judgement.loss)
        elif state.attempt_best is not None and judgement.loss >= state.attempt_best:
            state.worse += 1
        else:
            state.attempt_best, state.worse = judgement.loss, 0
            if state.best_loss is None or judgement.loss < state.best_loss:
                self._keep_best(judgement.loss)

    def _handle_divergence(self) -> None:
        if self.state.learned:
            self.state.over = True
        else:
            self._restart_or_end("the loss is not a number")

    def _restart_or_end(self, reason: str) -> None:
        """Begin again with another seed and half the rate; after the last restart, end with the best there was."""
        state = self.state
        state.collapsed.append({"attempt": state.attempt, "step": state.done, "reason": reason})
        if state.attempt >= self.settings.restarts:
            state.over = True
            return
        state.attempt, state.done = state.attempt + 1, 0
        state.attempt_best, state.worse, state.learned = None, 0, False
        self._start_attempt()

    @property
    def _seed(self) -> int:
        """Of this attempt."""
        return self.seed + 7919 * self.state.attempt

    def _start_attempt(self) -> None:
        """The pretrained weights, new heads and a new optimizer."""
        torch.manual_seed(self._seed)
        low_rank = self.pretrained.spec.tuning == "lora"
        half = low_rank and self.device.type == "cuda"  # frozen weights need no more
        model = self.pretrained.build_model(self.heads, torch.bfloat16 if half else torch.float32)
        if low_rank:
            add_low_rank(model, self.settings)
        self.model = model.to(self.device)
        rate = 0.5**self.state.attempt
        groups = build_parameter_groups(self.model, self.settings, low_rank=low_rank, factor=rate)
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        self.wrapped = self.team.wrap_model(self.model)
        if not self._best:
            self._best = self._copy_learned_weights()

    def _step(self) -> float:
        self.model.train()
        torch.manual_seed((self._seed * 1_000_003 + self.state.done) * self.team.size + self.team.rank)
        factor = compute_rate_factor(self.state.done, self.steps, self.settings.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_rate"] * factor
        batch = [self.material.learn[i] for i in self._list_batch_rows()]
        loss = self._compute_loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
        self.optimizer.step()
        self.state.done += 1
        return self.team.broadcast(float(loss.item()))

    def _compute_loss(self, batch: Sequence[TokenRow]) -> Tensor:
        """Of this process's share, such that the mean over the team is the mean over the batch's labels."""
        rows = self.team.take_share(batch)
        ids, mask = self.pretrained.reader.pad_batch([row.tokens for row in rows], self.device)
        targets = torch.tensor([row.targets for row in rows], device=self.device)
        with mixed_precision(self.device, half=self.state.half):
            logits = self.wrapped(ids, mask)
        if not self.team.has_share(batch):
            return torch.stack([scores.sum() for scores in logits]).sum() * 0
        labels = sum(target != UNLABELLED for row in batch for target in row.targets)
        return head_loss(logits, targets, self.weights, self.ordinal) * (self.team.size / labels)

    def _list_batch_rows(self) -> list[int]:
        epoch, at = divmod(self.state.done, self.per_epoch)
        if self._batches[:2] != (self.state.attempt, epoch):
            lengths = [len(row.tokens) for row in self.material.learn]
            batches = deal_epoch_batches(lengths, self.settings.batch_size, self._seed, epoch)
            self._batches = (self.state.attempt, epoch, batches)
        return self._batches[2][at]

    def _judge_watched_rows(self) -> RoundJudgement:
        self.model.eval()
        rows = self.material.watched
        with mixed_precision(self.device, half=self.state.half):
            logits = run_sorted(self.model, self.pretrained.reader, [r.tokens for r in rows], self.device)
        return judge_predictions(logits, torch.tensor([row.targets for row in rows]), self.material.counts)

    # What is kept

    def _copy_learned_weights(self) -> dict[str, Tensor]:
        """A copy, on the processor, of what learns."""
        return {
            name: parameter.detach().to("cpu", copy=True).contiguous()
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad
        }

    def _restore(self, tensors: Mapping[str, Tensor]) -> None:
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in tensors.items():
                parameters[name].copy_(tensor)

    def _keep_best(self, loss: float) -> None:
        """Written at once, under its own name: the checkpoint that names it comes after it."""
        self.state.best_loss = loss
        self._best = self._copy_learned_weights()
        self.state.best = f"best-{self.state.attempt}-{self.state.done:08d}.safetensors"
        if self.checkpoints is not None and self.team.is_first:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            part_file = self.checkpoints / "best.part"
            save_file(self._best, str(part_file))
            part_file.replace(self.checkpoints / self.state.best)

    def save(self) -> None:
        """Written beside and moved in place: a checkpoint that is there is whole. Only the last one is kept."""
        if self.checkpoints is None or not self.team.is_first:
            return
        part_folder = self.checkpoints / "part"
        shutil.rmtree(part_folder, ignore_errors=True)
        part_folder.mkdir(parents=True)
        save_file(self._copy_learned_weights(), str(part_folder / "model.safetensors"))
        save_file(self._optimizer_tensors(), str(part_folder / "optimizer.safetensors"))
        checkpoint = {"key": self.key, "state": asdict(self.state)}
        (part_folder / "state.json").write_text(json.dumps(checkpoint), encoding="utf-8")
        earlier = list(self.checkpoints.glob("step-*"))
        part_folder.replace(self.checkpoints / f"step-{self.state.attempt}-{self.state.done:08d}")
        for folder in earlier:
            shutil.rmtree(folder, ignore_errors=True)
        for path in self.checkpoints.glob("best-*"):
            if path.name != self.state.best:
                path.unlink()

    def _resume(self) -> None:
        """Go on from the last checkpoint of this very run, if there is one; another run's is dropped."""
        folder = self._find_checkpoint()
        if folder is None:
            self._start_attempt()
        else:
            checkpoint = json.loads((folder / "state.json").read_text(encoding="utf-8"))
            self.state = TrainingState(**checkpoint["state"])
            self._start_attempt()
            self._restore(load_file(str(folder / "model.safetensors")))
            self._load_optimizer(folder / "optimizer.safetensors")
            if self.state.best and self.checkpoints is not None:
                self._best = load_file(str(self.checkpoints / self.state.best))
        self.team.wait_for_all()

    def _find_checkpoint(self) -> Path | None:
        """All of a team look before one of them drops anything."""
        match = None
        for folder in sorted(self.checkpoints.glob("step-*") if self.checkpoints else (), reverse=True):
            state: dict[str, Any] = json.loads((folder / "state.json").read_text(encoding="utf-8"))
            if state["key"] == self.key and match is None:
                match = folder
        self.team.wait_for_all()
        if self.team.is_first and self.checkpoints is not None:
            for folder in self.checkpoints.glob("step-*"):
                if folder != match:
                    shutil.rmtree(folder)
        return match

    def _list_parameters(self) -> list[Any]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _optimizer_tensors(self) -> dict[str, Any]:
        """AdamW's moments by number of parameter. One that never had a gradient has none."""
        return {
            f"{i}.{name}": tensor.contiguous()
            for i, parameter in enumerate(self._list_parameters())
            for name, tensor in self.optimizer.state.get(parameter, {}).items()
        }

    def _load_optimizer(self, path: Path) -> None:
        parameters = self._list_parameters()
        for label, tensor in load_file(str(path)).items():
            number, name = label.split(".", 1)
            self.optimizer.state[parameters[int(number)]][name] = tensor.to(self.device)


def judge_predictions(
    logits: Sequence[Tensor], targets: Tensor, counts: Sequence[Sequence[int]]
) -> RoundJudgement:
    """``counts`` are how often each level of each head was learned from: what the frequencies would say."""
    known = targets != UNLABELLED
    labels = int(known.sum())
    right = 0
    prior = 0.0
    constant_heads: list[bool] = []
    for i, scores in enumerate(logits):
        truth = targets[known[:, i], i]
        if not len(truth):
            continue
        predicted = scores[known[:, i]].argmax(1)
        right += int((predicted == truth).sum())
        shares = torch.tensor(counts[i], dtype=torch.double) + 0.5  # a level that only the watched rows have
        prior -= float((shares / shares.sum()).log()[truth].sum())
        if len(truth.unique()) > 1:
            constant_heads.append(len(predicted.unique()) == 1)
    return RoundJudgement(
        loss=float(head_loss(logits, targets).item()) / labels,
        accuracy=right / labels,
        prior=prior / labels,
        one_level=bool(constant_heads) and all(constant_heads),
    )


def build_parameter_groups(
    model: ScorerModel, settings: TransformerSettings, *, low_rank: bool, factor: float
) -> list[dict[str, Any]]:
    """New heads learn faster than the pretrained weights; biases and norms do not decay."""
    encoder = [p for p in model.encoder.parameters() if p.requires_grad]
    rate = settings.lora_learning_rate if low_rank else settings.learning_rate
    parts = (
        ([p for p in encoder if p.ndim > 1], rate, settings.weight_decay),
        ([p for p in encoder if p.ndim <= 1], rate, 0.0),
        (list(model.heads.parameters()), settings.head_learning_rate, 0.0),
    )
    return [
        {"params": params, "lr": full * factor, "full_rate": full * factor, "weight_decay": decay}
        for params, full, decay in parts
        if params
    ]
