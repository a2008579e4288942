"""Slates: which responses stand side by side, in which order, and what people said of them, as comparisons. Pure."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypeVar

from annotation.core.errors import N_, AssayError
from annotation.domain.guidelines import Criterion, Label
from annotation.domain.guidelines.entries import MAX_ENTRIES, MIN_ENTRIES, NONE, TIE, ShownOrder, read_ranking
from annotation.domain.guidelines.values import as_number

MAX_MODEL_NAME = 100
TIE_WORD, NONE_WORD = "tie", "none"
"""What a file of labels says where no entry is named."""
SEPARATOR = " | "
CHARACTERS_PER_MINUTE, WORDS_PER_MINUTE, SECONDS_TO_DECIDE = 400, 250, 15
_CHINESE = re.compile(r"[\u3400-\u9fff]")
Pairs = Literal["all", "balanced"]
Prompt = TypeVar("Prompt", bound=Hashable)
Source = TypeVar("Source", bound=Hashable)


@dataclass(frozen=True)
class Preference:
    """What a label says of two entries of a slate, by their places: ``better`` is preferred; a tie where ``is_tie``."""

    better: int
    worse: int
    is_tie: bool = False


def check_number(entries: int) -> None:
    if not MIN_ENTRIES <= entries <= MAX_ENTRIES:
        raise AssayError(
            N_("A slate has {least} to {most} responses, and not {n}; name as many models or collections."),
            least=MIN_ENTRIES,
            most=MAX_ENTRIES,
            n=entries,
        )


def name_models(sources: Sequence[tuple[str, str]]) -> str:
    """What stands for the models of a slate together: their names in alphabetical order, with the collection where a
    model has several entries; where that is too long, its end is a hash. ``sources`` are model and collection.
    """
    counts = Counter(model for model, _collection in sources)
    name = SEPARATOR.join(
        model if counts[model] == 1 else f"{model}@{collection}" for model, collection in sorted(sources)
    )
    if len(name) <= MAX_MODEL_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_MODEL_NAME - len(digest) - 1]}…{digest}"


def estimate_seconds(texts: Iterable[str]) -> float:
    """About how long somebody takes to read these texts and to decide: a rough guess, before anybody was timed.

    400 Chinese characters or 250 words a minute (rounded from Brysbaert, Journal of Memory and Language 109 (2019)
    104047: 238 words; Chinese 260 words of 1.5 characters), and 15 seconds for the decision.
    """
    minutes = 0.0
    for text in texts:
        chinese = len(_CHINESE.findall(text))
        minutes += chinese / CHARACTERS_PER_MINUTE + len(_CHINESE.sub(" ", text).split()) / WORDS_PER_MINUTE
    return 60 * minutes + SECONDS_TO_DECIDE


def build_turns(entries: Sequence[Sequence[Mapping[str, str]]]) -> list[dict[str, Any]]:
    """The turns of a slate: those of its entries one after another, each with the place of its entry, from 1."""
    return [
        {"role": turn["role"], "text": turn["text"], "entry": place}
        for place, turns in enumerate(entries, start=1)
        for turn in turns
    ]


def group_entries(turns: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
    """The places of the turns (from 0) of each entry of a slate; empty of what is no slate."""
    groups: dict[int, list[int]] = {}
    for place, turn in enumerate(turns):
        if "entry" in turn:
            groups.setdefault(int(turn["entry"]), []).append(place)
    return groups


def write_entries(turns: Sequence[Mapping[str, Any]], order: Sequence[int]) -> str:
    """The entries of a slate one after another in this order, under their numbers; of dialogues with the roles."""
    groups = group_entries(turns)
    parts = []
    for position, place in enumerate(order, start=1):
        own = [turns[turn] for turn in groups[place]]
        text = own[0]["text"] if len(own) == 1 else "\n\n".join(f"{t['role']}: {t['text']}" for t in own)
        parts.append(f"[{position}]\n{text}")
    return "\n\n".join(parts)


def read_order(places: Sequence[int], turns: Sequence[Mapping[str, Any]]) -> ShownOrder:
    """The order of these ``places`` of a slate with these turns; of no places, as of what was imported, the slate's."""
    groups = group_entries(turns)
    order = tuple(places) or tuple(sorted(groups))
    positions = {turn: position for position, place in enumerate(order, start=1) for turn in groups[place]}
    return ShownOrder(order, positions)


def draw_order(*, seed: int, person: int, number: int, entries: int) -> tuple[int, ...]:
    """The places of a slate's entries in the order in which a person reads them, in their ``number``-th slate of so
    many ``entries`` (from 0).

    Orders come in blocks of ``entries``: within a block each entry's place stands once at each position.
    """
    block, step = divmod(number, entries)
    generator = random.Random(f"order {seed} {person} {entries} {block}")  # noqa: S311  # no secret
    places = list(range(1, entries + 1))
    generator.shuffle(places)
    shift = generator.sample(range(entries), entries)[step]
    return tuple(places[shift:] + places[:shift])


class EntryOrders:
    """The orders of the entries of slates as they are made: in blocks, so that of as many slates of the same sources
    as these are each source stands as often at each place.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made: Counter[tuple[Hashable, ...]] = Counter()

    def arrange(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """The sources of the next slate in its order; the same seed gives the same orders."""
        ordered = sorted(sources, key=str)
        key = tuple(ordered)
        number = self._made[key]
        self._made[key] += 1
        text = json.dumps([str(source) for source in ordered])
        kind = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        order = draw_order(seed=self._seed, person=kind, number=number, entries=len(ordered))
        return tuple(ordered[place - 1] for place in order)


def choose_sets(
    sources: Sequence[Source], prompts: Sequence[Prompt], *, pairs: Pairs | None, seed: int
) -> Iterator[tuple[Prompt, tuple[Source, ...]]]:
    """The sources that stand side by side, prompt by prompt: all of them; with ``pairs`` two at a time, ``all`` pairs
    of each prompt, or ``balanced``: one pair of each prompt, every pair as often as any other, but for the last round.
    """
    if pairs is None:
        check_number(len(sources))
    couples = list(combinations(sources, 2))
    generator = random.Random(f"pairs {seed}")  # noqa: S311  # no secret
    shuffled = list(prompts)
    if pairs == "balanced":
        generator.shuffle(shuffled)
    queue: list[tuple[Source, ...]] = []
    for prompt in shuffled:
        if pairs is None:
            yield prompt, tuple(sources)
        elif pairs == "all":
            for couple in couples:
                yield prompt, couple
        else:
            if not queue:
                queue = generator.sample(couples, len(couples))
            yield prompt, queue.pop()


def place_label(label: object, sources: Sequence[tuple[str, str]]) -> object:
    """A label about a slate's entries that names a model, or ``tie`` or ``none``, as the place of the entry; a list of
    names as the options of several that are best. Numbers, and what names nobody, come back as they are. ``sources``
    are model and collection of each entry.
    """
    words: dict[str, int] = {TIE_WORD: TIE, NONE_WORD: NONE}
    for place, (model, collection) in enumerate(sources, start=1):
        words |= {model: place, f"{model}@{collection}": place}
    if isinstance(label, list) and all(isinstance(name, str) for name in label):
        return [1 << words[name] - 1 if words.get(name, 0) > 0 else name for name in label]
    return words.get(label, label) if isinstance(label, str) else label


def name_label(criterion: Criterion, label: Label, sources: Sequence[tuple[str, str]]) -> Label | list[str]:
    """A label about a slate's entries with the names of their models, as ``place_label`` reads them; of several that
    are best a list; a ranking as it is.
    """
    value = as_number(label)
    if criterion.entries != "best" or not isinstance(value, int):
        return label
    if value in (NONE, TIE):
        return NONE_WORD if value == NONE else TIE_WORD
    counts = Counter(model for model, _collection in sources)
    names = [model if counts[model] == 1 else f"{model}@{collection}" for model, collection in sources]
    if criterion.several:
        return [name for place, name in enumerate(names) if value & 1 << place]
    return names[value - 1]


def list_preferences(criterion: Criterion, label: Label, entries: int) -> list[Preference]:
    """What a label says of the entries two by two; nothing where it compares nothing.

    Of a best entry: that it is better than each other; those that were not chosen are not compared. Several that are
    best are better than each other, and compare with none of themselves. A ranking compares all.
    """
    value = as_number(label)
    if not isinstance(value, int) or criterion.entries is None or (value == NONE):
        return []
    places = range(1, entries + 1)
    if criterion.entries == "ranking":
        ranks = read_ranking(value)
        return [_compare_ranks(first, second, ranks) for first, second in combinations(places, 2)]
    if value == TIE:
        return [Preference(first, second, is_tie=True) for first, second in combinations(places, 2)]
    best = {place for place in places if value & 1 << place - 1} if criterion.several else {value}
    return [Preference(better, worse) for better in sorted(best) for worse in places if worse not in best]


def _compare_ranks(first: int, second: int, ranks: Sequence[int]) -> Preference:
    if ranks[first - 1] > ranks[second - 1]:
        return Preference(second, first)
    return Preference(first, second, is_tie=ranks[first - 1] == ranks[second - 1])
