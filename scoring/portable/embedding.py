"""Texts to probabilities with a frozen encoder under linear heads. Needs torch, transformers and safetensors, and
beside itself ``encoder.py`` and ``ngram.py``.

    from embedding import EmbeddingScorer
    EmbeddingScorer.load("folder").probabilities([("the prompt", "the response")])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

if TYPE_CHECKING or __package__:
    from .encoder import BATCH_ROWS, Reader, best_device, pool, pooling_for, run_sorted, token_limit
    from .ngram import Floats, LinearHead, Pair, distributions, saved_heads
else:  # laid beside the weights, where there is no package
    from encoder import BATCH_ROWS, Reader, best_device, pool, pooling_for, run_sorted, token_limit
    from ngram import Floats, LinearHead, Pair, distributions, saved_heads

CARD, WEIGHTS_FILE, ENCODER = "scorer.json", "heads.npz", "encoder"
MAX_TOKENS = 256
PART = 200
"""Characters of a response's opening and of its ending, each embedded by itself as well."""
ALIKE_TOKENS = {"cpu": 384, "cuda": 1024}
"""Tokens of a batch of rows that are all as long: few, for of each length the last batch is filled up."""
KEPT_BYTES = 256 * 2**20
"""What the embeddings kept by one encoder may take."""

Told = Callable[[float], None]


@dataclass
class Encoder:
    """A pretrained network that embeds texts and does not learn. It keeps what it has embedded.

    ``exact`` is for learning: the last bits of an embedding depend on the shape of the batch that it was computed in,
    and weights that rest on it with them. An exact encoder computes every text in a batch whose shape follows from the
    text alone, so that the same texts give the same bits whatever was embedded with them or before.
    """

    model: Any
    reader: Reader
    exact: bool = False
    kept: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str | Path, *, local: bool = True, remote_code: bool = False) -> Encoder:
        """From a folder, or by its name on the hub unless ``local``."""
        options = {"local_files_only": local, "trust_remote_code": remote_code}
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
        model = AutoModel.from_pretrained(name, dtype=torch.float32, use_safetensors=True, **options)
        model.config.use_cache = False
        limit = token_limit(tokenizer, model.config, MAX_TOKENS)
        return cls(model.eval(), Reader(tokenizer, limit))

    @property
    def width(self) -> int:
        return int(self.model.config.hidden_size)

    def embed(self, texts: Sequence[str], told: Told | None = None) -> Floats:
        """(texts, width), each of length 1. A text that is there already is not embedded again."""
        new = [text for text in dict.fromkeys(texts) if text not in self.kept]
        if (len(self.kept) + len(new)) * self.width * 4 > KEPT_BYTES:
            self.kept.clear()
            new = list(dict.fromkeys(texts))
        if new:
            self.kept.update(zip(new, self._embed(new, told), strict=True))
        found = [self.kept[text] for text in texts]
        return np.stack(found) if found else np.zeros((0, self.width), np.float32)

    def _embed(self, texts: Sequence[str], told: Told | None) -> Floats:
        device = best_device()
        model, pooling = self.model.to(device), pooling_for(self.model.config)

        def pooled(ids: Any, mask: Any) -> list[Any]:
            states = model(input_ids=ids, attention_mask=mask).last_hidden_state
            return [pool(states.float(), mask, pooling)]

        # A text without a token, which no network reads, is embedded as nothing.
        rows = self.reader.read_texts(texts)
        some = [i for i, row in enumerate(rows) if row]
        result = np.zeros((len(texts), self.width), np.float32)
        batches = partial(batches_alike, tokens=ALIKE_TOKENS.get(device.type, 384)) if self.exact else None
        if some:
            read = [rows[i] for i in some]
            found = run_sorted(pooled, self.reader, read, device, told, batches=batches)[0].numpy()
            result[some] = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return result


def batches_alike(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Positions, longest first: a batch has rows of one length, and always as many of that length. What is lacking is
    made up by its last row again. Nothing is padded."""
    by_length: dict[int, list[int]] = {}
    for i, length in enumerate(lengths):
        by_length.setdefault(length, []).append(i)
    for length in sorted(by_length, reverse=True):
        found, rows = by_length[length], min(BATCH_ROWS, max(1, tokens // length))
        found += [found[-1]] * (-len(found) % rows)
        for start in range(0, len(found), rows):
            yield found[start : start + rows]


def features(encoder: Encoder, pairs: Sequence[Pair], told: Told | None = None) -> Floats:
    """(pairs, 6 widths): prompt, response, its opening and its ending, and how prompt and response relate."""
    prompts = [prompt.strip() for prompt, _response in pairs]
    responses = [response.strip() for _prompt, response in pairs]
    parts = [prompts, responses, [text[:PART] for text in responses], [text[-PART:] for text in responses]]
    embedded = encoder.embed([text for part in parts for text in part], told)
    prompt, response, opening, ending = embedded.reshape(len(parts), len(pairs), encoder.width)
    product = prompt * response * np.float32(np.sqrt(encoder.width))  # as long as the others, about
    return np.hstack([prompt, response, opening, ending, product, np.abs(prompt - response)])


@dataclass(frozen=True)
class EmbeddingScorer:
    """What was saved in a folder; a criterion without labels has no head and is never predicted."""

    encoder: Encoder
    heads: tuple[LinearHead, ...]

    @classmethod
    def load(cls, folder: str | Path, *, remote_code: bool = False) -> EmbeddingScorer:
        folder = Path(folder)
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        encoder = Encoder.load(folder / ENCODER, remote_code=remote_code)
        with np.load(folder / WEIGHTS_FILE, allow_pickle=False) as arrays:
            return cls(encoder, saved_heads(card, arrays))

    def probabilities(
        self, pairs: Sequence[Pair], told: Told | None = None
    ) -> list[dict[str, dict[float, float]]]:
        """For each pair ``{criterion: {level: probability}}``; ``told`` hears the share that is done."""
        return distributions(self.heads, features(self.encoder, pairs, told)) if pairs else []
