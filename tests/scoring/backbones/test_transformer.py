"""A random two-layer network and a tokenizer made in memory: real training, no download."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from scoring.backbones.registry import choose_backbone, load
from scoring.backbones.transformer.backbone import TransformerBackbone
from scoring.domain.backbone import FitProgress, WorkCancelled
from scoring.domain.evaluation import evaluate_grouped
from scoring.domain.spec import Spec, TransformerSettings
from scoring.domain.training_data import Example, Head
from tests.conftest import missing

HAS_TORCH = all(find_spec(name) for name in ("torch", "transformers", "safetensors", "peft", "accelerate"))

if HAS_TORCH:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModel, BertConfig, BertModel, GPT2Config, LlamaConfig

    from scoring.backbones.transformer.memory import compute_needs, read_available_memory
    from scoring.backbones.transformer.modeling import (
        UNLABELLED,
        Pretrained,
        add_low_rank,
        head_loss,
        level_weights,
    )
    from scoring.backbones.transformer.run import (
        RoundJudgement,
        compute_rate_factor,
        deal_epoch_batches,
        judge_predictions,
        plan_schedule,
    )
    from scoring.backbones.transformer.training import hold_out_rows
    from scoring.inference.encoder import (
        ScorerModel,
        TokenReader,
        batches_by_length,
        choose_pooling,
        pool_states,
        run_sorted,
        trim_pair,
    )
    from tests.scoring.networks import COMPLIANCE, SAFETY, eight, make_tokenizer, sixty, tiny
elif TYPE_CHECKING:
    raise ImportError


@pytest.fixture(autouse=True)
def with_torch() -> None:
    if not HAS_TORCH:
        missing("torch", "the transformer backbone needs requirements-encoder.txt")


def predict_levels(scorer: Any, rows: Sequence[Example]) -> list[Any]:
    return [COMPLIANCE.most_likely(row["compliance"]) for row in scorer.predict(rows)]


def test_an_encoder_learns_eight_examples_by_heart_while_its_loss_falls(encoder: str):
    reports: list[FitProgress] = []
    scorer = tiny(encoder).fit(eight(), [COMPLIANCE], report=reports.append)
    assert predict_levels(scorer, eight()) == [1, 1, 3, 3, 1, 3, 2, 3]
    losses = [progress.loss for progress in reports if progress.loss is not None]
    assert len(losses) == 60  # 8 examples in batches of 4, 30 epochs
    assert losses[-1] < 0.2 < losses[0]
    assert reports[-1].fraction == 1.0


def test_pretrained_weights_in_a_pickle_are_refused(encoder: str):
    weights = load_file(Path(encoder) / "model.safetensors")
    torch.save(weights, Path(encoder) / "pytorch_model.bin")
    (Path(encoder) / "model.safetensors").unlink()
    with pytest.raises(AssayError, match="cannot be loaded"):
        tiny(encoder).fit(eight(), [COMPLIANCE])


def test_a_decoder_learns_eight_examples_by_heart(decoder: str):
    scorer = tiny(decoder).fit(eight(), [COMPLIANCE])
    assert predict_levels(scorer, eight()) == [1, 1, 3, 3, 1, 3, 2, 3]


def test_decoders_are_read_at_their_last_token_and_encoders_over_all_tokens():
    assert choose_pooling(GPT2Config()) == "last"
    assert choose_pooling(BertConfig()) == "mean"
    assert choose_pooling(BertConfig(is_decoder=True)) == "last"


def test_pooling_does_not_see_padding():
    states = torch.tensor([[[1.0], [3.0], [99.0]], [[2.0], [4.0], [6.0]]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert pool_states(states, mask, "last").tolist() == [[3.0], [6.0]]
    assert pool_states(states, mask, "mean").tolist() == [[2.0], [4.0]]


def test_a_prediction_does_not_depend_on_what_else_is_in_the_batch(decoder: str):
    scorer = tiny(decoder, rounds=2).fit(eight(), [COMPLIANCE])
    long = Example("long", "q", "why", "sure " * 10)
    (prediction,) = scorer.predict([eight()[0]])
    batch_prediction, _long = scorer.predict([eight()[0], long])
    assert list(batch_prediction["compliance"].values()) == pytest.approx(
        list(prediction["compliance"].values()), abs=1e-5
    )


def test_a_head_without_labels_gets_no_gradient():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    model = ScorerModel(BertModel(config), [3, 2], "mean")
    logits = model(torch.tensor([[5, 6], [7, 8]]), torch.ones(2, 2, dtype=torch.long))
    head_loss(logits, torch.tensor([[0, UNLABELLED], [2, UNLABELLED]])).backward()
    assert all(parameter.grad is None for parameter in model.heads[1].parameters())
    assert model.heads[0].weight.grad.abs().sum() > 0


def test_the_loss_is_the_sum_over_the_labels_there_are():
    # Equal logits: ln 3 for each of two labels of the first head, ln 2 for the one of the second.
    logits = [torch.zeros(3, 3), torch.zeros(3, 2)]
    targets = torch.tensor([[0, UNLABELLED], [1, UNLABELLED], [UNLABELLED, 1]])
    expected = 2 * torch.log(torch.tensor(3.0)) + torch.log(torch.tensor(2.0))
    assert head_loss(logits, targets).item() == pytest.approx(expected.item())


def test_heads_have_the_classes_of_their_scales_and_say_nothing_where_they_learned_nothing(encoder: str):
    rows = [
        Example("a", "p1", "a", "b", labels={"compliance": 1, "safety": 1}),
        Example("b", "p2", "c", "d", labels={"compliance": 3, "safety": 1}),
    ]
    heads = [COMPLIANCE, SAFETY, Head("empathy", (0, 1, 2, 3, 4), "ordinal")]
    scorer = tiny(encoder, rounds=1).fit(rows, heads)
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
    scorer = tiny(source, rounds=2).fit(eight(), [COMPLIANCE, SAFETY])
    scorer.save(tmp_path / "scorer")
    loaded = load(tmp_path / "scorer")
    assert (loaded.backbone, loaded.heads) == (scorer.backbone, (COMPLIANCE, SAFETY))
    assert loaded.predict(eight()) == scorer.predict(eight())
    assert "EncoderScorer.load" in (tmp_path / "scorer" / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in (tmp_path / "scorer").rglob("*")}
    assert "weights.safetensors" in names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]


@pytest.mark.parametrize("half", [False, True])
def test_a_run_killed_and_resumed_ends_with_the_weights_of_one_that_was_not(
    encoder: str, tmp_path: Path, half: bool, monkeypatch: pytest.MonkeyPatch
):
    """Also in bfloat16, and where the resuming process would have begun in the other precision."""
    monkeypatch.setattr("scoring.backbones.transformer.run.has_bf16", lambda _device: half)
    backbone = tiny(encoder, rounds=10)  # 20 steps, dropout and all
    reference = backbone.fit(eight(), [COMPLIANCE, SAFETY], seed=4)

    def killed(progress: FitProgress) -> None:
        if progress.fraction >= 13 / 20:
            raise WorkCancelled

    folder = tmp_path / "checkpoints"
    with pytest.raises(WorkCancelled):
        backbone.fit(eight(), [COMPLIANCE, SAFETY], seed=4, report=killed, checkpoints=folder)
    assert [path.name for path in folder.iterdir()] == ["step-0-00000012"]
    monkeypatch.setattr("scoring.backbones.transformer.run.has_bf16", lambda _device: not half)

    reports: list[FitProgress] = []
    resumed = backbone.fit(eight(), [COMPLIANCE, SAFETY], seed=4, report=reports.append, checkpoints=folder)
    assert len([p for p in reports if p.stage == "learn"]) == 8  # steps 13 to 20
    assert resumed.predict(eight()) == reference.predict(eight())
    assert resumed.details["computed_in"] == ("bf16" if half else "fp32")  # type: ignore[attr-defined]


def test_the_checkpoint_of_another_run_is_not_resumed(encoder: str, tmp_path: Path):
    backbone = tiny(encoder, rounds=3)
    backbone.fit(eight(), [COMPLIANCE], seed=1, checkpoints=tmp_path)  # leaves that of step 5
    reports: list[FitProgress] = []
    backbone.fit(eight(), [COMPLIANCE], seed=2, report=reports.append, checkpoints=tmp_path)
    assert len([p for p in reports if p.stage == "learn"]) == 6  # all of 2 batches x 3 epochs


def test_the_same_seed_trains_the_same_scorer_and_another_another(encoder: str):
    backbone = tiny(encoder, rounds=2)
    first, same, other = (
        backbone.fit(eight(), [COMPLIANCE], seed=seed).predict(eight()) for seed in (1, 1, 2)
    )
    assert first == same
    assert first != other


def test_it_is_evaluated_like_any_other_backbone(encoder: str):
    backbone = tiny(encoder, rounds=1)
    evaluation = evaluate_grouped(backbone, eight(), [COMPLIANCE], k=2)
    assert evaluation.metrics["n"] == 8
    assert set(evaluation.folds) == {0, 1}


def test_a_long_text_is_cut_to_the_limit_and_keeps_its_ends():
    reader = TokenReader(make_tokenizer(), max_tokens=40)
    (ids,) = reader.read([("x" * 50 + "q", "b" + "y" * 100 + "z")])
    # [CLS] + "Prompt:\n" + prompt + "\n\nResponse:\n" + response + [SEP]: 1 + 8 + 12 + 1 = 22 of the 40
    # are fixed; of the 18 left 4 are the prompt's, the response has 7 from each end.
    text = reader.tokenizer.convert_ids_to_tokens(ids)
    rows = reader.read_rows([("x" * 50, "b" + "y" * 100), ("x" * 6, "y" * 12), ("x" * 6, "y" * 13)])
    assert [row.is_cut for row in rows] == [True, False, True]
    assert len(ids) == 40
    assert text[9:13] == ["x", "x", "x", "q"]
    assert "".join(text[25:39]) == "b" + "y" * 12 + "z"


def test_the_card_counts_the_examples_that_were_cut_while_they_are_tokenised_once(
    encoder: str, monkeypatch: pytest.MonkeyPatch
):
    rows = eight()
    longer = [replace(row, response="y" * 200) if i < 3 else row for i, row in enumerate(rows)]
    tokenised: Counter[str] = Counter()
    tokenise = TokenReader.tokenise

    def count(reader: TokenReader, texts: Sequence[str]) -> list[list[int]]:
        tokenised.update(texts)
        return tokenise(reader, texts)

    monkeypatch.setattr(TokenReader, "tokenise", count)
    scorer = tiny(encoder, rounds=1, max_tokens=64).fit(longer, [COMPLIANCE])
    assert scorer.details["cut"] == {"n": 3, "of": 8, "max_tokens": 64}  # type: ignore[attr-defined]
    assert tokenised["y" * 200] == 3  # once for each example


def test_a_template_stands_around_both_texts_and_is_kept_with_the_weights(encoder: str, tmp_path: Path):
    spec = replace(tiny(encoder, rounds=1).spec, template="ask {prompt} got {response} so")
    assert spec.headings == ("ask ", " got ", " so")
    scorer = TransformerBackbone(spec).fit(eight(), [COMPLIANCE])
    scorer.save(tmp_path / "saved")
    loaded = load(tmp_path / "saved")
    assert loaded.predict(eight()) == scorer.predict(eight())
    reader = loaded.portable.reader  # type: ignore[attr-defined]
    text = "".join(reader.tokenizer.convert_ids_to_tokens(reader.read([("why", "yes")])[0]))
    assert text == "[CLS]ask why got yes so[SEP]"
    assert scorer.predict(eight()) != tiny(encoder, rounds=1).fit(eight(), [COMPLIANCE]).predict(eight())


def test_a_template_that_leaves_little_room_is_refused(encoder: str):
    spec = replace(tiny(encoder).spec, template="x" * 80 + "{prompt}{response}")
    with pytest.raises(AssayError, match=r"82 of the \d+ tokens"):
        TransformerBackbone(spec).fit(eight(), [COMPLIANCE])


def test_an_empty_response_and_a_lone_surrogate_can_be_read(encoder: str):
    scorer = tiny(encoder, rounds=1).fit(eight(), [COMPLIANCE])
    predictions = scorer.predict([Example("a", "p", "", ""), Example("b", "p", "\ud800", "\x00")])
    assert all(sum(row["compliance"].values()) == pytest.approx(1) for row in predictions)


def test_an_epoch_has_every_example_once_and_like_lengths_together():
    lengths = [i % 37 for i in range(200)]
    batches = deal_epoch_batches(lengths, 8, seed=1, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    # 37 lengths of 5 or 6 examples: 8 neighbours in order span at most 3 of them.
    assert max(max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in batches) <= 2
    assert batches == deal_epoch_batches(lengths, 8, seed=1, epoch=0)
    assert batches != deal_epoch_batches(lengths, 8, seed=1, epoch=1)


def test_the_learning_rate_warms_up_and_runs_out():
    # 10 steps, 2 of warm-up: 1/2, 1, then 8/8 down to 1/8.
    assert [compute_rate_factor(step, 10, 0.2) for step in range(10)] == [
        0.5,
        1,
        1,
        *(n / 8 for n in range(7, 0, -1)),
    ]


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path):
    with pytest.raises(AssayError, match=r"has no config\.json"):
        choose_backbone(Spec.from_request(str(tmp_path)))


def test_a_folder_whose_model_is_broken_is_refused_with_the_reason(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such-kind"}))
    with pytest.raises(AssayError, match="cannot be loaded"):
        choose_backbone(Spec.from_request(str(tmp_path))).fit(eight(), [COMPLIANCE])


# What is held out, early stopping, collapse


def test_the_validation_part_is_the_split_of_that_name_if_it_is_large_enough():
    rows = [replace(row, split="validation" if i >= 40 else "train") for i, row in enumerate(sixty())]
    held, method = hold_out_rows(rows, frozenset({"compliance"}))
    assert (held, method) == ([False] * 40 + [True] * 20, "split")
    few = [replace(row, split="validation" if i >= 58 else "train") for i, row in enumerate(sixty())]
    held, method = hold_out_rows(few, frozenset({"compliance"}))
    assert method == "1/3 by prompt"
    assert {row.prompt_key for row, out in zip(few, held, strict=True) if out}.isdisjoint(
        row.prompt_key for row, out in zip(few, held, strict=True) if not out
    )


def test_nothing_is_held_out_of_very_few_examples_nor_what_a_head_cannot_do_without():
    assert hold_out_rows(eight(), frozenset({"compliance"})) == ([False] * 8, "none")
    # All that have a 2 are in the split that would be held out: the head could not learn from the rest.
    rows = [
        replace(row, split="validation" if i < 20 else "train", labels={"compliance": 2 if i < 20 else 1})
        for i, row in enumerate(sixty())
    ]
    held, method = hold_out_rows(rows, frozenset({"compliance"}))
    assert method != "split"
    left = {row.labels["compliance"] for row, out in zip(rows, held, strict=True) if not out}
    assert left == {1, 2}


def test_what_the_weights_of_levels_did_is_undone_also_where_nothing_is_held_out(encoder: str):
    """Learned as if every level were as frequent: the offsets, about 0, are the logs of the rates alone."""
    details = tiny(encoder, rounds=1, balance=1.0).fit(eight(), [COMPLIANCE]).details  # type: ignore[attr-defined]
    assert details["validation"]["n"] == 0
    rates = [math.log(count / 8) for count in (3, 1, 4)]
    centred = [rate - sum(rates) / 3 for rate in rates]
    assert details["offsets"]["compliance"] == pytest.approx(centred, abs=1e-3)


def test_training_stops_when_the_validation_part_is_predicted_no_better(encoder: str):
    scorer = tiny(encoder, rounds=30, learning_rate=1e-2).fit(sixty(), [COMPLIANCE, SAFETY])
    rounds = scorer.details["rounds"]  # type: ignore[attr-defined]
    losses = [detail["validation_loss"] for detail in rounds]
    assert len(rounds) < 30
    assert losses[-1] >= min(losses) == losses[-2]


def test_the_weights_of_the_best_round_are_kept(encoder: str):
    stopped = tiny(encoder, rounds=30, learning_rate=1e-2)
    scorer = stopped.fit(sixty(), [COMPLIANCE, SAFETY], seed=5)
    at = scorer.details["rounds"][-2]  # type: ignore[attr-defined]
    held, _method = hold_out_rows(sixty(), frozenset({"compliance", "safety"}))
    rows = [row for row, out in zip(sixty(), held, strict=True) if out]
    portable = scorer.portable  # type: ignore[attr-defined]
    columns = portable.predict_columns(portable.reader.read([(r.prompt, r.response) for r in rows]))
    right = [
        max(levels, key=lambda level: levels[level]) == row.labels[name]
        for name, column in columns.items()
        for levels, row in zip(column, rows, strict=True)
        if name in row.labels
    ]
    assert sum(right) / len(right) == pytest.approx(at["validation_accuracy"])


def test_a_run_that_collapses_begins_again_at_half_the_rate_a_bounded_number_of_times(encoder: str):
    # A rate at which nothing can be learned, so that no attempt is better than the frequencies.
    scorer = tiny(encoder, rounds=2, learning_rate=50.0, head_learning_rate=50.0, restarts=2)
    details = scorer.fit(sixty(), [COMPLIANCE, SAFETY]).details  # type: ignore[attr-defined]
    assert [detail["attempt"] for detail in details["restarts"]] == [0, 1, 2]
    assert all(detail["reason"] for detail in details["restarts"])
    assert details["collapsed"] is True


def test_a_collapse_that_a_restart_mends_is_told_and_the_mended_run_is_kept(
    encoder: str, monkeypatch: pytest.MonkeyPatch
):
    seen: list[RoundJudgement] = []

    def first_fails(*arguments: Any) -> RoundJudgement:
        judgement = judge_predictions(*arguments)
        seen.append(judgement)
        return replace(judgement, loss=9.0 if len(seen) <= 2 else 0.5, prior=1.0, one_level=False)

    monkeypatch.setattr("scoring.backbones.transformer.run.judge_predictions", first_fails)
    scorer = tiny(encoder, rounds=2, patience=2, restarts=2).fit(sixty(), [COMPLIANCE, SAFETY])
    details = scorer.details  # type: ignore[attr-defined]
    assert [detail["attempt"] for detail in details["restarts"]] == [0]
    assert {detail["attempt"] for detail in details["rounds"]} == {0, 1}
    assert details["collapsed"] is False


def test_what_counts_as_a_collapse():
    targets = torch.tensor([[0], [0], [1], [2]])
    counts = [[10, 5, 5]]
    frequencies = torch.tensor(counts[0], dtype=torch.float).log().expand(4, 3)
    assert (
        judge_predictions([frequencies], targets, counts).collapse
        == "the loss is no better than that of the frequencies"
    )
    one_level = torch.tensor([[3.0, 2.9, 2.9]] * 4) + torch.eye(3)[[0, 0, 1, 2]] * 0.05
    assert judge_predictions(
        [one_level * 0 + torch.tensor([1.0, 0.99, 0.99])], targets, [[100, 1, 1]]
    ).collapse == ("every prediction is one level")
    assert (
        judge_predictions([torch.full((4, 3), torch.nan)], targets, counts).collapse
        == "the loss is not a number"
    )
    assert judge_predictions([torch.eye(3)[[0, 0, 1, 2]] * 5], targets, counts).collapse is None


def test_few_examples_are_gone_through_more_often_in_a_round():
    settings = TransformerSettings(rounds=4, least_steps=150, batch_size=16)
    assert plan_schedule(1800, settings) == (113, 1)
    assert plan_schedule(48, settings) == (3, 13)  # 3 steps x 13 epochs x 4 rounds = 156


# The loss


def test_rare_levels_weigh_more_and_the_labels_one_on_average():
    weights = level_weights({1: 90, 2: 10, 3: 0}, 0.5)
    assert weights[1] / weights[0] == pytest.approx(3)
    assert (90 * weights[0] + 10 * weights[1]) / 100 == pytest.approx(1)
    assert weights[2] == 0
    assert level_weights({1: 90, 2: 10}, 0) == [1, 1]


def test_an_ordinal_loss_minds_how_far_off_a_prediction_is():
    near, far = torch.tensor([[0.0, 9.0, 0.0]]), torch.tensor([[0.0, 0.0, 9.0]])
    truth = torch.tensor([[0]])
    plain = [head_loss([scores], truth).item() for scores in (near, far)]
    ordinal = [head_loss([scores], truth, ordinal=[1.0]).item() for scores in (near, far)]
    assert plain[0] == pytest.approx(plain[1])
    # All but certain: the cumulative distributions differ by 1 at one step, at two.
    assert [b - a for a, b in zip(plain, ordinal, strict=True)] == pytest.approx([1, 2], abs=0.01)


# Low rank


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_low_rank_additions_learn_eight_examples_and_are_merged_into_plain_weights(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
):
    source = request.getfixturevalue(kind)
    scorer = tiny(source, "lora").fit(eight(), [COMPLIANCE])
    assert predict_levels(scorer, eight()) == [1, 1, 3, 3, 1, 3, 2, 3]
    scorer.save(tmp_path / "scorer")
    names = set(load_file(tmp_path / "scorer" / "weights.safetensors"))
    assert not [name for name in names if "lora" in name]
    assert load(tmp_path / "scorer").predict(eight()) == scorer.predict(eight())


def test_low_rank_additions_are_all_that_learns_of_the_encoder(encoder: str):
    before = load_file(Path(encoder) / "model.safetensors")
    model = tiny(encoder, "lora", rounds=2).fit(eight(), [COMPLIANCE]).model  # type: ignore[attr-defined]
    after = model.encoder.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(before[name].ndim == 2 and "embeddings" not in name for name in changed)


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_a_run_killed_after_a_restart_and_in_the_middle_of_an_epoch_goes_on_to_the_same_weights(
    tuning: Any, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    backbone = tiny(encoder, tuning, rounds=3, patience=1, restarts=1, checkpoint_every=4)

    def never_learned(logits: Any, targets: Any, counts: Any) -> RoundJudgement:
        judgement = judge_predictions(logits, targets, counts)
        return replace(judgement, prior=9.0, one_level=False, **({"loss": 9.0} if fails[0] else {}))

    fails = [0]

    def failing(run: Any, loss: float) -> dict[str, float]:
        fails[0] = 1 if run.state.attempt == 0 else 0
        return real(run, loss)

    from scoring.backbones.transformer.run import FineTuningRun

    real = FineTuningRun._round
    monkeypatch.setattr(FineTuningRun, "_round", failing)
    monkeypatch.setattr("scoring.backbones.transformer.run.judge_predictions", never_learned)
    reference = backbone.fit(sixty(), [COMPLIANCE, SAFETY], seed=2)
    assert [detail["attempt"] for detail in reference.details["restarts"]] == [0]  # type: ignore[attr-defined]

    reports: list[FitProgress] = []

    def killed(progress: FitProgress) -> None:
        reports.append(progress)
        # reading; two rounds of the attempt that failed; the middle of an epoch
        if len(reports) > 1 + 20 + 6:
            raise WorkCancelled

    with pytest.raises(WorkCancelled):
        backbone.fit(sixty(), [COMPLIANCE, SAFETY], seed=2, report=killed, checkpoints=tmp_path)
    (checkpoint,) = tmp_path.glob("step-*")
    assert checkpoint.name == "step-1-00000004"
    resumed = backbone.fit(sixty(), [COMPLIANCE, SAFETY], seed=2, checkpoints=tmp_path)
    assert resumed.predict(sixty()) == reference.predict(sixty())
    assert resumed.details == reference.details  # type: ignore[attr-defined]


# Predicting


def test_results_come_in_the_order_of_the_input_and_each_text_is_read_once(encoder: str):
    scorer = tiny(encoder, rounds=1).fit(eight(), [COMPLIANCE])
    rows = [Example(f"{i}", "p", "q", "yes " * (7 * i % 11)) for i in range(11)]
    many = scorer.predict(rows + rows[::-1])
    assert many[:11] == many[:10:-1]
    for row, batch_prediction in zip(rows, many[:11], strict=True):
        (prediction,) = scorer.predict([row])
        assert list(batch_prediction["compliance"].values()) == pytest.approx(
            list(prediction["compliance"].values()), abs=1e-5
        )
    read: list[int] = []

    def count(ids: Any, _mask: Any) -> list[Any]:
        read.append(len(ids))
        return [ids[:, :1]]

    run_sorted(count, scorer.portable.reader, [[5, 6], [7], [5, 6]], torch.device("cpu"))  # type: ignore[attr-defined]
    assert sum(read) == 2
    assert scorer.predict([]) == []


def test_batches_of_prediction_are_bounded_and_hold_every_row_once():
    lengths = [i % 37 + 1 for i in range(300)] + [5000]
    batches = list(batches_by_length(lengths, 4096))
    assert sorted(i for batch in batches for i in batch) == list(range(301))
    assert batches[0] == [300]
    assert all(len(batch) * max(lengths[i] for i in batch) <= 4096 for batch in batches[1:])


@pytest.mark.filterwarnings("ignore:This scorer predicts in int8:RuntimeWarning")
def test_a_faster_precision_is_taken_only_where_it_says_the_same(
    encoder: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("scoring.backbones.transformer.training.MIN_COMPARED_RESPONSES", 10)
    monkeypatch.setattr("scoring.backbones.transformer.training.list_fast_precisions", lambda: ("int8",))
    scorer = tiny(encoder, rounds=2).fit(sixty(), [COMPLIANCE, SAFETY])
    details = scorer.details  # type: ignore[attr-defined]
    assert details["precision"] == ("int8" if details["same_labels"]["int8"] >= 0.99 else "fp32")
    monkeypatch.setattr("scoring.backbones.transformer.training.MIN_SAME_LABELS_SHARE", 1.01)
    strict_scorer = tiny(encoder, rounds=2).fit(sixty(), [COMPLIANCE, SAFETY])
    assert strict_scorer.details["precision"] == "fp32"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("precision", "lacks"), [("int8", "has_int8"), ("bf16", "can_bf16")])
def test_a_machine_that_lacks_the_precision_computes_in_float32_and_says_so(
    encoder: str, precision: Any, lacks: str, monkeypatch: pytest.MonkeyPatch
):
    scorer = tiny(encoder, rounds=1).fit(eight(), [COMPLIANCE])
    plain = scorer.predict(eight())
    monkeypatch.setattr(f"scoring.inference.encoder.{lacks}", lambda _device: False)
    scorer.portable.precision = precision  # type: ignore[attr-defined]
    with pytest.warns(RuntimeWarning, match=f"predicts in {precision}, which this machine cannot"):
        assert scorer.predict(eight()) == plain
    assert scorer.predict(eight()) == plain  # once


# Memory


def test_a_training_that_cannot_fit_is_refused_with_the_numbers(
    encoder: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("scoring.backbones.transformer.memory.read_available_memory", lambda _device: 2**20)
    with pytest.raises(AssayError, match=r"needs about 0\.\d GiB and 0\.0 GiB are free: weights .*lora"):
        tiny(encoder).fit(eight(), [COMPLIANCE])


@pytest.mark.parametrize(("stat", "free"), [("anon 300\ninactive_file 500\n", 700), ("", 200)])
def test_files_that_the_system_may_drop_are_free_memory(
    stat: str, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, text in (("memory.max", "1000\n"), ("memory.current", "800\n"), ("memory.stat", stat)):
        (tmp_path / name).write_text(text)
    names = (str(tmp_path), "memory.max", "memory.current", "inactive_file")
    monkeypatch.setattr("scoring.backbones.transformer.memory.MEMORY_FILES", (names,))
    assert read_available_memory(torch.device("cpu")) == free


def test_the_computed_memory_counts_what_learns(encoder: str):
    spec = tiny(encoder).spec
    outline = Pretrained.load(spec).build_outline([COMPLIANCE])
    parameters = sum(parameter.numel() for parameter in outline.parameters())
    full = compute_needs(outline, "full", spec.settings, 100, torch.device("cpu"))
    assert (full.weights, full.gradients, full.optimizer) == (4 * parameters, 4 * parameters, 8 * parameters)
    low = compute_needs(outline, "lora", spec.settings, 100, torch.device("cpu"))
    model = Pretrained.load(spec).build_model([COMPLIANCE])
    add_low_rank(model, spec.settings)
    learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert low.gradients == 4 * learning
    assert (
        compute_needs(outline, "full", spec.settings, 200, torch.device("cpu")).activations
        == 2 * full.activations
    )


def test_a_seven_billion_shape_fits_one_gpu_with_low_rank_and_not_in_full():
    config = LlamaConfig(torch_dtype="bfloat16")  # its defaults are the shape of the 7B model
    with torch.device("meta"):
        outline = ScorerModel(AutoModel.from_config(config), [3], "last")
    settings = TransformerSettings(gradient_checkpointing=True)
    full, low = (
        compute_needs(outline, tuning, settings, 768, torch.device("cuda")) for tuning in ("full", "lora")
    )
    assert 6.5e9 < sum(parameter.numel() for parameter in outline.parameters()) < 6.8e9
    assert full.on_device > 100 * 2**30
    assert 12 * 2**30 < low.on_device < 24 * 2**30


# Cutting


def test_what_fits_is_not_cut():
    assert trim_pair([1, 2], [3, 4, 5], 5) == ([1, 2], [3, 4, 5])


def test_a_long_pair_keeps_the_end_of_the_prompt_and_both_ends_of_the_response():
    # Of 8 tokens a quarter, 2, are the prompt's; the 6 left are 3 from each end of the response.
    assert trim_pair(range(10), range(100, 120), 8) == ([8, 9], [100, 101, 102, 117, 118, 119])


def test_a_prompt_takes_what_a_short_response_leaves():
    assert trim_pair(range(10), [100], 6) == ([5, 6, 7, 8, 9], [100])


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 40))
def test_a_cut_pair_fills_its_budget_and_no_more(prompt: int, response: int, budget: int):
    pair = trim_pair(range(prompt), range(response), budget)
    assert sum(map(len, pair)) == min(prompt + response, budget)
