from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from annotation.core.errors import AssayError
from scoring.backbones.folder import fingerprint
from scoring.backbones.ngram import NgramBackbone
from scoring.backbones.registry import load
from scoring.domain.backbone import FitProgress, WorkCancelled
from scoring.domain.training_data import Example, Head
from scoring.inference import ngram as portable
from tests.scoring.support import change_weights

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
    predictions = scorer.predict(
        [
            Example("a", "q", "新问题", "对不起，我不能提供帮助。"),
            Example("b", "q", "A new one", "Sure! Here is how it goes."),
        ]
    )
    assert [HEAD.most_likely(row["compliance"]) for row in predictions] == [1, 3]


def test_probabilities_cover_the_scale_and_sum_to_one():
    (prediction,) = NgramBackbone().fit(small(), [HEAD]).predict([Example("a", "q", "", "")])
    assert list(prediction["compliance"]) == [1, 2, 3]
    assert sum(prediction["compliance"].values()) == pytest.approx(1)
    assert prediction["compliance"][2] == 0.0  # nobody ever gave a 2


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
    predictions = scorer.predict([Example(str(i), "q", text, text) for i, text in enumerate(texts)])
    assert all(sum(row["compliance"].values()) == pytest.approx(1) for row in predictions)


def test_no_responses_make_no_predictions():
    assert not NgramBackbone().fit(small(), [HEAD]).predict([])


def test_training_texts_without_a_character_make_a_scorer_of_the_labels_alone():
    rows = [Example(str(i), f"p{i}", "", "", labels={"compliance": 1 + i % 2}) for i in range(4)]
    (prediction, *_rest) = NgramBackbone().fit(rows, [HEAD]).predict(rows)
    assert prediction["compliance"][1] == pytest.approx(0.5, abs=1e-6)


def words(*texts: str) -> list[tuple[int, int]]:
    document, hashes = portable.WORDS.units(texts)
    return list(zip(document.tolist(), hashes.tolist(), strict=True))


def test_a_run_never_goes_from_one_text_into_the_next():
    # "ab" and "cd" have one run of two characters each and none longer; "bc" would be the seam.
    pairs = [
        pair
        for documents, buckets in portable.hash_runs(*portable.CHARACTERS.units(["ab", "cd"]), (2, 3))
        for pair in zip(documents, buckets, strict=True)
    ]
    assert [int(document) for document, _bucket in pairs] == [0, 1]


def test_words_are_runs_of_letters_and_single_characters_of_scripts_without_spaces():
    assert [document for document, _hash in words("do it 你好!", "", "it")] == [0, 0, 0, 0, 0, 2]
    pairs = words("it or it", "it.")
    assert pairs[0][1] == pairs[2][1] == pairs[3][1] != pairs[1][1]


def test_a_word_is_the_same_wherever_it_stands_and_whatever_is_beside_it():
    word_hash = words("sorry")[0][1]
    assert words("x" * 5000 + " sorry")[1][1] == word_hash == words(*["y"] * 99, "sorry")[-1][1]
    assert words("ab")[0][1] != words("ba")[0][1]


@pytest.mark.parametrize("text", ["I can't", "I cannot", "I CAN NOT", "I can’t"])
def test_contractions_are_written_out(text: str):
    assert portable.to_plain(text) == "i cannot"


def test_a_scorer_saved_by_the_first_version_predicts_as_it_did():
    folder = Path(__file__).parents[1] / "data" / "char-ngram"
    scorer = load(folder)
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    predictions = scorer.predict(
        [Example(str(i), "q", "问题 1?", row["response"]) for i, row in enumerate(expected)]
    )
    for prediction, row in zip(predictions, expected, strict=True):
        assert set(prediction) == set(row["said"])
        for criterion, levels in row["said"].items():
            for value, probability in prediction[criterion].items():
                assert probability == pytest.approx(levels[f"{value:g}"], abs=1e-6)
    assert scorer.backbone == "char-ngram"


def test_two_prompts_and_four_rows_are_enough():
    rows = [
        Example(f"{i}", f"p{i % 2}", f"q{i % 2}", f"r {i}", labels={"compliance": 1 + i // 2})
        for i in range(4)
    ]
    for prediction in NgramBackbone().fit(rows, [HEAD]).predict(rows):
        assert sum(prediction["compliance"].values()) == pytest.approx(1)


def test_one_prompt_alone_is_learned_without_calibration():
    rows = [replace(row, prompt_key="p", prompt="the same") for row in small()]
    scorer = NgramBackbone().fit(rows, [HEAD])
    assert scorer.details["criteria"]["compliance"]["temperature"] == 1.0


def test_the_details_say_which_form_an_ordered_scale_was_learned_in_and_why():
    rows = [replace(row, labels={"compliance": 2}) if i % 5 == 0 else row for i, row in enumerate(small())]
    details = NgramBackbone().fit(rows, [HEAD]).details["criteria"]["compliance"]
    losses = details["inner_log_loss"]
    assert set(losses) == {"multinomial", "cumulative"}
    assert details["form"] == min(losses, key=lambda form: losses[form])
    assert 0.2 <= details["temperature"] <= 100


def test_the_same_texts_get_the_same_answer_in_one_call():
    scorer = NgramBackbone().fit(small(), [HEAD])
    first, second = scorer.predict(
        [Example("a", "p", "q", "Sorry, no."), Example("b", "p", "q", "Sorry, no.")]
    )
    assert first == second


def test_case_width_and_spacing_do_not_count():
    assert portable.normalise("ＡＢＣ  Def\n") == "abc def"


def normalise_plainly(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def test_plain_ascii_is_read_as_any_text_is():
    for point in range(256):
        text = f" A{chr(point)}b{chr(point)}{chr(point)}C "
        assert portable.normalise(text) == normalise_plainly(text)


@given(
    st.text(
        st.sampled_from("我不能帮助，。！？：；（）～％－．／＂＇…\u3000①ﬁ각か\u3099e\u0301\u0327İ \n")
        | st.characters()
    )
)
def test_text_of_any_script_is_read_by_the_rules_of_unicode(text: str):
    assert portable.normalise(text) == normalise_plainly(text)


def test_a_saved_scorer_predicts_the_same(tmp_path: Path):
    scorer = NgramBackbone().fit(small(), [HEAD])
    scorer.save(tmp_path)
    loaded = load(tmp_path)
    assert (loaded.backbone, loaded.heads) == ("ngram", (HEAD,))
    assert loaded.predict(small()) == scorer.predict(small())


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
    change_weights(tmp_path)
    assert fingerprint(tmp_path) != before


def test_a_fit_can_be_cancelled():
    def cancel(progress: FitProgress) -> None:
        raise WorkCancelled

    with pytest.raises(WorkCancelled):
        NgramBackbone().fit(small(), [HEAD], report=cancel)


def test_progress_ends_at_one():
    fractions: list[float] = []
    NgramBackbone().fit(small(), [HEAD], report=lambda progress: fractions.append(progress.fraction))
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1)


def test_a_fit_without_labels_is_refused():
    with pytest.raises(AssayError, match="nothing to learn from"):
        NgramBackbone().fit(small(labels=False), [HEAD])


def test_what_is_learned_does_not_wait_for_threads_nor_depend_on_their_number(
    monkeypatch: pytest.MonkeyPatch,
):
    threads: set[int] = set()
    fit = LogisticRegression.fit

    def watched(self: LogisticRegression, *args: Any, **options: Any) -> Any:
        threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return fit(self, *args, **options)

    monkeypatch.setattr(LogisticRegression, "fit", watched)
    with threadpool_limits(2, user_api="blas"):
        NgramBackbone().fit(small(), [HEAD])
    assert threads == {1}
