from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from annotation.core.errors import AssayError
from scoring.backbones.embedding import EmbeddingFeatures, _load_once, load_encoder
from scoring.backbones.folder import fingerprint
from scoring.backbones.registry import choose_backbone, load
from scoring.domain.spec import Spec
from scoring.domain.training_data import Example, Head
from tests.conftest import missing
from tests.scoring.domain.test_ngram import HEAD, small

HAS_TORCH = all(find_spec(package) is not None for package in ("torch", "transformers", "safetensors"))
if HAS_TORCH:
    from scoring.inference.embedding import Encoder, embed_pairs
elif TYPE_CHECKING:
    raise ImportError


@pytest.fixture(autouse=True)
def with_torch() -> None:
    if not HAS_TORCH:
        missing("torch", "the encoder needs requirements-encoder.txt")


def letters() -> list[Example]:
    """Responses of letters that the small tokenizer has."""
    return [
        replace(row, response="cannot help" if row.labels["compliance"] == 1 else "sure do it")
        for row in small()
    ]


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_frozen_encoder_learns_and_a_saved_scorer_predicts_the_same(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
):
    heads = (HEAD, Head("always", (1, 2)), Head("never", (1, 2)))
    rows = [replace(row, labels={**row.labels, "always": 2}) for row in letters()]
    scorer = choose_backbone(Spec("encoder", request.getfixturevalue(kind))).fit(rows, heads)
    predictions = scorer.predict(rows)
    assert [HEAD.most_likely(row["compliance"]) for row in predictions] == [
        row.labels["compliance"] for row in rows
    ]
    assert all(row["always"] == {1: 0.0, 2: 1.0} and "never" not in row for row in predictions)
    scorer.save(tmp_path)
    restored = load(tmp_path)
    assert (restored.backbone, restored.heads) == (scorer.backbone, heads)
    for prediction, other in zip(predictions, restored.predict(rows), strict=True):
        assert list(prediction["compliance"].values()) == pytest.approx(
            list(other["compliance"].values()), abs=1e-5
        )


def test_nothing_saved_is_a_pickle(encoder: str, tmp_path: Path):
    choose_backbone(Spec("encoder", encoder)).fit(letters(), [HEAD]).save(tmp_path)
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"scorer.json", "heads.npz", "model.safetensors"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pkl", ".pt"))]


def test_a_text_is_embedded_once(encoder: str, monkeypatch: pytest.MonkeyPatch):
    network = Encoder.load(encoder)
    first = embed_pairs(network, [("a", "b"), ("a", "b"), ("c", "b")])
    assert (first[0] == first[1]).all()
    monkeypatch.setattr(Encoder, "_embed", None)
    assert (embed_pairs(network, [("c", "b"), ("a", "b")]) == first[[2, 0]]).all()


def test_it_is_loaded_once_and_anew_where_its_folder_changed(encoder: str):
    first = load_encoder(encoder, False)
    assert load_encoder(encoder, False) is first
    os.utime(Path(encoder) / "model.safetensors", (1, 1))
    assert load_encoder(encoder, False) is not first


def test_what_is_kept_is_bounded(encoder: str, monkeypatch: pytest.MonkeyPatch):
    network = Encoder.load(encoder)
    monkeypatch.setattr("scoring.inference.embedding.MAX_CACHE_BYTES", 10 * 4 * network.width)
    for i in range(8):
        network.embed([f"a{i}", f"b{i}", "c"])
        assert len(network.cache) <= 10


def test_an_embedding_does_not_depend_on_what_else_is_in_the_batch(encoder: str):
    single = Encoder.load(encoder).embed(["hello"])
    batched = Encoder.load(encoder).embed(["hello", "a longer text than that one", ""])
    assert batched[0] == pytest.approx(single[0], abs=1e-5)


def some_texts(n: int = 120) -> list[str]:
    """Of many lengths, so that batches of them are of many shapes."""
    return [
        ("sorry no " * (i % 13) + "yes sure do it " * (i % 7) + chr(97 + i % 26))[: 3 + i] for i in range(n)
    ]


def test_of_an_exact_encoder_no_bit_depends_on_what_was_embedded_with_it_or_before(encoder: str):
    texts = some_texts()
    reference = Encoder.load(encoder)
    reference.exact = True
    expected = reference.embed(texts)
    for first in (texts[:1], texts[::2], [*some_texts(90)[::-3], "other"]):
        other = Encoder.load(encoder)
        other.exact = True
        other.embed(first)
        assert (other.embed(texts) == expected).all()
    assert expected == pytest.approx(Encoder.load(encoder).embed(texts), abs=1e-5)


def test_weights_do_not_tell_what_the_process_embedded_before(encoder: str, tmp_path: Path):
    """A fold that was skipped, another training: the same release and seed give the same hash."""
    few = letters()
    rows = [
        replace(few[i % len(few)], prompt=text[:30], response=f"{few[i % len(few)].response} {text}")
        for i, text in enumerate(some_texts())
    ]
    hashes = []
    for i, before in enumerate(([], rows[::2], [replace(row, response=row.response[::-1]) for row in rows])):
        _load_once.cache_clear()
        if before:
            EmbeddingFeatures(load_encoder(encoder, False), []).extract_further(before)
        choose_backbone(Spec("encoder", encoder)).fit(rows, [HEAD]).save(tmp_path / f"{i}")
        hashes.append(fingerprint(tmp_path / f"{i}"))
    assert len(set(hashes)) == 1


@pytest.mark.parametrize("text", ["", "\ud800", "\x00", "a" * 5000, "你好"])
def test_any_text_has_finite_features(encoder: str, text: str):
    network = Encoder.load(encoder)
    features = embed_pairs(network, [(text, text)])
    assert features.shape == (1, 6 * network.width)
    assert np.isfinite(features).all()


def test_a_decoder_without_marks_of_its_own_embeds_an_empty_text_as_nothing(decoder: str):
    network: Any = Encoder.load(decoder)
    network.reader._start = network.reader._end = []
    assert not network.embed([""]).any()


def test_a_folder_whose_model_is_broken_is_refused_with_the_reason(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "no-such-kind"}')
    with pytest.raises(AssayError, match="cannot be loaded"):
        choose_backbone(Spec("encoder", str(tmp_path))).fit(letters(), [HEAD])


def test_the_ensemble_may_have_a_frozen_encoder(encoder: str, tmp_path: Path):
    rows = [replace(row, model="ab"[i % 2]) for i, row in enumerate(letters())]
    scorer = choose_backbone(Spec("ensemble", encoder)).fit(rows, [HEAD])
    losses = scorer.details["criteria"]["compliance"]["inner_log_loss"]
    assert set(losses["prompt"]) == {"ngram", "patterns", "encoder", "ensemble"}
    scorer.save(tmp_path)
    predictions = scorer.predict(rows)
    for prediction, other in zip(predictions, load(tmp_path).predict(rows), strict=True):
        assert list(prediction["compliance"].values()) == pytest.approx(
            list(other["compliance"].values()), abs=1e-5
        )
