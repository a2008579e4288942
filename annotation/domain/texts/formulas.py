"""LaTeX in Markdown: where a formula stands, and what it is in MathML.

Formulas are what stands between ``$``, ``$$``, ``\\(`` and ``\\)``, ``\\[`` and ``\\]``. A single dollar is a price
where a blank follows it, and where a blank goes before the closing one or a digit follows it (the rule of Pandoc).
"""

from __future__ import annotations

import re
from html import escape, unescape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

# Longer ones are shown as their source: they are no formulas that anybody wrote, and take long to convert.
MAX_CHARACTERS = 2000
# A page draws what nests deeper badly, and a parser may run out of its stack.
MAX_DEPTH = 60

_INLINE = re.compile(
    r"\$\$(?P<double>(?:[^$\\]|\\.)++)\$\$"
    r"|\$(?![\s$])(?P<single>(?:[^$\\\n]|\\.)++)(?<!\s)\$(?!\d)"
    r"|\\\((?P<round>(?:[^\\]|\\[^()])++)\\\)"
    r"|\\\[(?P<square>(?:[^\\]|\\[^\[\]])++)\\\]",
    re.DOTALL,
)
_DISPLAYED = frozenset({"double", "square"})
_BLOCK_CLOSERS = {"$$": "$$", "\\[": "\\]"}

# Presentation MathML (MathML Core, W3C), less links, actions and whatever may name an address or a style.
_ELEMENT_NAMES = """
math mrow mi mn mo mtext mspace ms mfrac msqrt mroot mstyle mpadded mphantom menclose merror msub msup msubsup munder
mover munderover mmultiscripts mprescripts none mtable mtr mtd
"""
_ATTRIBUTE_NAMES = """
accent accentunder columnalign columnlines columnspacing columnspan depth display displaystyle fence form height
linethickness lspace mathsize mathvariant maxsize minsize movablelimits notation rowlines rowspacing rowspan rspace
scriptlevel separator stretchy symmetric voffset width
"""
_ELEMENTS = frozenset(_ELEMENT_NAMES.split())
_ATTRIBUTES = frozenset(_ATTRIBUTE_NAMES.split())


def use_formulas(parser: MarkdownIt) -> None:
    """Teach the parser formulas: tokens ``formula``, and ``formula_block`` with the lines it takes."""
    parser.inline.ruler.before("escape", "formula", _read_inline)
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "formula_block", _read_block, interrupts)


def _read_inline(state: StateInline, silent: bool) -> bool:
    match = _INLINE.match(state.src, state.pos, state.posMax)
    if match is None or not match[match.lastgroup or 0].strip():
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content = match[match.lastgroup or 0].strip()
        token.markup = match[0]
        token.info = "display" if match.lastgroup in _DISPLAYED else ""
    state.pos = match.end()
    return True


def _read_block(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    start = state.bMarks[begin] + state.tShift[begin]
    opener = state.src[start : start + 2]
    if opener not in _BLOCK_CLOSERS or state.is_code_block(begin):
        return False
    closer = _BLOCK_CLOSERS[opener]
    last = _find_last_line(state, begin, end, opener, closer)
    if last is None:
        return False
    if not silent:
        token = state.push("formula_block", "", 0)
        lines = state.getLines(begin, last + 1, state.blkIndent, False).strip()
        token.content = lines.removeprefix(opener).removesuffix(closer).strip()
        token.markup = opener
        token.map = [begin, last + 1]
        state.line = last + 1
    return True


def _find_last_line(state: StateBlock, begin: int, end: int, opener: str, closer: str) -> int | None:
    """The line that ends with the closer; None where something else comes first, such as an empty line."""
    for number in range(begin, end):
        text = state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()
        body = text.removeprefix(opener) if number == begin else text
        outside = number > begin and state.sCount[number] < state.blkIndent
        if outside or not (text and opener not in body.removesuffix(closer) and closer not in body[:-2]):
            return None
        if body.endswith(closer) and (number > begin or body.removesuffix(closer).strip()):
            return number
    return None


def convert_formula(latex: str, *, display: bool) -> str | None:
    """A formula in MathML, of known elements and attributes alone; None where it is none that can be converted."""
    if len(latex) > MAX_CHARACTERS or _measure_depth(latex) > MAX_DEPTH:
        return None
    try:
        root = convert_to_element(latex, display="block" if display else "inline")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, StopIteration):
        return None  # whatever the converter meets in what is no LaTeX
    except Exception as error:  # its own errors have no class in common
        if type(error).__module__.startswith("latex2mathml."):
            return None
        raise
    return _write(root, latex)


def _measure_depth(latex: str) -> int:
    depth = deepest = 0
    for character in latex:
        depth += (character == "{") - (character == "}")
        deepest = max(deepest, depth)
    return max(deepest, latex.count("\\left"), latex.count("\\begin"))


def _write(element: Element, latex: str = "") -> str:
    name = element.tag.rpartition("}")[2]
    # The converter writes characters as entities, which would be escaped once more.
    inner = escape(unescape(element.text or "")) + "".join(_write(child) for child in element)
    if name not in _ELEMENTS:
        return inner
    attributes = "".join(
        f' {key}="{escape(value)}"' for key, value in element.attrib.items() if key in _ATTRIBUTES
    )
    if name == "math":
        attributes += f' alttext="{escape(latex)}"'
    return f"<{name}{attributes}>{inner}</{name}>"
