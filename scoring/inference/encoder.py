"""Reads the saved folder of a scorer that has a transformer, and predicts with it.

This file needs torch, transformers and safetensors, and nothing else: it is copied beside the weights of every
scorer, so that a folder can be used where nothing else of its makers is installed.

    from encoder import EncoderScorer
    scorer = EncoderScorer.load("folder")
    scorer.probabilities([("prompt", "response")])  # [{"criterion": {level: probability, ..}, ..}]
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import load_model
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

CARD = "scorer.json"
WEIGHTS = "weights.safetensors"
ENCODER = "encoder"

HEADINGS = ("Prompt:\n", "\n\nResponse:\n")
"""The standard template: each stands before its text. A saved scorer's card names those that it learned with, and a
third where something stands behind the response."""

BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}
BATCH_ROWS = 128
"""Padding included, a batch of prediction has no more of either; one row may be longer. On a processor what a batch
computes should stay in its cache."""

MAX_BF16_TIME_SHARE = 0.7
"""The share of float32's time that products in bfloat16 may take at most to be chosen."""

MIN_SCALE = 1e-8
"""No scale of eight bits is smaller."""

MISSING_PRECISION = (
    "This scorer predicts in {precision}, which this machine cannot: in float32 probabilities"
    " differ a little."
)

POSITION_OFFSET = 2
"""RoBERTa and its kin lose two positions to padding; two tokens less cost the others nothing."""

Pooling = Literal["last", "mean"]
Precision = Literal["fp32", "bf16", "int8"]
Pair = tuple[str, str]
"""A prompt and a response."""
Value = int | float
Probabilities = dict[str, dict[Value, float]]
"""By criterion, a probability for each level of its scale. A criterion that nothing was learned of is absent."""


def trim_pair(prompt: Sequence[int], response: Sequence[int], budget: int) -> tuple[list[int], list[int]]:
    """Cut two token sequences to ``budget`` together: the end of the prompt, both ends of the response.

    What is asked stands at the end of a prompt; a refusal at the start of a response, its turn at the end.
    The prompt may take a quarter of the budget, and whatever the response leaves.
    """
    for_prompt = min(len(prompt), max(budget // 4, budget - len(response)))
    return list(prompt[len(prompt) - for_prompt :]), take_both_ends(response, budget - for_prompt)


def take_both_ends(tokens: Sequence[int], budget: int) -> list[int]:
    """Of too many tokens the first and the last, half and half."""
    size = min(len(tokens), budget)
    tail = size // 2 if size < len(tokens) else 0
    return list(tokens[: size - tail]) + list(tokens[len(tokens) - tail :])


class PairTokens(NamedTuple):
    """A prompt and a response as one row of ids; ``is_cut`` where a part of them is left out."""

    tokens: list[int]
    is_cut: bool


class TokenReader:
    """Turns texts into token ids: one template, cut where it is too long, with the ends marked."""

    def __init__(self, tokenizer: Any, max_tokens: int, headings: Sequence[str] = HEADINGS) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.headings = tuple(headings)
        self._start = _take_first_id(tokenizer.cls_token_id, tokenizer.bos_token_id)
        self._end = _take_first_id(tokenizer.sep_token_id, tokenizer.eos_token_id)
        self._before_prompt, self._before_response, self._after = self.tokenise((*self.headings, "")[:3])

    @property
    def padding(self) -> int:
        """Any id will do where the model has none of its own: what is padded is masked."""
        return int(self.tokenizer.pad_token_id or 0)

    @property
    def template_length(self) -> int:
        """So many tokens of each row are the template's."""
        parts = self._start, self._before_prompt, self._before_response, self._after, self._end
        return sum(map(len, parts))

    def read(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Prompt and response together, in the template."""
        return [row.tokens for row in self.read_rows(pairs)]

    def read_rows(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        """The same, and of each whether it is longer than a row."""
        budget = max(self.max_tokens - self.template_length, 0)
        prompts = self.tokenise([prompt for prompt, _response in pairs])
        responses = self.tokenise([response for _prompt, response in pairs])
        rows = []
        for long_prompt, long_response in zip(prompts, responses, strict=True):
            prompt, response = trim_pair(long_prompt, long_response, budget)
            ids = (
                self._start,
                self._before_prompt,
                prompt,
                self._before_response,
                response,
                self._after,
                self._end,
            )
            is_cut = len(long_prompt) + len(long_response) > budget
            rows.append(PairTokens([token for part in ids for token in part], is_cut))
        return rows

    def read_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text alone: of one that is too long both ends."""
        budget = max(self.max_tokens - len(self._start) - len(self._end), 0)
        return [[*self._start, *take_both_ends(ids, budget), *self._end] for ids in self.tokenise(texts)]

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids without any mark, of each different text once."""
        clean = [
            text.encode("utf-8", "replace").decode("utf-8") for text in texts
        ]  # it panics at a lone surrogate
        if not clean:
            return []
        different = list(dict.fromkeys(clean))
        token_ids = self.tokenizer(different, add_special_tokens=False, verbose=False)["input_ids"]
        ids: dict[str, list[int]] = dict(zip(different, token_ids, strict=True))
        return [ids[text] for text in clean]

    def pad_batch(self, rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
        """Ids and mask, each (rows, tokens), padded on the right to the longest row."""
        longest = max(map(len, rows))
        ids = [[*row, *[self.padding] * (longest - len(row))] for row in rows]
        mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _take_first_id(*ids: int | None) -> list[int]:
    return [known for known in ids if known is not None][:1]


def compute_token_limit(tokenizer: Any, config: Any, max_tokens: int) -> int:
    positions = getattr(config, "max_position_embeddings", None) or max_tokens + POSITION_OFFSET
    return int(min(max_tokens, tokenizer.model_max_length, positions - POSITION_OFFSET))


def pool_states(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    """(batch, tokens, width) to (batch, width), blind to padding: the last token's state, or the mean of all."""
    if pooling == "last":
        last = attention_mask.sum(dim=1) - 1
        return states[torch.arange(len(states), device=states.device), last]
    weights = attention_mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def choose_pooling(config: Any) -> Pooling:
    """Only the last token of a decoder has read everything; an encoder's tokens all have."""
    kind = config.model_type
    causal_only = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return "last" if causal_only or getattr(config, "is_decoder", False) else "mean"


class ScorerModel(nn.Module):  # type: ignore[misc]
    """An encoder, and for each criterion a linear head with as many outputs as its scale has levels.

    ``input_ids`` and ``attention_mask`` are (batch, tokens), padded on the right. The result has a tensor
    (batch, levels) of logits for each head, in the order of the heads.
    """

    def __init__(self, encoder: Any, levels: Sequence[int], pooling: Pooling) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.heads = nn.ModuleList(nn.Linear(encoder.config.hidden_size, n) for n in levels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        pooled = self.embed(input_ids, attention_mask)
        return [head(pooled).float() for head in self.heads]

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(batch, width) in float32, whatever the encoder computes in."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return pool_states(states.float(), attention_mask, self.pooling)


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def can_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 matrices: on a processor by AMX, or by AVX-512's dot products."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return _has_instruction("_is_amx_tile_supported") or _has_instruction("_is_avx512_bf16_supported")


@cache
def has_bf16(device: torch.device) -> bool:
    """Whether that is also much faster than float32. AVX-512's dot products are on some processors and are slower
    on others, so they are tried, once in a process."""
    if device.type == "cpu" and can_bf16(device) and not _has_instruction("_is_amx_tile_supported"):
        return _time_products(torch.bfloat16) < MAX_BF16_TIME_SHARE * _time_products(torch.float32)
    return can_bf16(device)


def _has_instruction(name: str) -> bool:
    """Of the processor, as torch tells it."""
    support_check = getattr(torch.cpu, name, None)
    return bool(support_check is not None and support_check())


def _time_products(dtype: torch.dtype) -> float:
    """Of the fastest of some products of the size that an encoder's are."""
    rows, weights = torch.ones(512, 512, dtype=dtype), torch.ones(1024, 512, dtype=dtype)
    seconds = []
    for _ in range(8):
        began = perf_counter()
        nn.functional.linear(rows, weights)
        seconds.append(perf_counter() - began)
    return min(seconds)


def has_int8(device: torch.device) -> bool:
    """Whether the processor multiplies bytes and sums them in one instruction (VNNI)."""
    return device.type == "cpu" and _has_instruction("_is_vnni_supported") and hasattr(torch, "_int_mm")


def list_fast_precisions() -> tuple[Precision, ...]:
    """What may predict faster here than float32, the fastest first."""
    device = best_device()
    if device.type == "cuda":
        return ("bf16",) if has_bf16(device) else ()
    able: tuple[tuple[Precision, bool], ...] = (("int8", has_int8(device)), ("bf16", has_bf16(device)))
    return tuple(precision for precision, can in able if can)


def convert_precision(model: ScorerModel, precision: Precision, device: torch.device) -> ScorerModel:
    """The model itself in float32; or a copy whose encoder computes otherwise, under the same heads.

    int8 is of the processor only. Where the hardware lacks what was chosen this is float32, with a warning, for its
    probabilities are others.
    """
    if precision == "fp32":
        return model
    if not {"bf16": can_bf16, "int8": has_int8}[precision](device):
        warnings.warn(MISSING_PRECISION.format(precision=precision), RuntimeWarning, stacklevel=2)
        return model
    changed = ScorerModel.__new__(ScorerModel)
    nn.Module.__init__(changed)
    changed.pooling, changed.heads = model.pooling, model.heads
    changed.encoder = (
        _quantise(model.encoder) if precision == "int8" else copy.deepcopy(model.encoder).bfloat16()
    )
    changed.eval()
    return changed


class Int8Linear(nn.Module):  # type: ignore[misc]
    """A linear layer in eight bits, for prediction on a processor: an output's weights share one scale, found once,
    and so does what is read for one token, found as it comes. Products are summed in 32 bits."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp_min(MIN_SCALE) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8).t().contiguous())
        self.register_buffer("scale", scale)
        bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach()
        self.register_buffer("bias", bias)

    def forward(self, states: Tensor) -> Tensor:
        rows = states.reshape(-1, states.shape[-1])
        scale = (
            torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True)).clamp_min(MIN_SCALE) / 127
        )
        small = (rows * (1 / scale)).round_().to(torch.int8)
        products = torch._int_mm(small, self.weight).float().mul_(scale)
        torch.addcmul(self.bias, products, self.scale, out=products)
        return products.reshape(*states.shape[:-1], -1)


def _quantise(module: Any) -> Any:
    """A copy in which every linear layer is one of eight bits."""
    changed = copy.copy(module)
    changed._modules = {
        name: Int8Linear(child) if isinstance(child, nn.Linear) else _quantise(child)
        for name, child in module._modules.items()
    }
    return changed


def batches_by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Positions, longest first: little padding, and the batch that needs the most memory is the first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        rows = min(BATCH_ROWS, max(1, tokens // max(lengths[order[start]], 1)))
        yield order[start : start + rows]
        start += rows


def run_sorted(
    function: Callable[[Tensor, Tensor], Sequence[Tensor]],
    reader: TokenReader,
    rows: Sequence[Sequence[int]],
    device: torch.device,
    report_share: Callable[[float], None] | None = None,
    *,
    batches: Callable[[Sequence[int]], Iterator[list[int]]] | None = None,
) -> list[Tensor]:
    """What ``function`` says of all rows, each different row computed once, results in the order of the rows.

    ``function`` turns a batch's ids and mask into tensors whose first dimension is the batch; the result has
    as many tensors, each of all rows, on the processor. ``told`` hears the share that is done. ``batches`` deals rows
    of these lengths out otherwise than ``batches_by_length``; it may give a row twice.
    """
    place: dict[tuple[int, ...], int] = {}
    row_places = [place.setdefault(tuple(row), len(place)) for row in rows]
    distinct_rows = list(place)
    lengths = [len(row) for row in distinct_rows]
    position_batches = (
        batches(lengths) if batches else batches_by_length(lengths, BATCH_TOKENS.get(device.type, 1024))
    )
    parts: list[Sequence[Tensor]] = []
    order: list[int] = []
    with torch.inference_mode():
        for positions in position_batches:
            results = function(*reader.pad_batch([distinct_rows[i] for i in positions], device))
            parts.append([tensor.float().cpu() for tensor in results])
            order += positions
            if report_share is not None:
                report_share(min(1.0, len(order) / len(distinct_rows)))
    inverse = torch.empty(len(order), dtype=torch.long)
    inverse[torch.tensor(order, dtype=torch.long)] = torch.arange(len(order))
    pick = inverse[torch.tensor(row_places, dtype=torch.long)]
    return [torch.cat(list(column))[pick] for column in zip(*parts, strict=True)]


class LevelScale(NamedTuple):
    """A criterion and the levels of its scale, in order."""

    criterion: str
    values: tuple[Value, ...]


class EncoderScorer:
    """A fitted scorer. ``learned`` are the criteria with a head to ask; ``constant`` those that always say one level.

    ``temperatures`` divide the logits of their criterion (Guo et al. 2017), and ``offsets``, one for each level, are
    added to what that gives: none in scorers of earlier versions. ``precision`` is what the encoder
    computes in, where the hardware can.
    """

    def __init__(
        self,
        model: ScorerModel,
        reader: TokenReader,
        scales: Sequence[LevelScale],
        *,
        learned: Sequence[str],
        constant: Mapping[str, Value],
        temperatures: Mapping[str, float],
        offsets: Mapping[str, Sequence[float]] | None = None,
        precision: Precision = "fp32",
    ) -> None:
        self.model, self.reader, self.scales = model, reader, tuple(scales)
        self.learned, self.constant = frozenset(learned), dict(constant)
        self.temperatures, self.precision = dict(temperatures), precision
        self.offsets = dict(offsets or {})
        self._prepared: tuple[tuple[torch.device, Precision], ScorerModel] | None = None

    @classmethod
    def load(cls, folder: str | Path, *, remote_code: bool = False) -> EncoderScorer:
        """Of a saved folder; asks no network. Code that came with the encoder runs only with ``remote_code``."""
        folder = Path(folder)
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        scales = [LevelScale(head["criterion"], tuple(head["values"])) for head in card["heads"]]
        model, reader = build_empty_model(folder, card, scales, remote_code=remote_code)
        load_model(model, str(folder / WEIGHTS))
        return cls(
            model,
            reader,
            scales,
            learned=card["learned"],
            constant=card["constant"],
            temperatures=card.get("temperatures", {}),
            offsets=card.get("offsets", {}),
            precision=card.get("precision", "fp32"),
        )

    def probabilities(
        self, pairs: Sequence[Pair], report_share: Callable[[float], None] | None = None
    ) -> list[Probabilities]:
        """For each (prompt, response), in their order. ``told`` hears the share that is done."""
        columns = self.predict_columns(self.reader.read(pairs), report_share) if pairs else {}
        return [{criterion: rows[i] for criterion, rows in columns.items()} for i in range(len(pairs))]

    def predict_columns(
        self, rows: Sequence[Sequence[int]], report_share: Callable[[float], None] | None = None
    ) -> dict[str, list[dict[Value, float]]]:
        logits = self.compute_logits(rows, report_share)
        columns = {}
        for scale, scores in zip(self.scales, logits, strict=True):
            name = scale.criterion
            if name in self.constant:
                certain = {value: float(value == self.constant[name]) for value in scale.values}
                columns[name] = [dict(certain) for _row in rows]
            elif name in self.learned:
                scaled = scores.double() / self.temperatures.get(name, 1.0)
                if name in self.offsets:
                    scaled = scaled + torch.tensor(self.offsets[name], dtype=torch.double)
                shares = scaled.softmax(dim=1).tolist()
                columns[name] = [dict(zip(scale.values, row, strict=True)) for row in shares]
        return columns

    def compute_logits(
        self, rows: Sequence[Sequence[int]], report_share: Callable[[float], None] | None = None
    ) -> list[Tensor]:
        """(rows, levels) for each scale, before any temperature, in float32."""
        device = best_device()
        return run_sorted(self._prepare_model(device), self.reader, rows, device, report_share)

    def _prepare_model(self, device: torch.device) -> ScorerModel:
        """As it computes; made once."""
        key = device, self.precision
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = key, convert_precision(self.model.to(device).eval(), self.precision, device)
        return self._prepared[1]


def build_empty_model(
    folder: Path, card: Mapping[str, Any], scales: Sequence[LevelScale], *, remote_code: bool
) -> tuple[ScorerModel, TokenReader]:
    """The network of a saved folder before its weights are read, and its reader."""
    options = {"local_files_only": True, "trust_remote_code": remote_code}
    tokenizer = AutoTokenizer.from_pretrained(folder / ENCODER, **options)
    config = AutoConfig.from_pretrained(folder / ENCODER, **options)
    config.use_cache = False
    encoder = AutoModel.from_config(config, trust_remote_code=remote_code, dtype=torch.float32)
    reader = TokenReader(tokenizer, card["max_tokens"], card.get("headings", HEADINGS))
    return ScorerModel(encoder, [len(scale.values) for scale in scales], choose_pooling(config)), reader
