"""Random two-layer networks and a tokenizer made in memory: real training, no download."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedTokenizerFast

from scoring.backbones.transformer.backbone import TransformerBackbone
from scoring.domain.spec import Spec, TransformerSettings, Tuning
from scoring.domain.training_data import Example, Head

torch.set_num_threads(1)  # networks as small as these only wait for more

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
LETTERS = "abcdefghijklmnopqrstuvwxyzPR:\n 对不起可以"

COMPLIANCE = Head("compliance", (1, 2, 3), "ordinal")
SAFETY = Head("safety", (0, 1))
TINY = TransformerSettings(
    rounds=30,
    least_steps=0,
    batch_size=4,
    max_tokens=64,
    learning_rate=3e-3,
    lora_learning_rate=1e-2,
    head_learning_rate=3e-3,
    balance=0.0,
    restarts=0,
    checkpoint_every=5,
)


def make_tokenizer() -> Any:
    """One token for each letter."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *LETTERS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Split(Regex(r"[\s\S]"), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        model_max_length=128,
    )


def encoder_in(folder: Path) -> str:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(LETTERS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=130,
    )
    return saved(BertModel(config), folder / "tiny-encoder")


def decoder_in(folder: Path) -> str:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(SPECIAL) + len(LETTERS), n_embd=32, n_layer=2, n_head=2, n_positions=130
    )
    return saved(GPT2Model(config), folder / "tiny-decoder")


def saved(model: Any, folder: Path) -> str:
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return str(folder)


def tiny(source: str, tuning: Tuning = "full", **changes: Any) -> TransformerBackbone:
    return TransformerBackbone(Spec("encoder", source, tuning, settings=replace(TINY, **changes)))


def eight() -> list[Example]:
    answers = [
        "sorry no",
        "i must refuse",
        "here you are",
        "sure do it",
        "对不起",
        "可以",
        "never ever",
        "yes yes",
    ]
    levels = [1, 1, 3, 3, 1, 3, 2, 3]
    return [
        Example(
            f"r{i}", f"p{i}", f"question {'abcdefgh'[i]}", text, "xy"[i % 2], labels={"compliance": level}
        )
        for i, (text, level) in enumerate(zip(answers, levels, strict=True))
    ]


def sixty(n: int = 60) -> list[Example]:
    """Enough, of two criteria, for a validation part; each prompt has two responses."""
    answers = {1: "sorry no", 2: "a bit", 3: "yes sure"}
    return [
        Example(
            f"r{i}",
            f"p{i // 2}",
            f"question {'abcdefghij'[i // 2 % 10]}{i // 20}",
            f"{answers[i % 3 + 1]} {'klmnopqrst'[i % 10]}",
            "xy"[i % 2],
            labels={"compliance": i % 3 + 1, **({"safety": i % 3 // 2} if i % 4 else {})},
        )
        for i in range(n)
    ]
