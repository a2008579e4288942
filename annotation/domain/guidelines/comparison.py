"""What changed between two versions of a guideline, clause by clause and word by word. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from annotation.domain.guidelines.criteria import Criterion, LevelExample
from annotation.domain.guidelines.document import Dimension, GuidelineDocument
from annotation.domain.guidelines.metrics import Metric
from annotation.domain.guidelines.values import localize

Change: TypeAlias = Literal["added", "removed", "changed", "same"]
Kind: TypeAlias = Literal[
    "document", "introduction", "dimension", "subcomponent", "criterion", "level", "example", "metric"
]
Key: TypeAlias = tuple[str, ...]
Say: TypeAlias = Callable[[str], str]

# Chinese and Japanese are compared character by character, everything else word by word.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])\w)+|\s+|.", re.DOTALL)
# What two texts may share by chance: between two changes it is no island of sense.
_SLIGHT = re.compile(rf"[{_CJK}]?[\W_]*")
# Time grows with the product of the lengths: longer texts are shown whole, one after the other.
MAX_TOKENS = 6000
# Paragraphs and examples have no names. Two that share this much are the same one, reworded.
MIN_SIMILARITY = 0.5


@dataclass(frozen=True)
class TextPiece:
    """A piece of a text: in both versions (``same``), in the old one only, or in the new one only."""

    change: Change
    text: str


@dataclass(frozen=True)
class ComparedField:
    name: str
    pieces: tuple[TextPiece, ...]

    @property
    def old(self) -> tuple[TextPiece, ...]:
        return tuple(piece for piece in self.pieces if piece.change != "added")

    @property
    def new(self) -> tuple[TextPiece, ...]:
        return tuple(piece for piece in self.pieces if piece.change != "removed")

    @property
    def changed(self) -> bool:
        return any(piece.change != "same" for piece in self.pieces)


@dataclass(frozen=True)
class ComparedClause:
    """A part of the guideline. ``criterion`` and ``level`` name the one that it belongs to; notes name theirs so.

    ``section`` is the key of the clauses that stand together: ("introduction",), ("criterion", NAME) and so on.
    """

    kind: Kind
    section: Key
    label: str
    change: Change
    fields: tuple[ComparedField, ...]
    criterion: str = ""
    level: int | float | None = None


@dataclass(frozen=True)
class GuidelineComparison:
    clauses: tuple[ComparedClause, ...]
    reordered: bool
    """Whether clauses that both versions have stand in another order."""

    def count(self, change: Change) -> int:
        return sum(clause.change == change for clause in self.clauses)

    @property
    def changes(self) -> int:
        return len(self.clauses) - self.count("same")

    def sections(self) -> list[tuple[Key, list[ComparedClause]]]:
        """The clauses by the section they stand in, in reading order."""
        sections: dict[Key, list[ComparedClause]] = {}
        for clause in self.clauses:
            sections.setdefault(clause.section, []).append(clause)
        return list(sections.items())


@dataclass(frozen=True)
class _WrittenClause:
    """A clause of one version, its fields as texts in one language; a field that is not given is left out."""

    kind: Kind
    section: Key
    label: str
    fields: Mapping[str, str]
    criterion: str = ""
    level: int | float | None = None


def compare(
    old: GuidelineDocument, new: GuidelineDocument, language: str, say: Say = str
) -> GuidelineComparison:
    """Every clause of either version, in the order of the new one; what is gone stands after what it followed.

    Texts are taken in ``language``. ``say`` gives the words of what is written as a code, such as ``ordinal``.
    """
    before, after = (dict(_list_clauses(document, language, say)) for document in (old, new))
    _join_unnamed(before, after, "introduction", ())
    for owner in [key for key in after if key[0] == "level" and key in before]:
        _join_unnamed(before, after, "example", owner[1:])
    old_keys, new_keys = list(before), list(after)
    common = [key for key in old_keys if key in after]
    clauses = tuple(
        _compare_clause(before.get(key), after.get(key)) for key in _merge_keys(old_keys, new_keys)
    )
    return GuidelineComparison(clauses, reordered=common != [key for key in new_keys if key in before])


def text_pieces(old: str, new: str) -> tuple[TextPiece, ...]:
    """The pieces of both in order: without the added ones they join to ``old``, without the removed to ``new``."""
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    if max(len(before), len(after)) > MAX_TOKENS:
        return _build_pieces([(old, new)])
    runs: list[tuple[str, str]] = []
    for tag, i, j, k, l in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():  # noqa: E741
        run = "".join(before[i:j]), "".join(after[k:l])
        # Two changes with next to nothing between them read as one.
        if tag != "equal" and len(runs) > 1 and _SLIGHT.fullmatch(runs[-1][0]) and runs[-1][0] == runs[-1][1]:
            between, first = runs.pop(), runs.pop()
            run = first[0] + between[0] + run[0], first[1] + between[1] + run[1]
        runs.append(run)
    return _build_pieces(runs)


def _build_pieces(runs: Iterable[tuple[str, str]]) -> tuple[TextPiece, ...]:
    pieces: list[TextPiece] = []
    for old, new in runs:
        if old == new:
            pieces.append(TextPiece("same", old))
        else:
            pieces += [TextPiece("removed", old), TextPiece("added", new)]
    return tuple(piece for piece in pieces if piece.text)


def _compare_clause(old: _WrittenClause | None, new: _WrittenClause | None) -> ComparedClause:
    clause = new or old
    assert clause is not None, "a key comes from one of the versions"
    before, after = (version.fields if version else {} for version in (old, new))
    names = [*after, *(name for name in before if name not in after)]
    fields = tuple(
        ComparedField(name, text_pieces(before.get(name, ""), after.get(name, ""))) for name in names
    )
    change: Change = "same"
    if old is None or new is None:
        change = "added" if old is None else "removed"
    elif any(field.changed for field in fields):
        change = "changed"
    return ComparedClause(
        clause.kind, clause.section, clause.label, change, fields, clause.criterion, clause.level
    )


def _merge_keys(old: Sequence[Key], new: Sequence[Key]) -> list[Key]:
    order, known = list(new), set(new)
    for place, key in enumerate(old):
        if key not in known:
            order.insert(order.index(old[place - 1]) + 1 if place else 0, key)
    return order


# What has no name: paragraphs and examples are the same where they are alike.


def _join_unnamed(
    before: dict[Key, _WrittenClause], after: dict[Key, _WrittenClause], kind: str, owner: Key
) -> None:
    """Give the old clauses of this kind the keys of the new ones that they became."""
    start = (kind, *owner)
    old_keys, new_keys = ([key for key in clauses if key[:-1] == start] for clauses in (before, after))
    places = _find_partners(
        [_get_text(before[key]) for key in old_keys], [_get_text(after[key]) for key in new_keys]
    )
    named = {
        key: new_keys[at] if at is not None else (*key, "gone")
        for key, at in zip(old_keys, places, strict=True)
    }
    renamed = {named.get(key, key): written for key, written in before.items()}
    before.clear()
    before.update(renamed)


def _get_text(written: _WrittenClause) -> str:
    return "\n".join(written.fields.values())


def _find_partners(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each old text the place of the new one it became, never crossing; None for one that is gone."""
    places: list[int | None] = []
    for tag, i, j, k, l in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():  # noqa: E741
        if tag == "equal":
            places += range(k, l)
            continue
        free = k
        for text in old[i:j]:
            at = next((place for place in range(free, l) if _is_similar(text, new[place])), None)
            places.append(at)
            free = free if at is None else at + 1
    return places


def _is_similar(old: str, new: str) -> bool:
    before, after = (_TOKEN.findall(text)[:MAX_TOKENS] for text in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return matcher.quick_ratio() >= MIN_SIMILARITY and matcher.ratio() >= MIN_SIMILARITY


# A version as clauses, each with a key that it has in every version.


def _list_clauses(
    document: GuidelineDocument, language: str, say: Say
) -> Iterator[tuple[Key, _WrittenClause]]:
    yield from _list_head_clauses(document, language)
    for number, line in enumerate(filter(str.strip, localize(document.introduction, language).splitlines())):
        yield (
            ("introduction", str(number)),
            _WrittenClause("introduction", ("introduction",), "", {"text": line.strip()}),
        )
    for dimension in document.dimensions:
        yield from _list_dimension_clauses(dimension, language, say)
    for criterion in document.criteria:
        yield from _list_criterion_clauses(document, criterion, language, say)
    for metric in document.metrics:
        label = localize(metric.label, language)
        yield (
            ("metric", metric.name),
            _WrittenClause("metric", ("metrics",), label, _list_metric_texts(metric, label, say)),
        )


def _list_head_clauses(document: GuidelineDocument, language: str) -> Iterator[tuple[Key, _WrittenClause]]:
    fields = {
        "title": localize(document.title, language),
        "source": document.source,
        "languages": _join_parts(document.languages),
        "rank_by": document.rank_by,
        **({"scorer_template": document.scorer_template} if document.scorer_template else {}),
    }
    yield ("document",), _WrittenClause("document", ("document",), fields["title"], fields)


def _list_dimension_clauses(
    dimension: Dimension, language: str, say: Say
) -> Iterator[tuple[Key, _WrittenClause]]:
    label = localize(dimension.label, language)
    fields = {
        "label": label,
        "definition": localize(dimension.definition, language),
        "severity": say(f"severity {dimension.severity}"),
    }
    yield ("dimension", dimension.name), _WrittenClause("dimension", ("dimensions",), label, fields)
    for part in dimension.subcomponents:
        named = localize(part.label, language)
        inside = {"label": named, "definition": localize(part.definition, language)}
        key = ("subcomponent", dimension.name, part.name)
        yield key, _WrittenClause("subcomponent", ("dimensions",), f"{label} / {named}", inside)


def _list_criterion_clauses(
    document: GuidelineDocument, criterion: Criterion, language: str, say: Say
) -> Iterator[tuple[Key, _WrittenClause]]:
    name, section = criterion.name, ("criterion", criterion.name)
    fields = _list_criterion_texts(document, criterion, language, say)
    yield section, _WrittenClause("criterion", section, fields["label"], fields, name)
    for level in criterion.scale:
        value = level.value
        named = localize(level.name, language)
        inside = {"name": named, "definition": localize(level.definition, language)}
        if level.reason is not None:
            inside["reason"] = localize(level.reason, language)
        if level.requires:
            inside["requires"] = _join_parts(map(say, level.requires))
        place = (name, f"{value:g}")
        heading = f"{value:g} {named}"
        yield ("level", *place), _WrittenClause("level", section, heading, inside, name, value)
        for number, example in enumerate(level.examples):
            texts = _list_example_texts(example, language)
            if example.subcomponent is not None:
                label = document.label_subcomponent(criterion, example.subcomponent)
                texts["subcomponent"] = localize(label, language)
            written = _WrittenClause("example", section, heading, texts, name, value)
            yield ("example", *place, str(number)), written
        for part in level.subcomponents:
            label = document.label_subcomponent(criterion, part.name)
            written = _WrittenClause(
                "level",
                section,
                f"{heading} / {localize(label, language)}",
                {"definition": localize(part.definition, language)},
                name,
                value,
            )
            yield ("level", *place, part.name), written


def _list_criterion_texts(
    document: GuidelineDocument, criterion: Criterion, language: str, say: Say
) -> dict[str, str]:
    fields = {
        "label": localize(criterion.label, language),
        "question": localize(criterion.question, language),
        "applies_to": _describe_scope(document, criterion, language, say),
        "measurement": say(criterion.measurement if criterion.kind == "level" else criterion.kind),
    }
    if criterion.range is not None:
        fields["range"] = f"{criterion.range.min} - {criterion.range.max}"
    if criterion.asked_if is not None:
        condition = criterion.asked_if
        first = document.criterion(condition.criterion)
        fields["asked_if"] = f"{localize(first.label, language)} {condition.sign} {condition.value}"
    fields |= {name: say("allowed") for name in ("several", "na", "optional") if getattr(criterion, name)}
    fields |= {
        name: str(value)
        for name in ("tolerance", "per_turn", "max_length")
        if (value := getattr(criterion, name)) is not None
    }
    return fields


def _describe_scope(document: GuidelineDocument, criterion: Criterion, language: str, say: Say) -> str:
    if criterion.applies_to == "all":
        return say("all")
    dimensions = [
        dimension for dimension in document.dimensions if dimension.name in criterion.applies_to.dimensions
    ]
    subcomponents = [
        localize(document.label_subcomponent(criterion, name), language)
        for name in criterion.applies_to.subcomponents
    ]
    return _join_parts([*(localize(dimension.label, language) for dimension in dimensions), *subcomponents])


def _list_example_texts(example: LevelExample, language: str) -> dict[str, str]:
    texts = {"prompt": example.prompt, "response": example.response, "note": example.note}
    return {name: localize(text, language) for name, text in texts.items() if text is not None}


def _list_metric_texts(metric: Metric, label: str, say: Say) -> dict[str, str]:
    fields = {"label": label, "kind": say(metric.kind), "overall": say(metric.overall)}
    if isinstance(metric.levels, dict):
        fields["levels"] = "; ".join(
            f"{name}: {_join_parts(levels)}" for name, levels in metric.levels.items()
        )
    elif metric.levels is not None:
        fields["levels"] = _join_parts(metric.levels)
    if metric.formula is not None:
        fields["formula"] = metric.formula
    if metric.better != "higher":
        fields["better"] = say(metric.better)
    for name, scope in (("dimensions", metric.dimensions), ("criteria", metric.criteria)):
        if scope is not None:
            fields[name] = _join_parts(scope)
    return fields


def _join_parts(parts: Iterable[object]) -> str:
    return ", ".join(map(str, parts))
