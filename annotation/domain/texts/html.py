"""A text as HTML, of known elements and attributes alone; nothing in it loads, links or runs anything.

``data-at`` is where a run begins in the source, in code points, and ``data-to`` where one that is marked whole ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import zip_longest

from annotation.domain.texts.formulas import convert_formula
from annotation.domain.texts.markdown import Close, Formula, Image, Node, Open, TextRun

# Draws a part of a text, given its HTML and where it stands: a page adds marks.
Part = TextRun | Formula | Image
Draw = Callable[[str, Part], str]

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# A page has its own first level.
_FIRST_LEVEL = 2
_ALIGNMENTS = frozenset({"left", "center", "right"})


def escape_words(words: str) -> str:
    """A bare carriage return would arrive as a line feed, and move the places after it."""
    return escape(words).replace("\r", "&#13;")


def draw_plainly(html: str, _part: Part) -> str:
    return html


def write_html(nodes: Sequence[Node], *, image: str, draw: Draw = draw_plainly) -> str:
    """The nodes as HTML. ``image`` says in the reader's language that an image is named; ``draw`` may add marks."""
    levels = rank_headings(nodes)
    parts: list[str] = []
    rest = iter(zip_longest(nodes, nodes[1:], nodes[2:]))
    for node, following, after in rest:
        if isinstance(node, Open) and isinstance(following, TextRun) and after == Close(node.tag):
            # An element that holds one run is the run: a page of fewer elements is there sooner.
            opened = _open(node, levels)
            parts.append(f"{opened[:-1]}{_write_place(following)}>{_draw_run(following, draw)}")
            next(rest)
        else:
            parts.append(_write(node, levels, image, draw))
    return "".join(parts)


def rank_headings(nodes: Iterable[Node]) -> dict[str, int]:
    """The levels of the headings that there are, without gaps, below the page's own."""
    tags = sorted({node.tag for node in nodes if isinstance(node, Open) and node.tag in _HEADINGS})
    return {tag: level for level, tag in enumerate(tags, _FIRST_LEVEL)}


def _write(node: Node, levels: dict[str, int], image: str, draw: Draw) -> str:
    match node:
        case TextRun():
            return f"<span{_write_place(node)}>{_draw_run(node, draw)}</span>"
        case Formula():
            return _write_formula(node, draw)
        case Image():
            words = f"{image} {node.name} ({node.address})" if node.name else f"{image} ({node.address})"
            return _write_object("md-image", draw(escape_words(words), node), node)
        case Open():
            return _open(node, levels)
        case Close(tag):
            return _CLOSED.get(tag, f"</{tag}>")


def _write_place(run: TextRun) -> str:
    return f' data-at="{run.start}"' + (f' data-to="{run.end}"' if run.indivisible else "")


def _draw_run(run: TextRun, draw: Draw) -> str:
    return draw(escape_words(run.text), run)


def _write_formula(formula: Formula, draw: Draw) -> str:
    converted = convert_formula(formula.latex, display=formula.display)
    html = converted or f"<code>{escape_words(formula.latex)}</code>"
    name = "md-formula md-formula--display" if formula.display else "md-formula"
    return _write_object(name, draw(html, formula), formula)


def _write_object(name: str, html: str, part: Formula | Image) -> str:
    return f'<span class="{name}" data-at="{part.start}" data-to="{part.end}">{html}</span>'


_CLOSED = {
    "a": "</span>",
    "pre": "</code></pre>",
    "table": "</table></div>",
    **dict.fromkeys(_HEADINGS, "</div>"),
}


def _open(node: Open, levels: dict[str, int]) -> str:
    tag, detail = node.tag, escape(node.detail)
    if tag in levels:
        return f'<div class="md-{tag}" role="heading" aria-level="{levels[tag]}">'
    match tag:
        case "a":
            opened = f'<span class="md-link" data-address="{detail}">' if detail else '<span class="md-link">'
        case "pre":
            opened = f'<pre data-language="{detail}"><code>' if detail else "<pre><code>"
        case "table":
            opened = '<div class="md-table" tabindex="0"><table>'
        case "ol" if detail.isdigit():
            opened = f'<ol start="{detail}">'
        case "th" | "td" if detail in _ALIGNMENTS:
            opened = f'<{tag} class="md-{detail}">'
        case _:
            opened = f"<{tag}>"
    return opened
