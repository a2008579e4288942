"""Are a new model's responses like those that a scorer has learned from? Pure; scikit-learn where it is used.

A scorer's figures hold for responses like its training data. What is told here needs no label of the new model:

- ``auc``: how well a simple classifier tells the new model's responses from the training ones, on prompts it has not
  seen (a classifier two-sample test, Lopez-Paz and Oquab 2017): 0.5 not at all, 1 always;
- repeated texts: a model that answers with one sentence again and again is judged right or wrong all at once;
- length and script of the responses;
- how sure the scorer is, beside what it is out of fold.

No figure is a verdict by itself, for models differ that a scorer judges well. So each stands beside what the training
models show against one another (``reference``): a model's ``auc`` against the other ones, beside the accuracy that was
lost when it was left out. A new model that is easier to tell apart than any of them lies outside what was measured.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.tables import PredictionTable
from scoring.domain.threads import one_thread
from scoring.domain.training_data import (
    Example,
    Head,
    Prediction,
    folds_by_prompt,
    normalise_prompt,
    prompt_groups,
)
from scoring.inference.ngram import normalise

Array = npt.NDArray[np.float64]
Json = dict[str, Any]

MAX_RESPONSES = 3000
"""Responses of each side that are read: enough for two digits of the AUC, in seconds whatever the release."""
MAX_OPENING_CHARACTERS = 240
"""Characters of a response that the classifier reads: what tells models apart stands at the beginning."""
FEATURES = 2**14
FOLDS = 4
MIN_RESPONSES = 10
"""Responses on each side, below which no AUC is told."""
MAX_TEXT_CHARACTERS = 300
"""Characters of the commonest repeated text that are told."""

SCRIPTS = {
    "CJK": "Han",
    "HIRAGANA": "Kana",
    "KATAKANA": "Kana",
    "HANGUL": "Hangul",
    "LATIN": "Latin",
    "CYRILLIC": "Cyrillic",
    "ARABIC": "Arabic",
    "DEVANAGARI": "Devanagari",
    "HEBREW": "Hebrew",
    "GREEK": "Greek",
    "THAI": "Thai",
}
"""The first word of a letter's Unicode name, and its script; any other is of another script."""


def describe_models(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    *,
    lost: Mapping[str, float | None] | None = None,
    seed: int = 0,
) -> Json:
    """What the training models show against one another, ``{"all": {..}, "models": {name: {..}}}``; for a card.

    ``predictions`` are out of fold. ``lost`` is by model its accuracy out of fold less that of a scorer without it,
    where that was measured. Each model has the fields of ``describe``, ``auc`` (null of a single model) and
    ``accuracy_lost``.
    """
    table = PredictionTable.collect(predictions, heads)
    scripts = [script(example.response) for example in examples]
    models = sorted({example.model for example in examples})
    by_model: dict[str, Json] = {}
    for model in models:
        own = [i for i, example in enumerate(examples) if example.model == model]
        own_examples = [examples[i] for i in own]
        other_examples = [example for example in examples if example.model != model]
        by_model[model] = {
            **describe_responses(own_examples, table.take(own), heads, scripts=[scripts[i] for i in own]),
            **domain_auc(other_examples, own_examples, seed=seed),
            "accuracy_lost": (lost or {}).get(model),
        }
    return {"all": describe_responses(examples, table, heads, scripts=scripts), "models": by_model}


def measure_drift(
    training: Sequence[Example],
    new: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    *,
    reference: Mapping[str, Any],
    seed: int = 0,
) -> Json:
    """A new model's responses beside the training ones, as plain JSON.

    ``predictions`` are the kept scorer's of the new responses; ``reference`` is what its card holds under ``drift``.

    ``{"new", "training", "models", "shift", "known_prompts", "known_texts", "most_different"}``: ``new`` and
    ``training`` have the fields of ``describe``, ``new`` and each of the training ``models`` those of ``domain_auc``;
    ``shift`` has distances between both sides from 0 (alike) to 1: of ``scripts`` half the sum of the differences of
    their shares, of ``length`` the largest difference between the shares up to a length (Kolmogorov-Smirnov).
    ``known_prompts`` and ``known_texts`` are the shares of new responses whose prompt, or whose text, is in the
    training data. ``most_different``: is the new model easier to tell from the training data than each training model
    is from the others? None where that is unknown.
    """
    texts = {example.response_key for example in training}
    prompts, new_prompts = set(_list_prompts(training).values()), _list_prompts(new)
    description = describe_responses(new, predictions, heads) | domain_auc(training, new, seed=seed)
    if description["repeated"]["commonest"] is not None:
        description["repeated"]["commonest"]["in_training"] = (
            _find_commonest(_count_repetitions(new)) in texts
        )
    aucs = [
        model_figures["auc"]
        for model_figures in reference["models"].values()
        if model_figures["auc"] is not None
    ]
    return {
        "new": description,
        "training": reference["all"],
        "models": reference["models"],
        "shift": {
            "scripts": _script_shift(description["scripts"], reference["all"]["scripts"]),
            "length": _largest_gap(_lengths(training), _lengths(new)),
        },
        "known_prompts": _share([new_prompts[example.prompt] in prompts for example in new]),
        "known_texts": _share([example.response_key in texts for example in new]),
        "most_different": description["auc"] > max(aucs) if aucs and description["auc"] is not None else None,
    }


def describe_responses(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    *,
    scripts: Sequence[str] | None = None,
) -> Json:
    """One side alone: ``n``, ``repeated`` (``share``, ``commonest``), ``characters`` (quartiles), ``scripts``
    (share of the responses), ``confidence`` (mean probability of the most likely level). The script of each response
    may be known already."""
    lengths = _lengths(examples)
    return {
        "n": len(examples),
        "repeated": _describe_repetitions(examples),
        "characters": np.percentile(lengths, [25, 50, 75]).tolist() if len(lengths) else None,
        "scripts": _share_scripts(scripts or [script(example.response) for example in examples]),
        "confidence": _confidence(predictions, heads),
    }


def _confidence(predictions: Sequence[Prediction], heads: Sequence[Head]) -> float | None:
    table = PredictionTable.collect(predictions, heads)
    sure = np.concatenate([table.select(head)[table.is_predicted(head)].max(axis=1) for head in heads])
    return float(sure.mean()) if len(sure) else None


def _count_repetitions(examples: Sequence[Example]) -> Counter[bytes]:
    """By its key, how often each response is given that answers more than one prompt."""
    times: Counter[bytes] = Counter()
    first_prompt: dict[bytes, str] = {}
    repeated: set[bytes] = set()
    for example, group in zip(examples, prompt_groups(examples), strict=True):
        times[example.response_key] += 1
        if first_prompt.setdefault(example.response_key, group) != group:
            repeated.add(example.response_key)
    return Counter({key: times[key] for key in repeated})


def _find_commonest(repetitions: Counter[bytes]) -> bytes | None:
    return min(repetitions, key=lambda key: (-repetitions[key], key)) if repetitions else None


def _describe_repetitions(examples: Sequence[Example]) -> Json:
    repetitions = _count_repetitions(examples)
    key = _find_commonest(repetitions)
    if key is None:
        return {"share": 0.0 if examples else None, "commonest": None}
    original = next(e.response for e in examples if e.response_key == key).strip()
    commonest = {
        "text": original[:MAX_TEXT_CHARACTERS],
        "n": repetitions[key],
        "share": repetitions[key] / len(examples),
    }
    return {"share": repetitions.total() / len(examples), "commonest": commonest}


def _lengths(examples: Sequence[Example]) -> Array:
    return np.array([len(example.response) for example in examples], dtype=np.float64)


def _largest_gap(first: Array, second: Array) -> float | None:
    """The statistic of Kolmogorov and Smirnov: the largest distance of the two distribution functions."""
    if not len(first) or not len(second):
        return None
    at = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(side), at, side="right") / len(side) for side in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


@lru_cache(maxsize=1 << 16)
def _script_of(letter: str) -> str:
    return SCRIPTS.get(unicodedata.name(letter, "").split(" ")[0], "other")


def script(text: str) -> str:
    """The script of most of its letters; ``none`` where it has no letters."""
    text = text[:1000]
    if text.isascii():  # its letters are all Latin
        return "Latin" if any(map(str.isalpha, text)) else "none"
    letters = Counter(map(_script_of, filter(str.isalpha, text)))
    return min(letters, key=lambda name: (-letters[name], name)) if letters else "none"


def _share_scripts(scripts: Sequence[str]) -> dict[str, float]:
    return {name: n / len(scripts) for name, n in Counter(scripts).most_common()}


def _script_shift(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    if not first or not second:
        return None
    return sum(abs(first.get(name, 0.0) - second.get(name, 0.0)) for name in {*first, *second}) / 2


def _list_prompts(examples: Sequence[Example]) -> dict[str, str]:
    """By the text of each prompt the same normalised. Many responses answer one prompt."""
    return {prompt: normalise_prompt(prompt) for prompt in {example.prompt for example in examples}}


def _share(known: Sequence[bool]) -> float | None:
    return sum(known) / len(known) if known else None


def domain_auc(training: Sequence[Example], new: Sequence[Example], *, seed: int = 0) -> Json:
    """``auc`` and the responses that it is taken of: ``auc_prompts`` is ``shared`` or ``all``.

    Where both sides have answered enough of the same prompts, only those are compared: else the prompts, too, would
    tell the sides apart. ``auc`` is null where a side has fewer than ten responses.
    """
    training, new, prompts = _select_comparable(training, new)
    if min(len(training), len(new)) < MIN_RESPONSES:
        return {"auc": None, "auc_prompts": prompts}
    samples = [_sample_examples(side) for side in (training, new)]
    rows, is_new = [*samples[0], *samples[1]], np.repeat([False, True], [len(side) for side in samples])
    return {"auc": _cross_fitted_auc(rows, is_new, seed), "auc_prompts": prompts}


def _select_comparable(
    training: Sequence[Example], new: Sequence[Example]
) -> tuple[Sequence[Example], Sequence[Example], str]:
    sides = [_list_prompts(side) for side in (training, new)]
    shared = set(sides[0].values()) & set(sides[1].values())
    both = [
        [e for e in side if prompts[e.prompt] in shared]
        for side, prompts in zip((training, new), sides, strict=True)
    ]
    if len(shared) >= FOLDS and min(map(len, both)) >= max(MIN_RESPONSES, len(new) // 2):
        return both[0], both[1], "shared"
    return training, new, "all"


def _sample_examples(examples: Sequence[Example]) -> Sequence[Example]:
    """At most so many, chosen by their content, whose hash knows nothing of it."""
    return (
        nsmallest(MAX_RESPONSES, examples, key=lambda example: example.content_key)
        if len(examples) > MAX_RESPONSES
        else examples
    )


def _cross_fitted_auc(rows: Sequence[Example], is_new: npt.NDArray[np.bool_], seed: int) -> float | None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    if len(set(prompt_groups(rows))) < 2:
        return None
    matrix, folds = _features(rows), np.array(folds_by_prompt(rows, k=FOLDS, seed=seed))
    decisions = np.zeros(len(rows))
    for fold in range(folds.max() + 1):
        learn = folds != fold
        if len(set(is_new[learn])) < 2:
            return None
        model = LogisticRegression(class_weight="balanced", max_iter=300, tol=1e-3, random_state=seed)
        with one_thread():
            model.fit(matrix[learn], is_new[learn])
        decisions[~learn] = model.decision_function(matrix[~learn])
    return float(roc_auc_score(is_new, decisions))


def _opening(response: str) -> str:
    """Without half a pair of UTF-16, which cannot be hashed."""
    return normalise(response)[:MAX_OPENING_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def _features(rows: Sequence[Example]) -> Any:
    """Character n-grams of the opening, hashed, beside the length: (rows, features), sparse."""
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(
        analyzer="char", ngram_range=(2, 4), n_features=FEATURES, alternate_sign=False, lowercase=False
    ).transform([_opening(example.response) for example in rows])
    sizes = np.log1p(_lengths(rows))
    scaled = (sizes - sizes.mean()) / (sizes.std() or 1.0)
    return sparse.hstack([hashed, sparse.csr_matrix(scaled[:, None])], format="csr")
