"""A fitted transformer scorer: predicts, saves itself, is loaded again. Imports torch: see modeling.py.

The reading and predicting itself is in ``scoring/inference/encoder.py``, which is copied beside the weights.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save_model

from scoring.backbones.folder import card_heads, read_card, write_card
from scoring.domain.backbone import FitProgress, Report, ignore_progress
from scoring.domain.training_data import Example, Head, Prediction
from scoring.inference import encoder as portable
from scoring.inference import encoder as portable_inference
from scoring.inference.encoder import EncoderScorer, LevelScale, ScorerModel

KIND = "transformer"

README = """# A scorer

Ten lines load it; they need Python with torch, transformers and safetensors, and nothing else.

```python
from encoder import EncoderScorer  # the file encoder.py in this folder

scorer = EncoderScorer.load(".")
pairs = [("How do I kill a Python process?", "Sorry, I cannot help with that.")]
for (prompt, response), criteria in zip(pairs, scorer.probabilities(pairs)):
    for criterion, levels in criteria.items():
        print(criterion, max(levels, key=levels.get), levels)
```

`scorer.json` names the criteria, their scales and how it was trained; `weights.safetensors` holds the encoder and one
linear head for each criterion; `encoder/` its configuration and tokenizer.

`precision` in `scorer.json` is what it computes in. In `fp32` its probabilities are the same to 1e-5 on another
machine. In `int8` and `bf16` they depend on the batch and the machine by some thousandths; a machine that lacks these
computes in `fp32`, says so in a Python warning, and differs by up to about 0.03 (`int8`) or 0.005 (`bf16`).
"""


def list_scales(heads: Sequence[Head]) -> list[LevelScale]:
    return [LevelScale(head.criterion, head.values) for head in heads]


@dataclass(frozen=True)
class TransformerScorer:
    """``details`` says how it was trained: for the card."""

    backbone: str
    heads: tuple[Head, ...]
    portable: EncoderScorer
    details: Mapping[str, Any] = field(default_factory=dict)
    remote_code: bool = False

    @property
    def model(self) -> ScorerModel:
        return self.portable.model

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> list[Prediction]:
        pairs = [(example.prompt, example.response) for example in examples]
        return self.portable.probabilities(pairs, lambda share: report(FitProgress("predict", share)))

    def save(self, folder: Path) -> None:
        scorer = self.portable
        write_card(
            folder,
            kind=KIND,
            backbone=self.backbone,
            heads=self.heads,
            learned=sorted(scorer.learned),
            constant=scorer.constant,
            temperatures=scorer.temperatures,
            offsets={name: list(offsets) for name, offsets in scorer.offsets.items()},
            precision=scorer.precision,
            max_tokens=scorer.reader.max_tokens,
            headings=list(scorer.reader.headings),
            remote_code=self.remote_code,
            details=dict(self.details),
        )
        inside = folder / portable_inference.ENCODER
        self.model.encoder.config.save_pretrained(inside)
        scorer.reader.tokenizer.save_pretrained(inside)
        save_model(self.model, str(folder / portable_inference.WEIGHTS))
        write_reader(folder)

    @classmethod
    def load(cls, folder: Path) -> TransformerScorer:
        card = read_card(folder)
        remote = bool(card.get("remote_code", False))
        encoder_scorer = EncoderScorer.load(folder, remote_code=remote)
        return cls(card["backbone"], card_heads(card), encoder_scorer, card.get("details", {}), remote)


def write_reader(folder: Path) -> None:
    """What loads the folder where Assay is not: the file itself that predicts here, and ten lines to use it."""
    shutil.copyfile(portable.__file__, folder / "encoder.py")
    (folder / "README.md").write_text(README, encoding="utf-8")
