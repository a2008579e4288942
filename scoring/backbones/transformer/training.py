"""Fine-tuning a transformer scorer: its material, its run, its calibration. Imports torch: see modeling.py.

What a step does follows from the seed and the number of the step alone, so that a run that was killed and
resumed ends with the weights of one that was not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scoring.backbones.transformer.memory import MemoryNeeds, check_memory, compute_needs
from scoring.backbones.transformer.modeling import UNLABELLED, Pretrained, level_weights, merge_low_rank
from scoring.backbones.transformer.predictor import TransformerScorer, list_scales
from scoring.backbones.transformer.run import FineTuningRun, Team, TokenRow, TrainingMaterial
from scoring.domain.backbone import FitProgress, Report, ignore_progress
from scoring.domain.calibration import Calibration, fit_calibration
from scoring.domain.spec import Spec
from scoring.domain.training_data import (
    Example,
    Head,
    Value,
    check_examples,
    folds_by_prompt,
    head_state,
    level_counts,
    only_level,
    prompt_groups,
)
from scoring.inference.encoder import EncoderScorer, list_fast_precisions

MIN_VALIDATION_RESPONSES = 16
TENTH = 10
MIN_COMPARED_RESPONSES = 100
HELD_PARTS = 3
"""Parts of what is held out, on each of which a calibration fitted on the others is tried."""
MIN_LOG = -23.0
"""A log probability is taken as no less while it is calibrated."""
MIN_SAME_LABELS_SHARE = 0.99
"""The share of validation labels that a faster precision must leave as they are, on at least so many responses."""


def fit_transformer(
    spec: Spec,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> TransformerScorer:
    """Learn, stop early and calibrate on a part of the examples that is held out by prompt.

    Raises AssayError where the encoder cannot be loaded, a label is off its scale, or memory is too small.
    """
    check_examples(examples, heads)
    learning = list_learned_heads(examples, heads)
    with torch.random.fork_rng():
        report(FitProgress("load", 0.0))
        team = Team.from_environment()
        pretrained = Pretrained.load(spec)
        material, split_basis = read_material(examples, heads, learning, pretrained)
        needs = estimate_memory(pretrained, material, heads, team.device)
        check_memory(needs, team.device)
        run = FineTuningRun(pretrained, material, heads, seed=seed, team=team, checkpoints=checkpoints)
        run.key = compute_run_key(spec, material, heads, seed)
        model = run.train(report)
        if spec.tuning == "lora":
            merge_low_rank(model)
        scorer = EncoderScorer(
            model,
            pretrained.reader,
            list_scales(heads),
            learned=sorted(learning),
            constant=list_constant_heads(examples, heads),
            temperatures={},
        )
        calibrated = calibrate(scorer, material)
    details = {
        "loss": _describe_loss(spec, heads),
        "validation": {"by": split_basis, "n": len(material.check)},
        "memory_gib": needs.to_json(),
        "cut": {
            "n": material.cut,
            "of": len(examples),
            "max_tokens": pretrained.reader.max_tokens,
        },
        **run.describe_training(),
        **calibrated,
    }
    return TransformerScorer(spec.title, tuple(heads), scorer, details, spec.remote_code)


def list_learned_heads(examples: Sequence[Example], heads: Sequence[Head]) -> frozenset[str]:
    return frozenset(h.criterion for h in heads if head_state(level_counts(examples, h)) == "learned")


def list_constant_heads(examples: Sequence[Example], heads: Sequence[Head]) -> dict[str, Value]:
    counts = {head.criterion: level_counts(examples, head) for head in heads}
    return {name: only_level(levels) for name, levels in counts.items() if head_state(levels) == "constant"}


def estimate_memory(
    pretrained: Pretrained, material: TrainingMaterial, heads: Sequence[Head], device: torch.device
) -> MemoryNeeds:
    spec = pretrained.spec
    longest = max(len(row.tokens) for row in (*material.learn, *material.check))
    return compute_needs(pretrained.build_outline(heads), spec.tuning, spec.settings, longest, device)


def read_material(
    examples: Sequence[Example], heads: Sequence[Head], learning: frozenset[str], pretrained: Pretrained
) -> tuple[TrainingMaterial, str]:
    """What is learned from and what is held out, as the network sees it; and how it was held out."""
    held, split_basis = hold_out_rows(examples, learning)
    tokens = pretrained.reader.read_rows([(example.prompt, example.response) for example in examples])
    rows = build_rows(examples, heads, learning, [row.tokens for row in tokens])
    learn = [row for row, out in zip(rows, held, strict=True) if row is not None and not out]
    check = [row for row, out in zip(rows, held, strict=True) if row is not None and out]
    counts = [_count_targets(learn, i, len(head.values)) for i, head in enumerate(heads)]
    balance = pretrained.spec.settings.balance
    weights = [level_weights(dict(enumerate(count)), balance) for count in counts]
    cut = sum(row.is_cut for row in tokens)
    return TrainingMaterial(learn, check, weights, counts, cut), split_basis


def _count_targets(rows: Sequence[TokenRow], head: int, levels: int) -> list[int]:
    targets = [row.targets[head] for row in rows]
    return [targets.count(level) for level in range(levels)]


def build_rows(
    examples: Sequence[Example],
    heads: Sequence[Head],
    learning: frozenset[str],
    tokens: Sequence[list[int]],
) -> list[TokenRow | None]:
    """Each example; None for one that no head can learn from."""
    rows: list[TokenRow | None] = []
    for example, ids in zip(examples, tokens, strict=True):
        targets = [
            head.position(example.labels[head.criterion])
            if head.criterion in learning and head.criterion in example.labels
            else UNLABELLED
            for head in heads
        ]
        rows.append(TokenRow(ids, targets) if any(target != UNLABELLED for target in targets) else None)
    return rows


def hold_out_rows(examples: Sequence[Example], learning: frozenset[str]) -> tuple[list[bool], str]:
    """Which examples are for validation, never a prompt on both sides: those of the split ``validation`` where they
    are a twentieth or more; else a grouped tenth, or as much more as makes 16. Of very few examples, none.

    What is learned from must still hold two levels of each head that is to learn.
    """
    groups = prompt_groups(examples)
    named = {group for group, example in zip(groups, examples, strict=True) if example.split == "validation"}
    enough = max(MIN_VALIDATION_RESPONSES, len(examples) // (2 * TENTH))
    held = [group in named for group in groups]
    if sum(held) >= enough and _still_learns(examples, held, learning):
        return held, "split"
    parts = min(TENTH, len(examples) // MIN_VALIDATION_RESPONSES)
    if parts > 2 and len(set(groups)) >= parts:
        held = [fold == 0 for fold in folds_by_prompt(examples, k=parts)]
        if _still_learns(examples, held, learning):
            return held, f"1/{parts} by prompt"
    return [False] * len(examples), "none"


def _still_learns(examples: Sequence[Example], held: Sequence[bool], learning: frozenset[str]) -> bool:
    left = [example for example, out in zip(examples, held, strict=True) if not out]
    return all(
        len({example.labels[name] for example in left if name in example.labels}) > 1 for name in learning
    )


def compute_run_key(spec: Spec, material: TrainingMaterial, heads: Sequence[Head], seed: int) -> str:
    """The sha256 of all that a run follows from: a checkpoint of another run is not resumed."""
    rows = [[asdict(row) for row in part] for part in (material.learn, material.check)]
    identity = [spec.to_json(), rows, [head.to_json() for head in heads], seed]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def calibrate(scorer: EncoderScorer, material: TrainingMaterial) -> dict[str, Any]:
    """Choose the precision that it predicts in, and a calibration for each head, on what was held out.

    The faster precision is taken where it leaves 99% of the validation's labels as they are. Where nothing is held out
    the calibration undoes the weights of the levels, and no more.
    """
    rows = [row.tokens for row in material.check]
    if not rows:
        empty = [torch.zeros((0, len(scale.values))) for scale in scorer.scales]
        return {"precision": scorer.precision, **_calibrate_heads(scorer, empty, material)}
    plain = logits = scorer.compute_logits(rows)
    same_labels: dict[str, Any] = {}
    for precision in list_fast_precisions() if len(rows) >= MIN_COMPARED_RESPONSES else ():
        scorer.precision = precision
        logits = scorer.compute_logits(rows)
        same_labels[precision] = round(_compute_same_labels(plain, logits, scorer), 4)
        if same_labels[precision] >= MIN_SAME_LABELS_SHARE:
            break
        scorer.precision, logits = "fp32", plain
    return {
        "precision": scorer.precision,
        "same_labels": same_labels,
        **_calibrate_heads(scorer, logits, material),
    }


def _compute_same_labels(plain: Sequence[Tensor], fast: Sequence[Tensor], scorer: EncoderScorer) -> float:
    shares = [
        float((a.argmax(1) == b.argmax(1)).float().mean())
        for a, b, scale in zip(plain, fast, scorer.scales, strict=True)
        if scale.criterion in scorer.learned
    ]
    return min(shares, default=1.0)


def _calibrate_heads(
    scorer: EncoderScorer, head_logits: Sequence[Tensor], material: TrainingMaterial
) -> dict[str, Any]:
    """Sets the scorer's temperatures and offsets; for the card. The rates are those of all labels, held out or not."""
    targets = torch.tensor([row.targets for row in material.check]).reshape(-1, len(scorer.scales))
    calibrations: dict[str, Calibration] = {}
    for i, (scale, logits) in enumerate(zip(scorer.scales, head_logits, strict=True)):
        if scale.criterion not in scorer.learned:
            continue
        known = targets[:, i] != UNLABELLED
        held = targets[known, i].numpy().astype(np.int64)
        logs = np.maximum(logits[known].double().log_softmax(dim=1).numpy(), MIN_LOG)
        learned = np.array(material.counts[i]) * np.array(material.weights[i])
        counts = np.array(material.counts[i]) + np.bincount(held, minlength=len(scale.values))
        calibration = fit_calibration(
            logs,
            held,
            np.arange(len(held)) * HELD_PARTS // max(len(held), 1),  # a prompt's responses lie together
            learned_shares=learned / learned.sum(),
            rates=counts / counts.sum(),
        )
        unlearned = learned == 0
        offsets = np.where(unlearned, min(calibration.offsets), calibration.offsets)
        calibrations[scale.criterion] = replace(calibration, offsets=tuple(offsets.tolist()))
    scorer.temperatures = {name: each.temperature for name, each in calibrations.items()}
    scorer.offsets = {name: each.offsets for name, each in calibrations.items()}
    return {
        "temperatures": dict(scorer.temperatures),
        "offsets": {name: list(offsets) for name, offsets in scorer.offsets.items()},
        "calibration": {name: each.method for name, each in calibrations.items()},
    }


def _describe_loss(spec: Spec, heads: Sequence[Head]) -> Mapping[str, str]:
    """For each criterion, in words."""
    settings = spec.settings
    plain = f"cross entropy, levels weigh frequency^-{settings.balance:g}"
    ordered = f"{plain}, plus {settings.ordinal:g} x squared earth mover's distance"
    return {h.criterion: ordered if settings.ordinal and h.measurement != "nominal" else plain for h in heads}
