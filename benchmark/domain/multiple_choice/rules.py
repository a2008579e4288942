"""The rules, and what they make of an answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmark.domain.multiple_choice.answer import NEED_CHECK, OTHER, REFUSE, AnswerOption, ParsedChoice
from benchmark.domain.multiple_choice.phrases import (
    ANNOUNCED,
    AS_CHOICE,
    BAD,
    BAD_LABEL,
    BARE,
    BEFORE,
    BEFORE_ZH,
    BOTH,
    EITHER,
    FOLLOW_UP,
    HAS_CJK,
    HAS_WORD,
    HEDGED,
    LISTED,
    MAX_LABEL_CHARACTERS,
    MAY_BE_BOTH,
    MAY_REFUSE,
    MENTION,
    NAMES_OPTION,
    NEGATED,
    NO_OPINION,
    ONLY_IF,
    REFUSES,
    RETRACTS,
    STATEMENTS,
    STATEMENTS_ZH,
    TAKEN_BACK,
)
from benchmark.domain.multiple_choice.text import mark_options, normalize_text, remove_quotes, remove_thought

MAX_ANSWER_CHARACTERS = 100_000
"""An answer of more characters is no answer to such a question."""


def parse_choice(answer: str, options: tuple[AnswerOption, AnswerOption]) -> ParsedChoice:
    """What ``answer`` chose of the two ``options``, which the prompt showed in this order."""
    reply = remove_thought(answer)
    if reply is None or len(reply) > MAX_ANSWER_CHARACTERS:
        return ParsedChoice(NEED_CHECK, "unread")
    plain = normalize_text(reply)
    if not plain:
        return ParsedChoice(NEED_CHECK, "empty")
    masked, quoted = remove_quotes(plain, options)
    text = mark_options(masked, options)
    if len(quoted) > 1:  # the question said again
        text = LISTED.sub("", text)
    mentions = _list_mentions(text, quoted)
    rules_by_choice = {AS_CHOICE[place]: rule for place, rule in reversed(mentions)}
    if OTHER in rules_by_choice:
        rules_by_choice[OTHER] = "third_option"
    both = BOTH.search(text) if any(word in text for word in MAY_BE_BOTH) else None
    refuses = REFUSES.search(text) if any(word in text for word in MAY_REFUSE) else None
    if both:
        rules_by_choice[OTHER] = "both_or_neither"
    if refuses:
        rules_by_choice[REFUSE] = "refuses"
    none = NO_OPINION.search(text) if not rules_by_choice else None
    if none:
        rules_by_choice[REFUSE] = "no_opinion"
    is_taken_back = bool(mentions) and any(map(RETRACTS.match, text.split("|")[1:]))
    none = both or refuses or none
    if (
        len(rules_by_choice) > 1
        or is_taken_back
        or _is_misquoted(mentions, quoted)
        or _is_leaning(text, none)
    ):
        return ParsedChoice(NEED_CHECK, "contradicts")
    return next(
        (ParsedChoice(choice, rule) for choice, rule in rules_by_choice.items()),
        ParsedChoice(NEED_CHECK, "unread"),
    )


def _is_leaning(text: str, none: re.Match[str] | None) -> bool:
    """Whether it chooses none, and names a single option after that."""
    if none is None:
        return False
    ends = text.find("|", none.end())
    return ends >= 0 and len(set(MENTION.findall(text, ends))) == 1


def _list_mentions(text: str, quoted: frozenset[int]) -> list[tuple[int, str]]:
    """(Which option, by which rule), the clearest word first."""
    clauses = text.split("|")
    statements = _list_statements(text, clauses) if "⟪" in text or quoted else []
    return [
        *statements,
        *((place, "letter") for place in _list_bare_options(clauses)),
        *_list_quotes(clauses, quoted),
    ]


def _list_statements(text: str, clauses: Sequence[str]) -> list[tuple[int, str]]:
    in_english, in_chinese = HAS_WORD.search(text), HAS_CJK.search(text)
    rules = (STATEMENTS if in_english else ()) + (STATEMENTS_ZH if in_chinese else ())
    statements = []
    for at, clause in enumerate(clauses):
        if not NAMES_OPTION.search(clause) or _is_uncertain(clauses, at):
            continue
        # What announces an option may stand before it as a label.
        is_labelled = at > 0 and NAMES_OPTION.match(clause) and not _is_uncertain(clauses, at - 1)
        before = clauses[at - 1] if is_labelled else ""
        passage = f"{before}|{clause}"
        statements += [
            (place, rule)
            for rule, pattern in rules
            for match in pattern.finditer(passage)
            if match.end() > len(before)
            and (place := _find_option(match, passage, clauses[at + 1 :])) is not None
        ]
    return statements


def _is_uncertain(clauses: Sequence[str], at: int) -> bool:
    """A condition, what follows from one, or what names the options as alternatives."""
    is_condition = ONLY_IF.match(clauses[at]) or (at and ONLY_IF.match(clauses[at - 1]))
    return bool(is_condition or EITHER.search(clauses[at]))


def _find_option(match: re.Match[str], text: str, after: Sequence[str]) -> int | None:
    """Which option; None where the clause denies it, leaves it open, or reports what other people say."""
    begins = text.rfind("|", 0, match.start() + 1) + 1
    before = text[begins : match.start()]
    then = text[match.end() :]
    place = int(next(group for group in match.groups() if group is not None))
    if NEGATED.search(before) or not _is_own(before) or not FOLLOW_UP.match(then):
        return None
    if after:
        if ONLY_IF.match(after[0]):
            return None
        if HEDGED.search(match[0]) and TAKEN_BACK.match(after[0]):
            return None
        bare = BARE.fullmatch(after[0])
        if bare and int(bare[1] or bare[2]) != place:
            return None
    return place


def _is_own(before: str) -> bool:
    """Whether what stands before a choice in its clause leaves it the speaker's own."""
    return all(
        word in BEFORE if word.isascii() else BEFORE_ZH.fullmatch(word) or MENTION.fullmatch(word)
        for word in before.split()
    )


def _list_bare_options(clauses: Sequence[str]) -> list[int]:
    """The option that stands alone in the first or the last clause, the only one that stands so anywhere."""
    bare_options = {
        at: int(match[1] or match[2])
        for at, clause in enumerate(clauses)
        if "⟪" in clause and (match := BARE.fullmatch(clause))
    }
    if len(set(bare_options.values())) != 1:
        return []
    last = len(clauses) - 1
    for at, place in bare_options.items():
        denied = at < last and BAD.match(clauses[at + 1])
        if at in (0, last) and not denied and not (at and _is_bad_label(clauses[at - 1])):
            return [place]
    return []


def _is_bad_label(clause: str) -> bool:
    """``worst: A`` is no choice of A."""
    return len(clause) <= MAX_LABEL_CHARACTERS and BAD_LABEL.search(clause) is not None


def _list_quotes(clauses: Sequence[str], quoted: frozenset[int]) -> list[tuple[int, str]]:
    """The option whose text is the whole answer, but for words that announce it."""
    if len(quoted) != 1:
        return []
    rest = (re.sub(r"⟦\d⟧", "", clause) for clause in clauses)
    return [(next(iter(quoted)), "quotes")] if all(map(ANNOUNCED.fullmatch, rest)) else []


def _is_misquoted(mentions: Sequence[tuple[int, str]], quoted: frozenset[int]) -> bool:
    """It names one option and quotes only the other."""
    return len(quoted) == 1 and any(place not in quoted for place, _rule in mentions)
