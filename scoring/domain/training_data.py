"""What a scorer learns from, as plain values: examples, heads, folds by prompt or by model.

Pure: no Django, no database, no learning library.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from annotation.core.errors import N_, AssayError
from annotation.domain.annotations import OPENING
from scoring.inference.ngram import normalise

Value = int | float
Measurement = Literal["nominal", "ordinal", "interval"]
HeadState = Literal["learned", "constant", "empty"]

Distribution = dict[Value, float]
"""A probability for each level of one criterion's scale, in the order of the scale."""

Prediction = dict[str, Distribution]
"""A distribution by criterion. A criterion that the scorer could not learn is absent: undefined, not zero."""


PROMPTS = 1 << 16
"""Prompts whose text is normalised once: many responses answer one prompt, and each of them asks for it."""
normalise_prompt = lru_cache(maxsize=PROMPTS)(normalise)


def content_key(prompt: str, response: str) -> str:
    """The sha256 (hex) of a prompt and a response, normalised: the same texts, the same key anywhere.

    No finer than what a scorer tells apart, else a copy with another blank at its end would count as unseen.
    The length of the prompt goes in first, so that no two different pairs run together into one string.
    """
    return _compute_content_key(prompt, normalise(response))


def _compute_content_key(prompt: str, normalised_response: str) -> str:
    prompt = normalise_prompt(prompt)
    joined = f"{len(prompt)}\n{prompt}{normalised_response}"
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def transcript(turns: Iterable[tuple[str, str]]) -> str:
    """A dialogue of (role, text) turns as the one text that a scorer reads in place of a response.

    A scripted greeting is alike in all of them, and left out.
    """
    return "\n\n".join(f"{role}:\n{text}" for role, text in turns if role != OPENING)


@dataclass(frozen=True)
class Head:
    """One criterion as a scorer sees it: the levels of its scale, in order, and how they are measured."""

    criterion: str
    values: tuple[Value, ...]
    measurement: Measurement = "nominal"

    def position(self, value: Value) -> int:
        return self.values.index(value)

    def most_likely(self, distribution: Mapping[Value, float]) -> Value:
        """The level with the highest probability; of equals the first on the scale."""
        return max(self.values, key=lambda value: distribution.get(value, 0.0))

    def certain(self, value: Value) -> Distribution:
        return {level: float(level == value) for level in self.values}

    def to_json(self) -> dict[str, Any]:
        return {"criterion": self.criterion, "values": list(self.values), "measurement": self.measurement}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Head:
        return cls(str(data["criterion"]), tuple(data["values"]), data["measurement"])


_NO_SOFT_LABELS: Mapping[str, Distribution] = {}


class _Keys:
    """Of a prompt and a response, computed when one is first asked for: to normalise the response takes most of the
    time. They are no fields, and leave with no copy."""

    __slots__ = ("_content_key", "_response_key")
    prompt: str
    response: str
    _content_key: str
    _response_key: bytes

    @property
    def content_key(self) -> str:
        if not hasattr(self, "_content_key"):
            self._compute_keys()
        return self._content_key

    @property
    def response_key(self) -> bytes:
        """The sha256 of the normalised response: equal of equal texts, and shorter than most."""
        if not hasattr(self, "_response_key"):
            self._compute_keys()
        return self._response_key

    def _compute_keys(self) -> None:
        response = normalise(self.response)
        digest = hashlib.sha256(response.encode("utf-8", "surrogatepass")).digest()
        object.__setattr__(self, "_content_key", _compute_content_key(self.prompt, response))
        object.__setattr__(self, "_response_key", digest)


@dataclass(frozen=True, slots=True)
class Example(_Keys):
    """One response with what is known of it. ``key`` names its row in messages; ``labels`` may be empty.

    ``kind`` is the type of the prompt (its subcomponent); ``split`` the one that the prompt is in everywhere
    (``annotation/domain/releases/splits.py``), empty where it does not matter. Nothing that is kept learns from
    ``test``. ``soft`` has, by criterion, the share of the people who gave each level: where it is there it is learned,
    and not the label.
    """

    key: str
    prompt_key: str
    prompt: str
    response: str
    model: str = ""
    dimension: str | None = None
    labels: Mapping[str, Value] = field(default_factory=dict)
    kind: str | None = None
    split: str = ""
    soft: Mapping[str, Distribution] = field(default_factory=lambda: _NO_SOFT_LABELS)


def check_examples(examples: Sequence[Example], heads: Sequence[Head]) -> None:
    """Refuse, before anything is trained, a label without a head, one off its scale, and no labels at all."""
    by_criterion = {head.criterion: head for head in heads}
    for example in examples:
        for criterion, value in example.labels.items():
            _check_label(example.key, criterion, value, by_criterion.get(criterion))
    if not any(example.labels for example in examples):
        raise AssayError(N_("There is nothing to learn from: no response has a label."))


def _check_label(row: str, criterion: str, value: Value, head: Head | None) -> None:
    if head is None:
        raise AssayError(
            N_("{row}: {criterion} is not a criterion of this scorer."), row=row, criterion=criterion
        )
    if value not in head.values:
        scale = ", ".join(map(level_name, head.values))
        raise AssayError(
            N_("{row}: {criterion} is labelled {value}, which is not on its scale ({scale})."),
            row=row,
            criterion=criterion,
            value=value,
            scale=scale,
        )


def level_counts(examples: Sequence[Example], head: Head) -> dict[Value, int]:
    """How many examples have each level of the head's scale, levels that nobody has included."""
    seen = Counter(e.labels[head.criterion] for e in examples if head.criterion in e.labels)
    return {value: seen[value] for value in head.values}


def target_shares(example: Example, head: Head) -> Distribution:
    """What a head is to learn of a labelled example: its label, or how many of the people gave each level."""
    soft = example.soft.get(head.criterion)
    return {example.labels[head.criterion]: 1.0} if soft is None else soft


def head_state(counts: Mapping[Value, int]) -> HeadState:
    """``learned`` from two levels or more, ``constant`` from one, which it always says; else ``empty``."""
    levels = sum(1 for n in counts.values() if n)
    return "learned" if levels > 1 else "constant" if levels else "empty"


def only_level(counts: Mapping[Value, int]) -> Value:
    """The level that a constant head always says."""
    return next(value for value, n in counts.items() if n)


def describe_heads(examples: Sequence[Example], heads: Sequence[Head]) -> dict[str, dict[str, Any]]:
    """For a scorer's card: what each head had to learn from."""
    counts = {head.criterion: level_counts(examples, head) for head in heads}
    return {
        criterion: {
            "state": head_state(levels),
            "n": sum(levels.values()),
            "levels": {level_name(value): n for value, n in levels.items()},
        }
        for criterion, levels in counts.items()
    }


MIN_SHARED_TEXT = 16
"""A prompt of fewer letters and digits is no sign of kinship: a greeting opens dialogues that share nothing else. A
Chinese character counts as three."""


_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_HAN = re.compile("[\u3400-\u9fff]")
"""A character of these says as much as three letters."""


@lru_cache(maxsize=PROMPTS)
def shared_text(prompt: str) -> str | None:
    """What two prompts have in common that are nearly the same text: letters and digits alone, in lower case.

    None where it is shorter than ``MIN_SHARED_TEXT``: then only their ids can tell that two prompts are one.
    """
    letters = _NOT_ALPHANUMERIC.sub("", unicodedata.normalize("NFKC", prompt).casefold())
    length = len(letters) + 2 * len(_HAN.findall(letters))
    return letters if length >= MIN_SHARED_TEXT else None


def prompt_groups(examples: Sequence[Example]) -> list[str]:
    """The group of each example: what shares a prompt key, nearly the same prompt text, or its whole content, directly
    or through others.

    A group is named by the smallest of its keys, whatever order the examples come in.
    """
    parent = {example.prompt_key: example.prompt_key for example in examples}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    # What two examples may share comes again with each response to a prompt, and is looked at once.
    shared = dict.fromkeys(
        (example.prompt_key, shared_text(example.prompt) or f"content {example.content_key}")
        for example in examples
    )
    key_of_text: dict[str, str] = {}
    for key, text in shared:
        low, high = sorted((root(key), root(key_of_text.setdefault(text, key))))
        parent[high] = low
    group = {key: root(key) for key in parent}
    return [group[example.prompt_key] for example in examples]


@dataclass(frozen=True)
class DataSplit:
    """The positions to learn from and the positions to predict."""

    name: str
    train: tuple[int, ...]
    test: tuple[int, ...]


def folds_by_prompt(examples: Sequence[Example], *, k: int = 5, seed: int = 0) -> list[int]:
    """The fold of each example, 0 to k-1: a prompt's responses together, folds as nearly equal as that allows.

    The largest groups are dealt first, of equal ones in the order of a hash of the seed and the group's name, each to
    the smallest fold so far: the same on any machine and in any order of the examples. Fewer groups than k make fewer
    folds.
    """
    groups = prompt_groups(examples)
    sizes = Counter(groups)
    if len(sizes) < 2:
        raise AssayError(N_("Evaluation by prompt needs responses to at least two different prompts."))
    held = [0] * min(k, len(sizes))
    fold_of: dict[str, int] = {}
    for group in sorted(sizes, key=lambda name: (-sizes[name], shuffle_key(seed, name))):
        fold_of[group] = held.index(min(held))
        held[fold_of[group]] += sizes[group]
    return [fold_of[group] for group in groups]


def describe_folds(examples: Sequence[Example], folds: Sequence[int]) -> list[dict[str, int]]:
    """For a card, by fold: its ``responses``, the ``prompts`` they answer, and the responses to the ``largest``."""
    groups = prompt_groups(examples)
    by_fold = [
        Counter(g for g, f in zip(groups, folds, strict=True) if f == fold) for fold in sorted(set(folds))
    ]
    return [
        {"responses": sizes.total(), "prompts": len(sizes), "largest": max(sizes.values())}
        for sizes in by_fold
    ]


def shuffle_key(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).hexdigest()


def splits_by_prompt(examples: Sequence[Example], *, k: int = 5, seed: int = 0) -> list[DataSplit]:
    folds = folds_by_prompt(examples, k=k, seed=seed)
    return [_split(examples, f"{fold + 1}", folds, fold) for fold in range(max(folds) + 1)]


def splits_by_model(examples: Sequence[Example]) -> list[DataSplit]:
    """One split for each model: learn from the others, predict it."""
    models = [example.model for example in examples]
    names = sorted(set(models))
    if len(names) < 2:
        raise AssayError(N_("Leaving one model out needs responses of at least two models."))
    return [_split(examples, name, models, name) for name in names]


def _split(examples: Sequence[Example], name: str, folds: Sequence[object], held_out: object) -> DataSplit:
    """What is predicted is not learned from, nor is the same text under another model's name."""
    test = tuple(i for i, fold in enumerate(folds) if fold == held_out)
    seen = {examples[i].content_key for i in test}
    train = tuple(
        i for i, fold in enumerate(folds) if fold != held_out and examples[i].content_key not in seen
    )
    return DataSplit(name, train, test)


def level_name(value: Value) -> str:
    """A level's value as a JSON key: 3 and 3.0 are both ``"3"``."""
    return f"{value:g}"


def prediction_to_json(prediction: Prediction) -> dict[str, dict[str, float]]:
    return {
        criterion: {level_name(value): p for value, p in distribution.items()}
        for criterion, distribution in prediction.items()
    }


def prediction_from_json(data: Mapping[str, Mapping[str, float]], heads: Sequence[Head]) -> Prediction:
    return {
        head.criterion: {value: float(data[head.criterion][level_name(value)]) for value in head.values}
        for head in heads
        if head.criterion in data
    }
