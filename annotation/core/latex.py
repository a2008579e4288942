"""LaTeX as text: escaping, and a table with the rules of the booktabs package. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{EN DASH}": "--",
    "\N{DAGGER}": r"\dag{}",
    "\N{GREEK SMALL LETTER LAMDA}": r"$\lambda$",
}
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""Around a tabular: what is wider than the lines is made as wide as they are."""
_SPECIAL = re.compile("|".join(map(re.escape, SPECIAL)))
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")


def escape_latex(text: str) -> str:
    """The text so that LaTeX prints it; line ends and other blanks become one space, control characters go."""
    one_line = _BLANK.sub(" ", text)
    return _SPECIAL.sub(lambda match: SPECIAL[match[0]], one_line)


def format_table(
    *,
    columns: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    label: str,
    below: Sequence[Sequence[Sequence[str]]] = (),
    notes: Sequence[str] = (),
    fitted: bool = False,
    across: bool = False,
) -> str:
    """A floating table. The cells are text, escaped here; ``columns`` is a letter for each; ``[`` at the beginning
    of a row is kept from being read as the length after a line break. Each group of rows ``below`` has a rule over it.
    ``fitted``: it shrinks to the width that there is, for which the document needs the package graphicx; ``across``:
    it stands over both columns of a paper.
    """
    float_ = "table*" if across else "table"
    lines = [
        rf"\begin{{{float_}}}[t]",
        r"\centering",
        r"\small",
        rf"\caption{{{escape_latex(caption)}}}",
        rf"\label{{{label}}}",
        *([FITTED] if fitted else []),
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        _format_row(head),
        r"\midrule",
        *(_format_row(row) for row in rows),
        *(line for group in below for line in (r"\midrule", *map(_format_row, group))),
        r"\bottomrule",
        r"\end{tabular}" + ("}" if fitted else ""),
        *(rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {escape_latex(note)}}}" for note in notes),
        rf"\end{{{float_}}}",
    ]
    return "\n".join(lines) + "\n"


def _format_row(cells: Sequence[str]) -> str:
    line = " & ".join(map(escape_latex, cells))
    return ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"
