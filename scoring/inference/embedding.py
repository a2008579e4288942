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
    from .encoder import (
        BATCH_ROWS,
        TokenReader,
        best_device,
        choose_pooling,
        compute_token_limit,
        pool_states,
        run_sorted,
    )
    from .ngram import Floats, LinearHead, Pair, list_distributions, read_heads
else:  # laid beside the weights, where there is no package
    from encoder import (
        BATCH_ROWS,
        TokenReader,
        best_device,
        choose_pooling,
        compute_token_limit,
        pool_states,
        run_sorted,
    )
    from ngram import Floats, LinearHead, Pair, list_distributions, read_heads

CARD, WEIGHTS_FILE, ENCODER = "scorer.json", "heads.npz", "encoder"
MAX_TOKENS = 256
PART_CHARACTERS = 200
"""Characters of a response's opening and of its ending, each embedded by itself as well."""
EQUAL_LENGTH_TOKENS = {"cpu": 384, "cuda": 1024}
"""Tokens of a batch of rows that are all as long: few, for of each length the last batch is filled up."""
MAX_CACHE_BYTES = 256 * 2**20
"""What the embeddings kept by one encoder may take."""

ShareReport = Callable[[float], None]


@dataclass
class Encoder:
    """A pretrained network that embeds texts and does not learn. It keeps what it has embedded.

    ``exact`` is for learning: the last bits of an embedding depend on the shape of the batch that it was computed in,
    and weights that rest on it with them. An exact encoder computes every text in a batch whose shape follows from the
    text alone, so that the same texts give the same bits whatever was embedded with them or before.
    """

    model: Any
    reader: TokenReader
    exact: bool = False
    cache: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str | Path, *, local: bool = True, remote_code: bool = False) -> Encoder:
        """From a folder, or by its name on the hub unless ``local``."""
        options = {"local_files_only": local, "trust_remote_code": remote_code}
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
        model = AutoModel.from_pretrained(name, dtype=torch.float32, use_safetensors=True, **options)
        model.config.use_cache = False
        limit = compute_token_limit(tokenizer, model.config, MAX_TOKENS)
        return cls(model.eval(), TokenReader(tokenizer, limit))

    @property
    def width(self) -> int:
        return int(self.model.config.hidden_size)

    def embed(self, texts: Sequence[str], report_share: ShareReport | None = None) -> Floats:
        """(texts, width), each of length 1. A text that is there already is not embedded again."""
        new = [text for text in dict.fromkeys(texts) if text not in self.cache]
        if (len(self.cache) + len(new)) * self.width * 4 > MAX_CACHE_BYTES:
            self.cache.clear()
            new = list(dict.fromkeys(texts))
        if new:
            self.cache.update(zip(new, self._embed(new, report_share), strict=True))
        embeddings = [self.cache[text] for text in texts]
        return np.stack(embeddings) if embeddings else np.zeros((0, self.width), np.float32)

    def _embed(self, texts: Sequence[str], report_share: ShareReport | None) -> Floats:
        device = best_device()
        model, pooling = self.model.to(device), choose_pooling(self.model.config)

        def pooled(ids: Any, mask: Any) -> list[Any]:
            states = model(input_ids=ids, attention_mask=mask).last_hidden_state
            return [pool_states(states.float(), mask, pooling)]

        # A text without a token, which no network reads, is embedded as nothing.
        rows = self.reader.read_texts(texts)
        nonempty = [i for i, row in enumerate(rows) if row]
        result = np.zeros((len(texts), self.width), np.float32)
        batches = (
            partial(batch_equal_lengths, tokens=EQUAL_LENGTH_TOKENS.get(device.type, 384))
            if self.exact
            else None
        )
        if nonempty:
            read = [rows[i] for i in nonempty]
            embeddings = run_sorted(pooled, self.reader, read, device, report_share, batches=batches)[
                0
            ].numpy()
            result[nonempty] = embeddings / np.maximum(
                np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12
            )
        return result


def batch_equal_lengths(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Positions, longest first: a batch has rows of one length, and always as many of that length. What is lacking is
    made up by its last row again. Nothing is padded."""
    by_length: dict[int, list[int]] = {}
    for i, length in enumerate(lengths):
        by_length.setdefault(length, []).append(i)
    for length in sorted(by_length, reverse=True):
        positions, rows = by_length[length], min(BATCH_ROWS, max(1, tokens // length))
        positions += [positions[-1]] * (-len(positions) % rows)
        for start in range(0, len(positions), rows):
            yield positions[start : start + rows]


def embed_pairs(encoder: Encoder, pairs: Sequence[Pair], report_share: ShareReport | None = None) -> Floats:
    """(pairs, 6 widths): prompt, response, its opening and its ending, and how prompt and response relate."""
    prompts = [prompt.strip() for prompt, _response in pairs]
    responses = [response.strip() for _prompt, response in pairs]
    parts = [
        prompts,
        responses,
        [text[:PART_CHARACTERS] for text in responses],
        [text[-PART_CHARACTERS:] for text in responses],
    ]
    embedded = encoder.embed([text for part in parts for text in part], report_share)
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
            return cls(encoder, read_heads(card, arrays))

    def probabilities(
        self, pairs: Sequence[Pair], report_share: ShareReport | None = None
    ) -> list[dict[str, dict[float, float]]]:
        """For each pair ``{criterion: {level: probability}}``; ``told`` hears the share that is done."""
        return list_distributions(self.heads, embed_pairs(self.encoder, pairs, report_share)) if pairs else []
