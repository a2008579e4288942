"""A random two-layer network and a tokenizer made in memory: real training, no download."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from annotation.errors import AssayError
from scoring.backbones import TransformerBackbone, choose, load
from scoring.dataset import Example, Head
from scoring.evaluation import evaluate_grouped
from scoring.interface import Cancelled, Progress
from scoring.tuning import TransformerSettings
from tests.conftest import missing

HAS_TORCH = all(find_spec(name) for name in ("torch", "transformers", "safetensors"))

if HAS_TORCH:
    import torch
    from safetensors.torch import load_file
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedTokenizerFast

    from scoring.modeling import UNLABELLED, Reader, ScorerModel, masked_loss, pool, pooling_for
    from scoring.training import epoch_batches, rate_factor
elif TYPE_CHECKING:
    raise ImportError

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
LETTERS = "abcdefghijklmnopqrstuvwxyzPR:\n 对不起可以"

COMPLIANCE = Head("compliance", (1, 2, 3), "ordinal")
SAFETY = Head("safety", (0, 1))
TINY = TransformerSettings(
    epochs=30, batch_size=4, max_tokens=64, learning_rate=3e-3, head_learning_rate=3e-3, checkpoint_every=5
)


@pytest.fixture(autouse=True)
def with_torch() -> None:
    if not HAS_TORCH:
        missing("torch", "the transformer backbone needs requirements-encoder.txt")


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


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(LETTERS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=130,
    )
    return saved(BertModel(config), tmp_path / "tiny-encoder")


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(SPECIAL) + len(LETTERS), n_embd=32, n_layer=2, n_head=2, n_positions=130
    )
    return saved(GPT2Model(config), tmp_path / "tiny-decoder")


def saved(model: Any, folder: Path) -> str:
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return str(folder)


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


def said(scorer: Any, rows: Sequence[Example]) -> list[Any]:
    return [COMPLIANCE.most_likely(row["compliance"]) for row in scorer.predict(rows)]


def test_an_encoder_learns_eight_examples_by_heart_while_its_loss_falls(encoder: str):
    told: list[Progress] = []
    scorer = TransformerBackbone(encoder, TINY).fit(eight(), [COMPLIANCE], report=told.append)
    assert said(scorer, eight()) == [1, 1, 3, 3, 1, 3, 2, 3]
    losses = [progress.loss for progress in told if progress.loss is not None]
    assert len(losses) == 60  # 8 examples in batches of 4, 30 epochs
    assert losses[-1] < 0.2 < losses[0]
    assert told[-1].fraction == 1.0


def test_pretrained_weights_in_a_pickle_are_refused(encoder: str):
    weights = load_file(Path(encoder) / "model.safetensors")
    torch.save(weights, Path(encoder) / "pytorch_model.bin")
    (Path(encoder) / "model.safetensors").unlink()
    with pytest.raises(AssayError, match="cannot be loaded"):
        TransformerBackbone(encoder, TINY).fit(eight(), [COMPLIANCE])


def test_a_decoder_learns_eight_examples_by_heart(decoder: str):
    scorer = TransformerBackbone(decoder, TINY).fit(eight(), [COMPLIANCE])
    assert said(scorer, eight()) == [1, 1, 3, 3, 1, 3, 2, 3]


def test_decoders_are_read_at_their_last_token_and_encoders_over_all_tokens():
    assert pooling_for(GPT2Config()) == "last"
    assert pooling_for(BertConfig()) == "mean"
    assert pooling_for(BertConfig(is_decoder=True)) == "last"


def test_pooling_does_not_see_padding():
    states = torch.tensor([[[1.0], [3.0], [99.0]], [[2.0], [4.0], [6.0]]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert pool(states, mask, "last").tolist() == [[3.0], [6.0]]
    assert pool(states, mask, "mean").tolist() == [[2.0], [4.0]]


def test_a_prediction_does_not_depend_on_what_else_is_in_the_batch(decoder: str):
    scorer = TransformerBackbone(decoder, replace(TINY, epochs=2)).fit(eight(), [COMPLIANCE])
    long = Example("long", "q", "why", "sure " * 10)
    (alone,), (beside, _long) = scorer.predict([eight()[0]]), scorer.predict([eight()[0], long])
    assert list(beside["compliance"].values()) == pytest.approx(list(alone["compliance"].values()), abs=1e-5)


def test_a_head_without_labels_gets_no_gradient():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    model = ScorerModel(BertModel(config), [COMPLIANCE, SAFETY], "mean")
    logits = model(torch.tensor([[5, 6], [7, 8]]), torch.ones(2, 2, dtype=torch.long))
    masked_loss(logits, torch.tensor([[0, UNLABELLED], [2, UNLABELLED]])).backward()
    assert all(parameter.grad is None for parameter in model.heads[1].parameters())
    assert model.heads[0].weight.grad.abs().sum() > 0


def test_the_loss_is_the_mean_over_the_labels_there_are():
    # Equal logits: ln 3 for each of two labels of the first head, ln 2 for the one of the second.
    logits = [torch.zeros(3, 3), torch.zeros(3, 2)]
    targets = torch.tensor([[0, UNLABELLED], [1, UNLABELLED], [UNLABELLED, 1]])
    expected = (2 * torch.log(torch.tensor(3.0)) + torch.log(torch.tensor(2.0))) / 3
    assert masked_loss(logits, targets).item() == pytest.approx(expected.item())


def test_heads_have_the_classes_of_their_scales_and_say_nothing_where_they_learned_nothing(encoder: str):
    rows = [
        Example("a", "p1", "a", "b", labels={"compliance": 1, "safety": 1}),
        Example("b", "p2", "c", "d", labels={"compliance": 3, "safety": 1}),
    ]
    heads = [COMPLIANCE, SAFETY, Head("empathy", (0, 1, 2, 3, 4), "ordinal")]
    scorer = TransformerBackbone(encoder, replace(TINY, epochs=1)).fit(rows, heads)
    assert [layer.out_features for layer in scorer.model.heads] == [3, 2, 5]  # type: ignore[attr-defined]
    for prediction in scorer.predict(rows):
        assert set(prediction) == {"compliance", "safety"}
        assert list(prediction["compliance"]) == [1, 2, 3]
        assert sum(prediction["compliance"].values()) == pytest.approx(1)
        assert prediction["safety"] == {0: 0.0, 1: 1.0}  # it saw one level only


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_saved_scorer_gives_the_same_probabilities(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
):
    source = request.getfixturevalue(kind)
    scorer = TransformerBackbone(source, replace(TINY, epochs=2)).fit(eight(), [COMPLIANCE, SAFETY])
    scorer.save(tmp_path / "scorer")
    again = load(tmp_path / "scorer")
    assert (again.backbone, again.heads) == (source, (COMPLIANCE, SAFETY))
    assert again.predict(eight()) == scorer.predict(eight())
    names = {path.name for path in (tmp_path / "scorer").rglob("*")}
    assert "weights.safetensors" in names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]


def test_a_run_killed_and_resumed_ends_with_the_weights_of_one_that_was_not(encoder: str, tmp_path: Path):
    backbone = TransformerBackbone(encoder, replace(TINY, epochs=10))  # 20 steps, dropout and all
    whole = backbone.fit(eight(), [COMPLIANCE, SAFETY], seed=4)

    def killed(progress: Progress) -> None:
        if progress.fraction >= 13 / 20:
            raise Cancelled

    folder = tmp_path / "checkpoints"
    with pytest.raises(Cancelled):
        backbone.fit(eight(), [COMPLIANCE, SAFETY], seed=4, report=killed, checkpoints=folder)
    assert [path.name for path in folder.iterdir()] == ["step-00000010"]

    told: list[Progress] = []
    resumed = backbone.fit(eight(), [COMPLIANCE, SAFETY], seed=4, report=told.append, checkpoints=folder)
    assert len([p for p in told if p.stage == "learn"]) == 10  # steps 11 to 20
    assert resumed.predict(eight()) == whole.predict(eight())


def test_the_checkpoint_of_another_run_is_not_resumed(encoder: str, tmp_path: Path):
    backbone = TransformerBackbone(encoder, replace(TINY, epochs=3))
    backbone.fit(eight(), [COMPLIANCE], seed=1, checkpoints=tmp_path)  # leaves that of step 5
    told: list[Progress] = []
    backbone.fit(eight(), [COMPLIANCE], seed=2, report=told.append, checkpoints=tmp_path)
    assert len([p for p in told if p.stage == "learn"]) == 6  # all of 2 batches x 3 epochs


def test_the_same_seed_trains_the_same_scorer_and_another_another(encoder: str):
    backbone = TransformerBackbone(encoder, replace(TINY, epochs=2))
    first, same, other = (
        backbone.fit(eight(), [COMPLIANCE], seed=seed).predict(eight()) for seed in (1, 1, 2)
    )
    assert first == same
    assert first != other


def test_it_is_evaluated_like_any_other_backbone(encoder: str):
    backbone = TransformerBackbone(encoder, replace(TINY, epochs=1))
    evaluation = evaluate_grouped(backbone, eight(), [COMPLIANCE], k=2)
    assert evaluation.metrics["n"] == 8
    assert set(evaluation.folds) == {0, 1}


def test_a_long_text_is_cut_to_the_limit_and_keeps_its_ends():
    reader = Reader(make_tokenizer(), max_tokens=40)
    ids = reader.read(Example("a", "p", "x" * 50 + "q", "b" + "y" * 100 + "z"))
    # [CLS] + "Prompt:\n" + prompt + "\n\nResponse:\n" + response + [SEP]: 1 + 8 + 12 + 1 = 22 of the 40
    # are fixed; of the 18 left 4 are the prompt's, the response has 7 from each end.
    text = reader.tokenizer.convert_ids_to_tokens(ids)
    assert len(ids) == 40
    assert text[9:13] == ["x", "x", "x", "q"]
    assert "".join(text[25:39]) == "b" + "y" * 12 + "z"


def test_an_empty_response_and_a_lone_surrogate_can_be_read(encoder: str):
    scorer = TransformerBackbone(encoder, replace(TINY, epochs=1)).fit(eight(), [COMPLIANCE])
    told = scorer.predict([Example("a", "p", "", ""), Example("b", "p", "\ud800", "\x00")])
    assert all(sum(row["compliance"].values()) == pytest.approx(1) for row in told)


def test_an_epoch_has_every_example_once_and_like_lengths_together():
    lengths = [i % 37 for i in range(200)]
    batches = epoch_batches(lengths, 8, seed=1, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    # 37 lengths of 5 or 6 examples: 8 neighbours in order span at most 3 of them.
    assert max(max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in batches) <= 2
    assert batches == epoch_batches(lengths, 8, seed=1, epoch=0)
    assert batches != epoch_batches(lengths, 8, seed=1, epoch=1)


def test_the_learning_rate_warms_up_and_runs_out():
    # 10 steps, 2 of warm-up: 1/2, 1, then 8/8 down to 1/8.
    assert [rate_factor(step, 10, 0.2) for step in range(10)] == [
        0.5,
        1,
        1,
        *(n / 8 for n in range(7, 0, -1)),
    ]


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path):
    with pytest.raises(AssayError, match=r"has no config\.json"):
        choose(str(tmp_path))


def test_a_folder_whose_model_is_broken_is_refused_with_the_reason(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such-kind"}))
    with pytest.raises(AssayError, match="cannot be loaded"):
        choose(str(tmp_path)).fit(eight(), [COMPLIANCE])
