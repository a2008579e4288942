"""The criteria of a guideline as the work page asks them, in one language, and what the guideline says beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from annotation.domain.guidelines import NA, AskedIf, Criterion, Level, find_language, localize
from annotation.domain.guidelines.entries import NONE, TIE, name_ranking, read_ranking, write_ranking
from annotation.domain.guidelines.values import as_number, strip_turn
from annotation.forms.annotations import LABEL, RANK, TEXT

# The keys 1 to 9 and 0: a longer scale is typed as a number.
DIGITS = "1234567890"
MAX_KEYS = len(DIGITS)
# What is no level has keys of its own.
NA_KEY, UNANSWERED_KEY = "-", "."
NONE_KEY, TIE_KEY = "0", "="


@dataclass(frozen=True)
class LevelCard:
    """One answer to choose. ``key`` chooses it: a digit of ``level_keys``, or that of what is no level: ``value`` is
    ``NA`` where the criterion is not applicable, and empty where it is left unanswered. The number of an ``is_option``
    says nothing.
    """

    key: str
    value: str
    name: str
    definition: str
    requires: tuple[str, ...]
    is_chosen: bool
    is_option: bool = False

    @property
    def is_level(self) -> bool:
        return self.value not in ("", NA)

    @property
    def words(self) -> str:
        return f"{self.value} {self.name}" if self.is_level and not self.is_option else self.name


@dataclass(frozen=True)
class ExampleText:
    prompt: str
    response: str
    note: str


@dataclass(frozen=True)
class GuideLevel:
    value: str
    name: str
    definition: str
    requires: tuple[str, ...]
    reason: str
    examples: tuple[ExampleText, ...]


@dataclass(frozen=True)
class GuideAnswer:
    """What a key answers about the entries of a slate; ``name`` is empty of the entries themselves."""

    keys: tuple[str, ...]
    name: str
    text: str


@dataclass(frozen=True)
class RankRow:
    """An entry of a slate to be ranked: its number as it is shown, and the rank that was chosen, or empty."""

    field: str
    place: int
    position: int
    rank: str = ""


@dataclass(frozen=True)
class Question:
    """A criterion as it is asked; ``typed`` is the number at hand where the scale is too long for cards, or the text.

    ``guide`` is the guideline's part on it, as HTML, under the name ``guide_name``, which the questions about each turn
    share. ``condition`` says beside what answer it is asked; None: always. ``turn`` is the place of the turn that it is
    about, None: the whole. ``text_limit`` is the most characters of a text; None: what is asked for is no text.
    ``or_condition`` is a second answer beside which it is asked. ``ranks`` are the entries of a slate to be ranked, of
    which several may share one where there are ``ties``. ``has_levels``: the guide says what levels mean.
    """

    name: str
    guide_name: str
    field: str
    lang: str
    label: str
    question: str
    cards: tuple[LevelCard, ...]
    lowest: str
    highest: str
    typed: str
    guide: SafeString
    allows_na: bool
    is_na: bool
    optional: bool
    condition: AskedIf | None
    or_condition: AskedIf | None
    turn: int | None
    several: bool
    has_options: bool
    text_limit: int | None
    has_levels: bool
    ranks: tuple[RankRow, ...] = ()
    ties: bool = False

    @property
    def fits_row(self) -> bool:
        """Whether its levels can stand in a row of digits: each key is the level's value."""
        levels = [card for card in self.cards if card.is_level]
        return bool(levels) and not self.has_options and all(card.key == card.value for card in levels)

    @property
    def answer(self) -> str:
        """The answer in words; empty while there is none."""
        if self.ranks:
            return format_ranks(self.ranks)
        words = [card.words for card in self.cards if card.is_chosen and card.value]
        return ", ".join(words) or (gettext("Not applicable") if self.is_na else self.typed)


def format_ranks(ranks: Sequence[RankRow]) -> str:
    """The entries from the best to the worst, as in ``2 > 1 = 3``; empty while one has no rank."""
    if not all(row.rank for row in ranks):
        return ""
    return name_ranking(write_ranking([int(row.rank) for row in ranks]))["en"]


def level_keys(values: Sequence[int | float]) -> Sequence[str]:
    """The digit of each level: its value, and 0 for 10. Where that leaves a level without a digit of its own, all are
    counted from 1, so that a scale never mixes the two.
    """
    digits = {value: DIGITS[(int(value) - 1) % MAX_KEYS] for value in values if value in range(MAX_KEYS + 1)}
    own = [digits.get(value, "") for value in values]
    return own if all(own) and len(set(own)) == len(own) else DIGITS[: len(values)]


def render_guide(criterion: Criterion, language: str, entries: int = 0) -> SafeString:
    """What the guideline says of the criterion (as ``at_subcomponent`` gives it), beside the work; ``entries``: of a
    slate how many it has.
    """
    context = {
        "language": language,
        "name": criterion.name,
        "label": localize(criterion.label, language),
        "question": localize(criterion.question, language),
        "lang": find_language(criterion.question, language),
        "levels": [build_guide_level(level, language) for level in criterion.scale]
        if not criterion.entries
        else [],
        "answers": list_guide_answers(criterion, language, entries),
        "has_options": criterion.kind == "choice",
    }
    return render_to_string("annotation/annotations/_criterion.html", context)


def list_guide_answers(criterion: Criterion, language: str, entries: int) -> list[GuideAnswer]:
    """What may be answered about the entries of a slate."""
    if criterion.entries is None:
        return []
    numbers = tuple(str(position) for position in range(1, entries + 1))
    if criterion.entries == "ranking":
        return [GuideAnswer(numbers, "", gettext("Press them from the best response to the worst."))] + (
            [GuideAnswer((TIE_KEY,), "", gettext("Before a number: it shares the rank of the one before."))]
            if criterion.ties
            else []
        )
    best = gettext("The responses with these numbers are the best.")
    answers = [
        GuideAnswer(
            numbers, "", best if criterion.several else gettext("The response with this number is the best.")
        )
    ]
    without_entry = (
        (TIE, TIE_KEY, criterion.ties, gettext("No response is better than the others.")),
        (NONE, NONE_KEY, criterion.none, gettext("No response is good enough.")),
    )
    for value, key, is_asked, meaning in without_entry:
        level = criterion.level(value) if is_asked else None
        if level:
            is_described = level.definition != level.name
            text = localize(level.definition, language) if is_described else meaning
            answers.append(GuideAnswer((key,), localize(level.name, language), text))
    return answers


def build_question(
    criterion: Criterion, language: str, guide: SafeString, order: Sequence[int] = ()
) -> Question:
    """``order``: of a slate the places of its entries as they are shown."""
    is_text = criterion.kind == "text"
    is_ranking = criterion.entries == "ranking"
    has_cards = not is_text and not is_ranking
    has_cards = has_cards and (criterion.several or len(criterion.values) <= MAX_KEYS)
    return Question(
        name=criterion.name,
        guide_name=strip_turn(criterion.name),
        field=(TEXT if is_text else LABEL) + criterion.name,
        lang=find_language(criterion.question, language),
        label=localize(criterion.label, language),
        question=localize(criterion.question, language),
        cards=(*list_cards(criterion, language, order), *list_other_cards(criterion)) if has_cards else (),
        lowest="" if is_text or is_ranking else str(criterion.values[0]),
        highest="" if is_text or is_ranking else str(criterion.values[-1]),
        typed="",
        guide=guide,
        allows_na=criterion.na,
        is_na=False,
        optional=criterion.optional,
        condition=criterion.asked_if,
        or_condition=criterion.or_if,
        turn=criterion.turn,
        several=criterion.several,
        has_options=criterion.kind == "choice",
        text_limit=criterion.text_limit,
        has_levels=bool(criterion.scale) and criterion.entries is None,
        ties=criterion.ties,
        ranks=tuple(
            RankRow(f"{RANK}{criterion.name}.{place}", place, position)
            for position, place in enumerate(order if is_ranking else (), start=1)
        ),
    )


def choose_answer(question: Question, answer: Any) -> Question:
    """The question with this answer chosen, whatever it is."""
    is_na = answer == NA and question.text_limit is None
    if question.ranks:
        return replace(question, ranks=choose_ranks(question.ranks, answer))
    values = list_chosen_values(question, answer)
    cards = tuple(replace(card, is_chosen=card.value in values) for card in question.cards)
    return replace(question, cards=cards, typed="" if is_na else str(answer), is_na=is_na)


def choose_ranks(ranks: Sequence[RankRow], answer: Any) -> tuple[RankRow, ...]:
    """With the ranks of a ranking, or of a list of them in the slate's order, some of which may be missing."""
    numbers = read_ranking(answer) if isinstance(answer, int) and answer > 0 else answer
    by_place = dict(enumerate(numbers if isinstance(numbers, list | tuple) else (), start=1))
    return tuple(replace(row, rank=str(by_place.get(row.place) or "")) for row in ranks)


def list_chosen_values(question: Question, answer: Any) -> set[str]:
    """The values of the cards that an answer stands for: a level, all options of a set or of their sum, or ``NA``."""
    if question.several and isinstance(answer, int) and answer:
        return {card.value for card in question.cards if card.is_level and int(card.value) & answer}
    parts = answer if isinstance(answer, list) else [answer]
    numbers = [as_number(part) for part in parts]
    return {str(part if number is None else number) for part, number in zip(parts, numbers, strict=True)}


def list_cards(criterion: Criterion, language: str, order: Sequence[int]) -> Iterable[LevelCard]:
    if criterion.entries is None:
        return list_level_cards(criterion, language)
    return list_entry_cards(criterion, language, order)


def list_entry_cards(criterion: Criterion, language: str, order: Sequence[int]) -> Iterable[LevelCard]:
    """The entries of a slate as they are shown, and what names none of them."""
    values = {place: 1 << place - 1 if criterion.several else place for place in order}
    for position, place in enumerate(order, start=1):
        yield build_entry_card(str(position), values[place], gettext("Response {n}").format(n=position))
    for value, key, is_asked in ((TIE, TIE_KEY, criterion.ties), (NONE, NONE_KEY, criterion.none)):
        if is_asked:
            level = criterion.level(value)
            name = localize(level.name, language) if level else ""
            is_described = level is not None and level.definition != level.name
            definition = localize(level.definition, language) if level and is_described else ""
            yield build_entry_card(key, value, name, definition, level.requires if level else ())


def build_entry_card(
    key: str, value: int, name: str, definition: str = "", requires: tuple[str, ...] = ()
) -> LevelCard:
    return LevelCard(key, str(value), name, definition, requires, is_chosen=False, is_option=True)


def list_level_cards(criterion: Criterion, language: str) -> Iterable[LevelCard]:
    keys = DIGITS if criterion.several else level_keys(criterion.values)
    for value, key in zip_longest(criterion.values, keys[: len(criterion.values)], fillvalue=""):
        level = criterion.level(value)
        yield LevelCard(
            key=key,
            value=str(value),
            name=localize(level.name, language) if level else "",
            definition=localize(level.definition, language) if level else "",
            requires=level.requires if level else (),
            is_chosen=False,
            is_option=criterion.kind == "choice",
        )


def list_other_cards(criterion: Criterion) -> Iterable[LevelCard]:
    """What else may be answered; nothing, as long as nobody chose anything. An empty set of options is no answer, so
    that it needs no card.
    """
    if criterion.na:
        yield LevelCard(NA_KEY, NA, gettext("Not applicable"), "", (), is_chosen=False)
    if criterion.optional and not criterion.several:
        yield LevelCard(UNANSWERED_KEY, "", gettext("No answer"), "", (), is_chosen=True)


def build_guide_level(level: Level, language: str) -> GuideLevel:
    return GuideLevel(
        value=str(level.value),
        name=localize(level.name, language),
        definition=localize(level.definition, language),
        requires=level.requires,
        reason=localize(level.reason, language) if level.reason else "",
        examples=tuple(
            ExampleText(
                prompt=localize(example.prompt, language),
                response=localize(example.response, language),
                note=localize(example.note, language) if example.note else "",
            )
            for example in level.examples
        ),
    )
