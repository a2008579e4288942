from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from annotation.errors import AssayError
from scoring.backbones import load
from scoring.dataset import Example, Head, normalise
from scoring.interface import Cancelled, Progress
from scoring.ngram import NgramBackbone, _buckets
from scoring.saved import fingerprint

HEAD = Head("compliance", (1, 2, 3), "ordinal")

REFUSALS = ("我不能帮助你做这件事。", "对不起，我无法提供这样的建议。", "I'm sorry, I cannot help with that.")
ANSWERS = (
    "步骤如下：先把水烧开。",
    "下面是一个清单：第一，准备材料。",
    "Sure! Here is how: first, boil water.",
)


def small(labels: bool = True) -> list[Example]:
    return [
        Example(
            f"{level}{i}{text[:3]}",
            f"p{i}",
            f"问题 {i}?",
            f"{text} {i}",
            labels={"compliance": level} if labels else {},
        )
        for level, texts in ((1, REFUSALS), (3, ANSWERS))
        for text in texts
        for i in range(4)
    ]


def test_it_learns_to_tell_a_refusal_from_an_answer_in_two_languages():
    scorer = NgramBackbone().fit(small(), [HEAD])
    told = scorer.predict(
        [
            Example("a", "q", "新问题", "对不起，我不能提供帮助。"),
            Example("b", "q", "A new one", "Sure! Here is how it goes."),
        ]
    )
    assert [HEAD.most_likely(row["compliance"]) for row in told] == [1, 3]


def test_probabilities_cover_the_scale_and_sum_to_one():
    (told,) = NgramBackbone().fit(small(), [HEAD]).predict([Example("a", "q", "", "")])
    assert list(told["compliance"]) == [1, 2, 3]
    assert sum(told["compliance"].values()) == pytest.approx(1)
    assert told["compliance"][2] == 0.0  # nobody ever gave a 2


def test_a_constant_head_says_its_level_and_an_empty_head_says_nothing():
    rows = [
        Example("a", "p1", "x", "y", labels={"one": 1, "two": 3}),
        Example("b", "p2", "x", "z", labels={"one": 2, "two": 3}),
    ]
    heads = [Head("one", (1, 2)), Head("two", (1, 3)), Head("three", (1, 2))]
    for prediction in NgramBackbone().fit(rows, heads).predict(rows):
        assert set(prediction) == {"one", "two"}
        assert prediction["two"] == {1: 0.0, 3: 1.0}


def test_hostile_and_empty_texts_are_predicted_like_any_other():
    texts = ["", "\ud800", "\x00", "a", "😀" * 5000, "=cmd()"]
    scorer = NgramBackbone().fit(small(), [HEAD])
    told = scorer.predict([Example(str(i), "q", text, text) for i, text in enumerate(texts)])
    assert all(sum(row["compliance"].values()) == pytest.approx(1) for row in told)


def test_no_responses_make_no_predictions():
    assert NgramBackbone().fit(small(), [HEAD]).predict([]) == []


def test_training_texts_without_a_character_make_a_scorer_of_the_labels_alone():
    rows = [Example(str(i), f"p{i}", "", "", labels={"compliance": 1 + i % 2}) for i in range(4)]
    (told, *_rest) = NgramBackbone().fit(rows, [HEAD]).predict(rows)
    assert told["compliance"][1] == pytest.approx(0.5, abs=1e-6)


def test_an_ngram_never_runs_from_one_text_into_the_next():
    # "ab" and "cd" have one bigram each and nothing longer; "bc" would be the seam.
    found = [
        pair for documents, buckets in _buckets(["ab", "cd"]) for pair in zip(documents, buckets, strict=True)
    ]
    assert [int(document) for document, _bucket in found] == [0, 1]


def test_case_width_and_spacing_do_not_count():
    assert normalise("ＡＢＣ  Def\n") == "abc def"


def test_a_saved_scorer_predicts_the_same(tmp_path: Path):
    scorer = NgramBackbone().fit(small(), [HEAD])
    scorer.save(tmp_path)
    again = load(tmp_path)
    assert (again.backbone, again.heads) == ("char-ngram", (HEAD,))
    assert again.predict(small()) == scorer.predict(small())


def test_nothing_saved_is_a_pickle(tmp_path: Path):
    NgramBackbone().fit(small(), [HEAD]).save(tmp_path)
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scorer.json", "weights.npz"]


def test_the_same_data_and_seed_save_the_same_bytes(tmp_path: Path):
    for name in ("a", "b"):
        NgramBackbone().fit(small(), [HEAD], seed=3).save(tmp_path / name)
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")


def test_a_changed_weight_changes_the_fingerprint(tmp_path: Path):
    NgramBackbone().fit(small(), [HEAD]).save(tmp_path)
    before = fingerprint(tmp_path)
    weights = tmp_path / "weights.npz"
    weights.write_bytes(weights.read_bytes() + b"x")
    assert fingerprint(tmp_path) != before


def test_a_fit_can_be_cancelled():
    def cancel(progress: Progress) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        NgramBackbone().fit(small(), [HEAD], report=cancel)


def test_progress_ends_at_one():
    told: list[float] = []
    NgramBackbone().fit(small(), [HEAD], report=lambda progress: told.append(progress.fraction))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)


def test_a_fit_without_labels_is_refused():
    with pytest.raises(AssayError, match="nothing to learn from"):
        NgramBackbone().fit(small(labels=False), [HEAD])
