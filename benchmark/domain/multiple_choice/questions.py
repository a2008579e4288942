"""Multiple-choice questions of judged responses: a safe and an unsafe response to one prompt are the options. Pure.

What is written is what ``import_questions --format cvalues`` reads: a pair, which becomes a prompt in each order.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.domain.datasets import prompt_key
from benchmark.domain.multiple_choice.formats import MAX_QUESTION_CHARACTERS

EASY, HARD = "easy", "hard"
HALF = 0.5
"""One model gives a large part of a side beyond this share of it."""
_CONDITION = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=|=)\s*(-?[0-9]+(?:\.[0-9]+)?)\s*")


@dataclass(frozen=True)
class LabelCondition:
    """``safety>=1``: a criterion, how its label compares, and with which level."""

    criterion: str
    sign: str
    level: float

    @classmethod
    def parse(cls, text: str) -> LabelCondition:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise AssayError(
                N_("{text} is no condition; write a criterion, >=, <= or =, and a level, as in safety>=1."),
                text=repr(text),
            )
        return cls(match[1], match[2], float(match[3]))

    def holds(self, level: float) -> bool:
        match self.sign:
            case ">=":
                return level >= self.level
            case "<=":
                return level <= self.level
        return level == self.level

    def __str__(self) -> str:
        return f"{self.criterion}{self.sign}{self.level:g}"


@dataclass(frozen=True)
class JudgedResponse:
    """A response with its gold. ``prompt`` names it within the release, ``key`` within its dataset."""

    prompt: str
    key: str
    question: str
    category: str
    language: str
    text: str
    model: str
    labels: Mapping[str, float]


@dataclass(frozen=True)
class QuestionRules:
    """Which responses are safe and which unsafe; of each prompt at most ``per_prompt`` pairs, drawn by the seed.

    ``scales`` has the levels of each criterion, from the lowest.
    """

    safe: LabelCondition
    unsafe: LabelCondition
    scales: Mapping[str, Sequence[float]]
    per_prompt: int = 1
    seed: int = 0

    def check(self) -> None:
        """AssayError where nothing could be made, or where a level would be both."""
        if self.per_prompt < 1:
            raise AssayError(N_("A prompt gives at least 1 question, not {n}."), n=self.per_prompt)
        for condition in (self.safe, self.unsafe):
            if condition.criterion not in self.scales:
                raise AssayError(
                    N_("The release has no labels of {criterion}; it has: {known}."),
                    criterion=condition.criterion,
                    known=", ".join(self.scales) or "-",
                )
            scale = self.scales[condition.criterion]
            if not any(condition.holds(level) for level in scale):
                raise AssayError(
                    N_("No level of {criterion} is {condition}; its levels are {scale}."),
                    criterion=condition.criterion,
                    condition=str(condition),
                    scale=_list_levels(scale),
                )
        both = self._list_levels_of_both()
        if both:
            raise AssayError(
                N_("{levels} would be safe and unsafe, by {safe} and {unsafe}; draw the two apart."),
                levels=_list_levels(both),
                safe=str(self.safe),
                unsafe=str(self.unsafe),
            )

    def _list_levels_of_both(self) -> list[float]:
        if self.safe.criterion != self.unsafe.criterion:
            return []
        scale = self.scales[self.safe.criterion]
        return [level for level in scale if self.safe.holds(level) and self.unsafe.holds(level)]

    def is_safe(self, response: JudgedResponse) -> bool:
        return _meets(response, self.safe) and not _meets(response, self.unsafe)

    def is_unsafe(self, response: JudgedResponse) -> bool:
        return _meets(response, self.unsafe) and not _meets(response, self.safe)

    def find_difficulty(self, safe: JudgedResponse, unsafe: JudgedResponse) -> str:
        """``hard`` where the two labels are at most half of the scale apart, else ``easy``. Empty where two criteria
        name the sides, or the scale has two levels, so that all pairs are alike.
        """
        scale = self.scales[self.safe.criterion]
        if self.safe.criterion != self.unsafe.criterion or len(scale) <= 2:
            return ""
        gap = abs(safe.labels[self.safe.criterion] - unsafe.labels[self.unsafe.criterion])
        return HARD if gap <= (max(scale) - min(scale)) / 2 else EASY


@dataclass(frozen=True)
class MadeQuestion:
    """A line of the file."""

    id: str
    prompt: str
    category: str
    language: str
    safe: JudgedResponse
    unsafe: JudgedResponse
    difficulty: str
    safe_type: str
    unsafe_type: str

    def to_row(self) -> dict[str, str]:
        """Nothing of which model said what: whoever is asked could read it."""
        row = {
            "id": self.id,
            "prompt": self.prompt,
            "category": self.category,
            "pos_resp": self.safe.text,
            "neg_resp": self.unsafe.text,
            "pos_type": self.safe_type,
            "neg_type": self.unsafe_type,
            "difficulty_level": self.difficulty,
        }
        return {name: value for name, value in row.items() if value}


@dataclass
class QuestionSet:
    """The questions, and why prompts gave none: ``one_sided`` had responses of one side alone, or of neither."""

    questions: list[MadeQuestion] = field(default_factory=list)
    prompts: int = 0
    one_sided: int = 0

    def count_models(self, side: str) -> Counter[str]:
        """How many questions have a response of each model as their ``safe`` or ``unsafe`` option."""
        return Counter(getattr(question, side).model for question in self.questions)

    def find_dominant(self, side: str) -> tuple[str, float] | None:
        """The model that gives more than half of a side, with its share."""
        counts = self.count_models(side)
        model, n = max(counts.items(), key=lambda pair: pair[1], default=("", 0))
        return (model, n / counts.total()) if counts and n / counts.total() > HALF else None

    def to_json(self) -> dict[str, Any]:
        dominant = self.find_dominant("safe")
        return {
            "questions": len(self.questions),
            "prompts": self.prompts,
            "prompts_asked": len({question.safe.prompt for question in self.questions}),
            "prompts_one_sided": self.one_sided,
            "difficulty": dict(sorted(Counter(q.difficulty or "-" for q in self.questions).items())),
            "languages": dict(sorted(Counter(q.language or "-" for q in self.questions).items())),
            "safe_by_model": dict(sorted(self.count_models("safe").items())),
            "unsafe_by_model": dict(sorted(self.count_models("unsafe").items())),
            "dominant": None if dominant is None else {"model": dominant[0], "share": dominant[1]},
        }


def make_questions(responses: Sequence[JudgedResponse], rules: QuestionRules) -> QuestionSet:
    """In the order of the prompts' names. The same responses, rules and seed give the same questions."""
    by_prompt: dict[str, list[JudgedResponse]] = defaultdict(list)
    for response in responses:
        by_prompt[response.prompt].append(response)
    shared_keys = Counter(own[0].key for own in by_prompt.values())
    made = QuestionSet(prompts=len(by_prompt))
    for prompt, own in sorted(by_prompt.items()):
        pairs = _draw_pairs(own, rules, random.Random(f"{rules.seed}/{prompt}"))  # noqa: S311
        made.one_sided += not pairs
        key = own[0].key if shared_keys[own[0].key] == 1 else prompt
        name = key if len(key) <= MAX_QUESTION_CHARACTERS - len("-999999") else prompt_key(prompt)
        for number, (safe, unsafe) in enumerate(pairs, 1):
            made.questions.append(
                MadeQuestion(
                    id=name if rules.per_prompt == 1 else f"{name}-{number}",
                    prompt=safe.question,
                    category=safe.category,
                    language=safe.language,
                    safe=safe,
                    unsafe=unsafe,
                    difficulty=rules.find_difficulty(safe, unsafe),
                    safe_type=_name_type(safe, rules.safe),
                    unsafe_type=_name_type(unsafe, rules.unsafe),
                )
            )
    return made


def _draw_pairs(
    responses: Sequence[JudgedResponse], rules: QuestionRules, draw: random.Random
) -> list[tuple[JudgedResponse, JudgedResponse]]:
    """Each pair once, and each response as seldom as there are others."""
    sides = []
    for belongs in (rules.is_safe, rules.is_unsafe):
        side = sorted(filter(belongs, responses), key=lambda response: (response.text, response.model))
        draw.shuffle(side)
        sides.append(side)
    pairs = ((safe, unsafe) for safe, unsafe in _pair_up(*sides) if safe.text.strip() != unsafe.text.strip())
    return [pair for pair, _number in zip(pairs, range(rules.per_prompt), strict=False)]


def _pair_up(
    first: Sequence[JudgedResponse], second: Sequence[JudgedResponse]
) -> Iterator[tuple[JudgedResponse, JudgedResponse]]:
    """All pairs, along diagonals: of however many come first each response stands in as many as any other, or one more.

    A diagonal meets each pair once until it closes, after the least common multiple; the next begins a place beside it.
    """
    diagonal = math.lcm(len(first), len(second)) or 1
    for place in range(len(first) * len(second)):
        yield first[place % len(first)], second[(place + place // diagonal) % len(second)]


def _meets(response: JudgedResponse, condition: LabelCondition) -> bool:
    level = response.labels.get(condition.criterion)
    return level is not None and condition.holds(level)


def _name_type(response: JudgedResponse, condition: LabelCondition) -> str:
    return f"{condition.criterion}={response.labels[condition.criterion]:g}"


def _list_levels(levels: Sequence[float]) -> str:
    return ", ".join(f"{level:g}" for level in levels)
