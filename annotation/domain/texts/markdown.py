"""Markdown (CommonMark 0.31, with GitHub's tables and strikethrough, and LaTeX) as a list of nodes.

Every word knows its place in the source, so that what is marked on the page is exact in the text that was stored.
Whatever is not listed here is shown as it was written; there is no raw HTML and there are no links to follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from annotation.domain.texts.formulas import use_formulas
from annotation.domain.texts.inline import LocatingInline
from annotation.domain.texts.locating import LocatedText, SourceLines


@dataclass(frozen=True, slots=True)
class TextRun:
    """Words as they are read, of the characters ``start`` to ``end`` of the source.

    Where there are as many of them as of the source's, each stands for its own; else the run is marked whole: an
    entity, an escaped sign.
    """

    text: str
    start: int
    end: int

    @property
    def indivisible(self) -> bool:
        return len(self.text) != self.end - self.start


@dataclass(frozen=True, slots=True)
class Formula:
    latex: str
    start: int
    end: int
    display: bool


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is named and never loaded."""

    name: str
    address: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Open:
    """``detail`` is the address of a link whose text is another, the language of code, the number at which a list
    starts, or the side to which a cell is aligned.
    """

    tag: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Close:
    tag: str


Node = TextRun | Formula | Image | Open | Close

# The elements that a page may have of a text, by the parser's names.
_TAG_NAMES = "p h1 h2 h3 h4 h5 h6 blockquote ul ol li table thead tbody tr th td em strong s a hr br pre code"
TAGS = frozenset(_TAG_NAMES.split())


def _build_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    parser.inline = LocatingInline()
    parser.configure("commonmark", options_update={"html": False})
    parser.enable(["table", "strikethrough"])
    # Both would join texts that stand at different places.
    parser.inline.ruler2.disable("fragments_join")
    parser.core.ruler.disable("text_join")
    use_formulas(parser)
    return parser


PARSER = _build_parser()


def read_plain_text(source: str) -> list[Node]:
    return [TextRun(source, 0, len(source))]


_INLINE = frozenset({"em", "strong", "s", "a", "code"})


def read_words(source: str) -> str:
    """The words of a source without its markup, in one line: of a formula its LaTeX, of an image its name."""
    parts: list[str] = []
    for node in read_markdown(source):
        match node:
            case TextRun():
                parts.append(node.text)
            case Formula():
                parts.append(node.latex)
            case Image():
                parts.append(node.name)
            case Open(tag) | Close(tag):
                parts.append("" if tag in _INLINE else " ")
    return " ".join("".join(parts).split())


def read_markdown(source: str) -> list[Node]:
    """The nodes of a source, in their order; runs, formulas and images never overlap in it.

    Raises ``LookupError`` where the place of a word cannot be known.
    """
    reader = _Reader(source)
    return [node for token in PARSER.parse(source) for node in reader.read(token)]


class _Reader:
    """Gives the parser's tokens their places in the source, which hang on what they stand in."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = SourceLines(source)
        self.heading = False
        self.cells: Iterator[LocatedText] | None = None

    def read(self, token: Token) -> Iterator[Node]:
        if token.type == "inline":
            yield from self._read_inline(token)
        elif token.type in {"fence", "code_block"}:
            yield from self._read_code(token)
        elif token.type == "formula_block":
            yield Formula(token.content, *self.lines.locate_block(token.markup, *_get_lines(token)), True)
        elif not token.hidden:
            self._enter(token)
            yield _read_element(token)

    def _enter(self, token: Token) -> None:
        self.heading = token.type == "heading_open" and token.markup.startswith("#")
        if token.type == "tr_open":
            self.cells = self.lines.split_row(_get_lines(token)[0])
        elif token.type == "tr_close":
            self.cells = None

    def _read_inline(self, token: Token) -> Iterator[Node]:
        located = self._locate(token)
        for child in token.children or []:
            match child.type:
                case "text":
                    yield from self._cut(_find_words(child, located))
                case "code_inline":
                    yield Open("code")
                    yield from self._cut(_find_code(child, located))
                    yield Close("code")
                case "text_special":
                    yield TextRun(child.content, *_find_markup(child, child.markup, located))
                case "softbreak":
                    yield self._break_line(located.places[child.meta["at"]])
                case "hardbreak":
                    yield Open("br")
                case "formula":
                    start, end = _find_markup(child, child.markup, located)
                    yield Formula(child.content, start, end, display=child.info == "display")
                case "image":
                    yield _read_image(child, token.children or [], located)
                case _:
                    yield _read_element(child)

    def _locate(self, token: Token) -> LocatedText:
        begin, end = _get_lines(token)
        if self.cells is not None:
            located = self.lines.locate_cell(token.content, self.cells)
        elif self.heading:
            located = self.lines.locate_heading(token.content, begin)
        else:
            located = self.lines.locate(token.content, begin, end)
        return _check(located, token)

    def _read_code(self, token: Token) -> Iterator[Node]:
        begin, end = _get_lines(token)
        content = token.content.removesuffix("\n")
        yield Open("pre", token.info.split(maxsplit=1)[0] if token.info.strip() else "")
        if content:
            located = self.lines.locate(content, begin + (token.type == "fence"), end)
            yield from self._cut(_check(located, token))
        yield Close("pre")

    def _break_line(self, place: int) -> TextRun:
        return TextRun("\n", place, place + (2 if self.source[place : place + 2] == "\r\n" else 1))

    def _cut(self, words: LocatedText) -> Iterator[TextRun]:
        """The words, cut where their places in the source are not one after the other."""
        text, places = words.text, words.places
        start = i = 0
        while i < len(text):
            same = i + 1  # spaces of which a tab is made share its place
            while same < len(text) and places[same] == places[i]:
                same += 1
            if places[same] == places[i] + 1 and same == i + 1:
                i += 1
                continue
            if start < i:
                yield TextRun(text[start:i], places[start], places[i - 1] + 1)
            if self.source[places[i]] in "\r\n":  # in a span of code it is a blank
                at = self._break_line(places[i])
                yield TextRun(text[i], at.start, at.end)
            else:
                yield TextRun(text[i:same], places[i], max(places[same], places[i] + 1))
            start = i = same
        if start < i:
            yield TextRun(text[start:i], places[start], places[i - 1] + 1)


def _find_words(token: Token, located: LocatedText) -> LocatedText:
    """A text; that of an address between angle brackets stands behind the first of them, and may be decoded."""
    at, words = token.meta["at"], token.content
    if located.text.startswith(words, at):
        return LocatedText(words, located.places[at : at + len(words) + 1])
    begin, end = at + 1, located.text.index(">", at)
    if located.text[begin:end] == words:
        return LocatedText(words, located.places[begin : end + 1])
    start, stop = located.places[begin], located.places[end]
    return LocatedText(words, [*[start] * len(words), stop])


def _find_code(token: Token, located: LocatedText) -> LocatedText:
    """Code between backticks, where a line's end is a blank, and a blank at both ends is left out."""
    at = token.meta["at"] + len(token.markup)
    if located.text[at : at + len(token.content)].replace("\n", " ") != token.content:
        at += 1
    return LocatedText(token.content, located.places[at : at + len(token.content) + 1])


def _find_markup(token: Token, markup: str, located: LocatedText) -> tuple[int, int]:
    at = token.meta["at"]
    return located.places[at], located.places[at + len(markup) - 1] + 1


def _read_image(token: Token, tokens: Sequence[Token], located: LocatedText) -> Image:
    """An image ends before what follows it."""
    at = token.meta["at"]
    following = next((other.meta["at"] for other in tokens[tokens.index(token) + 1 :]), len(located.text))
    markup = located.text[at:following].rstrip()
    words = (" " if child.type.endswith("break") else child.content for child in token.children or [])
    name = " ".join("".join(words).split())
    return Image(name, str(token.attrGet("src") or ""), *_find_markup(token, markup, located))


def _read_element(token: Token) -> Node:
    assert token.tag in TAGS, token
    if token.nesting < 0:
        return Close(token.tag)
    attributes = {name: str(value) for name, value in token.attrs.items()}
    aligned = attributes.get("style", "").removeprefix("text-align:")
    address = "" if token.markup == "autolink" else attributes.get("href", "")
    return Open(token.tag, address or attributes.get("start") or aligned)


def _get_lines(token: Token) -> tuple[int, int]:
    assert token.map
    begin, end = token.map
    return begin, end


def _check(located: LocatedText | None, token: Token) -> LocatedText:
    if located is None:
        raise LookupError(f"The place of {token.content!r} in the lines {token.map} is not known.")
    return located
