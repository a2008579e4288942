"""A fitted transformer scorer: predicts, saves itself, is loaded again. Imports torch: see modeling.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_model, save_model

from scoring.dataset import Distribution, Example, Head, Prediction, Value
from scoring.interface import Progress, Report, silent
from scoring.modeling import Reader, ScorerModel, best_device, from_folder, mixed_precision
from scoring.saved import card_heads, read_card, write_card

KIND = "transformer"
WEIGHTS_FILE = "weights.safetensors"
ENCODER_FOLDER = "encoder"
BATCH_SIZE = 32


@dataclass(frozen=True)
class TransformerScorer:
    """``learned`` names the heads that saw two levels or more, ``constant`` the level of those that saw one."""

    backbone: str
    heads: tuple[Head, ...]
    learned: frozenset[str]
    constant: Mapping[str, Value]
    model: ScorerModel
    reader: Reader

    def predict(self, examples: Sequence[Example], *, report: Report = silent) -> list[Prediction]:
        """Longest first, so that the batch that needs the most memory is the first."""
        device = best_device()
        self.model.to(device).eval()
        rows = [self.reader.read(example) for example in examples]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        predictions: list[Prediction] = [{} for _ in rows]
        for start in range(0, len(order), BATCH_SIZE):
            chosen = order[start : start + BATCH_SIZE]
            for i, prediction in zip(chosen, self._batch([rows[i] for i in chosen], device), strict=True):
                predictions[i] = prediction
            report(Progress("predict", (start + len(chosen)) / len(order)))
        return predictions

    def _batch(self, rows: Sequence[Sequence[int]], device: torch.device) -> list[Prediction]:
        ids, mask = self.reader.batch(rows, device)
        with torch.inference_mode(), mixed_precision(device):
            logits = self.model(ids, mask)
        columns: dict[str, list[Distribution]] = {}
        for head, scores in zip(self.heads, logits, strict=True):
            if head.criterion in self.constant:
                columns[head.criterion] = [head.certain(self.constant[head.criterion]) for _ in rows]
            elif head.criterion in self.learned:
                shares = scores.double().softmax(dim=1).tolist()
                columns[head.criterion] = [dict(zip(head.values, row, strict=True)) for row in shares]
        return [{criterion: rows_[i] for criterion, rows_ in columns.items()} for i in range(len(rows))]

    def save(self, folder: Path) -> None:
        write_card(
            folder,
            kind=KIND,
            backbone=self.backbone,
            heads=self.heads,
            learned=sorted(self.learned),
            constant=dict(self.constant),
            max_tokens=self.reader.max_tokens,
        )
        self.model.encoder.config.save_pretrained(folder / ENCODER_FOLDER)
        self.reader.tokenizer.save_pretrained(folder / ENCODER_FOLDER)
        save_model(self.model, str(folder / WEIGHTS_FILE))

    @classmethod
    def load(cls, folder: Path) -> TransformerScorer:
        card = read_card(folder)
        heads = card_heads(card)
        model, reader = from_folder(folder / ENCODER_FOLDER, heads, card["max_tokens"])
        load_model(model, str(folder / WEIGHTS_FILE))
        return cls(card["backbone"], heads, frozenset(card["learned"]), card["constant"], model, reader)
