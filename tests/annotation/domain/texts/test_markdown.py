"""Markdown: rendered as the parser renders it, with the place of every word in the source.

CommonMark's own examples come with the source distribution of markdown-it-py, which ``./run test`` downloads: their
text is not copied here. ``ASSAY_EXAMPLES`` draws more documents than the suite has time for.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt

from annotation.domain.texts import Close, Formula, Image, Open, TextRun, read_markdown, write_html
from tests.annotation.domain.texts.documents import DOCUMENTS, load_specification
from tests.support import examples

_BLOCK_NAMES = "p h1 h2 h3 h4 h5 h6 blockquote ul ol li table thead tbody tr th td hr br pre"
BLOCKS = frozenset(_BLOCK_NAMES.split())
# Formulas are no part of CommonMark: this example of escaped signs holds \[ and \] around a backslash.
FORMULAS = {12}


class Tree(HTMLParser):
    """HTML as a list of tags and texts, without the line ends that stand between blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[Any] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "img":
            self.parts.append(("img", " ".join((values.get("alt") or "").split())))
        elif tag != "code" or self.parts[-1:] != ["<pre"]:
            self.parts.append(f"<{tag}")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"hr", "br", "img"}:
            return
        self.parts.append(f"{tag}>")

    def handle_data(self, data: str) -> None:
        self.parts.append(("text", data))


def read_html(html: str) -> list[Any]:
    tree = Tree()
    tree.feed(html.replace("</code></pre>", "</pre>"))
    tree.close()
    return normalize(tree.parts)


def read_nodes(source: str) -> list[Any]:
    parts: list[Any] = []
    for node in read_markdown(source):
        match node:
            case TextRun():
                parts.append(("text", node.text))
            case Image():
                parts.append(("img", node.name))
            case Open(tag):
                parts.append(f"<{tag}")
            case Close(tag):
                if tag == "pre" and parts[-1] != "<pre":
                    parts.append(("text", "\n"))  # the last line's end, which the page does not need
                parts.append(f"{tag}>")
            case Formula():
                parts.append(("formula", node.latex))
    return normalize(parts)


def normalize(parts: list[Any]) -> list[Any]:
    """Texts joined, without the line ends beside blocks: a page shows none of them."""
    joined: list[Any] = []
    for part in parts:
        if is_text(part) and joined and is_text(joined[-1]):
            joined[-1] = ("text", joined[-1][1] + part[1])
        else:
            joined.append(part)
    around = zip(["<p", *joined], joined, [*joined[1:], "p>"], strict=False)
    trimmed = [
        ("text", trim(part[1], before, after)) if is_text(part) else part for before, part, after in around
    ]
    return [part for part in trimmed if part != ("text", "")]


def trim(text: str, before: Any, after: Any) -> str:
    if is_block(before) and before != "<pre":
        text = text.removeprefix("\n")
    return text.removesuffix("\n") if is_block(after) else text


def is_text(part: Any) -> bool:
    return isinstance(part, tuple) and part[0] == "text"


def is_block(part: Any) -> bool:
    return isinstance(part, str) and part.strip("<>") in BLOCKS


def build_parser(*, html: bool) -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": html}).enable(["table", "strikethrough"])


def check_places(source: str) -> None:
    """Every word stands in the source where its place says, and none stands in two."""
    end = 0
    for node in read_markdown(source):
        if not isinstance(node, TextRun | Formula | Image):
            continue
        assert end <= node.start < node.end <= len(source), (source, node)
        end = node.end
        if isinstance(node, TextRun) and not node.indivisible:
            assert blank(source[node.start : node.end]) == blank(node.text), (source, node)


def blank(text: str) -> str:
    """A line's end in a span of code is shown as a blank, and a tab that stands in part in code as blanks."""
    return "".join(" " if character in "\r\n\t" else character for character in text)


def test_specification_is_rendered_as_the_parser_renders_it() -> None:
    plain = build_parser(html=False)
    for example in load_specification():
        if example["example"] in FORMULAS:
            continue
        source = example["markdown"]
        assert read_nodes(source) == read_html(plain.render(source)), example
        check_places(source)


@pytest.mark.parametrize("signs", ["> ", ">", "- ", "1.  ", "   ", ">\t"])
def test_specification_inside_a_quote_or_a_list(signs: str) -> None:
    parser = build_parser(html=False)
    for example in load_specification():
        first, *following = example["markdown"].split("\n")
        quoted = [signs if ">" in signs else " " * len(signs)] * len(following)
        source = "\n".join(
            [signs + first, *(sign + line for sign, line in zip(quoted, following, strict=True))]
        )
        check_places(source)
        if not any(isinstance(node, Formula) for node in read_markdown(source)):
            assert read_nodes(source) == read_html(parser.render(source)), example


def test_specification_differs_by_raw_html_and_formulas_alone() -> None:
    """Where the rendering is not that of the specification, the example holds HTML or a formula."""
    plain, raw = build_parser(html=False), build_parser(html=True)
    differing = {
        example["example"]
        for example in load_specification()
        if read_nodes(example["markdown"]) != read_html(example["html"])
    }
    with_html = {
        example["example"]
        for example in load_specification()
        if plain.render(example["markdown"]) != raw.render(example["markdown"])
    }
    assert differing == with_html | FORMULAS
    assert (len(load_specification()), len(with_html)) == (652, 72)  # as docs/texts.md says


@settings(max_examples=examples(400), deadline=None)
@given(DOCUMENTS)
def test_words_of_any_document_stand_where_they_say(source: str) -> None:
    check_places(source)


@settings(max_examples=examples(400), deadline=None)
@given(DOCUMENTS)
def test_any_document_without_formulas_is_rendered_as_the_parser_renders_it(source: str) -> None:
    if any(isinstance(node, Formula) for node in read_markdown(source)):
        return
    normalized = source.replace("\r\n", "\n").replace("\r", "\n")
    assert read_nodes(source) == read_html(build_parser(html=False).render(normalized))


class Places(HTMLParser):
    """The words inside each element that bears a place, by that place."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: dict[int, str] = {}
        self._open: list[int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = dict(attrs).get("data-at")
        place = None if at is None else int(at)
        if place is not None:
            self.words[place] = ""
        if tag not in {"br", "hr"}:
            self._open.append(place)

    def handle_endtag(self, _tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for place in self._open:
            if place is not None:
                self.words[place] += data


@settings(max_examples=examples(400), deadline=None)
@given(DOCUMENTS)
@hypothesis.example("first\\\nsecond")
@hypothesis.example("first  \nsecond\n\n---\nthird")
def test_the_element_that_bears_a_place_holds_the_words_of_it(source: str) -> None:
    nodes = read_markdown(source)
    places = Places()
    places.feed(write_html(nodes, image="Image:"))
    places.close()
    for node in nodes:
        if isinstance(node, TextRun):
            assert places.words[node.start] == node.text.replace("\r\n", "\n"), source
