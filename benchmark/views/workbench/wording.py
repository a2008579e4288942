"""The names of a campaign's cells, methods and classes in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import get_language

from annotation.domain.guidelines import GuidelineDocument, find_language, localize
from annotation.domain.guidelines.document import Dimension, Subcomponent
from annotation.models import Prompt
from benchmark.domain.workbench.campaigns import Classification
from benchmark.models import AttackMethod


def read_text(words: Mapping[str, str]) -> str:
    """In the reader's language, else in one that there is."""
    return localize(words, get_language() or "en") if words else ""


@dataclass(frozen=True)
class MethodCard:
    """An attack method as its page explains it; ``lang`` is the language of its texts."""

    name: str
    label: str
    definition: str
    examples: tuple[str, ...]
    lang: str


def build_method_cards(methods: Sequence[AttackMethod]) -> list[MethodCard]:
    return [
        MethodCard(
            name=method.name,
            label=read_text(method.label) or method.name,
            definition=read_text(method.definition),
            examples=tuple(filter(None, read_text(method.examples).splitlines())),
            lang=find_language(method.definition, get_language() or "en"),
        )
        for method in methods
    ]


def place_label(document: GuidelineDocument, dimension: str, subcomponent: str) -> str:
    """``Fairness / Toxic language`` in the reader's language."""
    topic = document.list_topic(dimension, subcomponent)
    words = [read_text(part.label) for part in topic] or [part for part in (dimension, subcomponent) if part]
    return " / ".join(words) or "-"


def list_places(document: GuidelineDocument) -> list[tuple[str, list[tuple[tuple[str, str], str]]]]:
    """By the dimension's label: each of its places, (dimension, subcomponent), with its label."""
    if not document.dimensions:
        return [("-", [(("", ""), "-")])]
    return [
        (
            read_text(dimension.label),
            [((dimension.name, part.name), read_text(part.label)) for part in dimension.subcomponents]
            or [((dimension.name, ""), read_text(dimension.label))],
        )
        for dimension in document.dimensions
    ]


@dataclass(frozen=True)
class TopicCard:
    """A dimension with its subcomponents, or a subcomponent, as the guideline defines it."""

    label: str
    definition: str
    lang: str
    parts: tuple[TopicCard, ...] = ()


def build_topic_cards(document: GuidelineDocument) -> list[TopicCard]:
    language = get_language() or "en"

    def build(topic: Dimension | Subcomponent, parts: tuple[TopicCard, ...] = ()) -> TopicCard:
        lang = find_language(topic.definition, language)
        return TopicCard(read_text(topic.label), read_text(topic.definition), lang, parts)

    return [
        build(dimension, tuple(build(part) for part in dimension.subcomponents))
        for dimension in document.dimensions
    ]


@dataclass(frozen=True)
class ClassWord:
    """A field of a classification in words; ``differs`` from the other one that it stands beside."""

    name: str
    text: str
    differs: bool


def describe_classification(
    classification: Classification,
    document: GuidelineDocument,
    methods: Sequence[AttackMethod],
    other: Classification | None = None,
) -> list[ClassWord]:
    labels = {method.name: read_text(method.label) or method.name for method in methods}
    differences = set(classification.list_differences(other)) if other is not None else set()
    malice = dict(Prompt.Malice.choices)
    return [
        ClassWord(
            "place",
            place_label(document, classification.dimension, classification.subcomponent),
            bool(differences & {"dimension", "subcomponent"}),
        ),
        ClassWord(
            "method", labels.get(classification.method, classification.method), "method" in differences
        ),
        ClassWord("malice", str(malice.get(classification.malice, "-")), "malice" in differences),
    ]
