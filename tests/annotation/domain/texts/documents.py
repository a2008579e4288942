"""Documents of Markdown: drawn ones, and the examples of CommonMark's specification."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.support import SOURCES

_PIECES = (
    "word|two words|重点|*em*|**strong**|***both***|_a_b_|`code`|``a`b``|`a\nb`|~~gone~~|~~~x~~~|[text](http://x.y)|"
    '[*t*](<u> "title")|![alt *x*](i.png)|<http://a.b/%E4%B8%AD>|&amp;|&#20013;|&nope;|\\*|\\|\\(x^2\\)|$a_1$|'
    "$5 and $6|$$y$$|<b>|<script>alert(1)</script>|[ref]|[ref][]|\t|  |*|**|_|`|[|]|(|)|!|<|>|&|#|\\(|$|é|😀|\u3000|"
    "\u200f|:|-|+|1."
)
PIECES = st.sampled_from(_PIECES.split("|"))
_STARTS = (
    ";;;# ;## ;### a ##;> ;>;- ;* ;1. ;12) ;    ;\t;  ;```py;```;~~~;---;===;|;| a | b |;|--|:-:|;| x | *y* |;"
    "| \\| | `c` |;[ref]: /u 'title';$$;\\[;\\];<div>"
)
STARTS = st.sampled_from(_STARTS.split(";"))
LINES = st.builds(
    lambda starts, pieces, end: "".join(starts) + "".join(pieces) + end,
    st.lists(STARTS, max_size=3),
    st.lists(PIECES, max_size=5),
    st.sampled_from(["\n", "\n", "\n\n", "  \n", "\\\n", "\r\n", "\r", ""]),
)
DOCUMENTS = st.lists(LINES, min_size=1, max_size=9).map("".join)


ANSWER_PART = """
## Part {part} of answer {number}

Paragraph **{part}** says *what* paragraph {before} did not, with `code_{part}` and [a link](https://example.org/).

- first point of part {part}
- second point

| case | share |
|------|------:|
| {part} | ${part} \\cdot x$ |

```python
def part_{part}(argument, another_argument, one_more_argument_of_a_long_name):
    return argument
```
"""


def write_answer(characters: int, number: int = 0) -> str:
    """An answer of a model in Markdown, of so many characters; another one for another number."""
    parts = (
        ANSWER_PART.format(part=part, before=part - 1, number=number) for part in range(characters // 200 + 1)
    )
    return "".join(parts)[:characters]


@cache
def load_specification() -> list[dict[str, Any]]:
    """CommonMark's examples: ``markdown``, ``html`` and their number."""
    archive = next(SOURCES.glob("markdown_it_py-*.tar.gz"), None)
    if archive is None:
        pytest.skip("the source distribution of markdown-it-py is not there: ./run test downloads it")
    with tarfile.open(archive) as files:
        name = next(name for name in files.getnames() if name.endswith("/test_cmark_spec/commonmark.json"))
        file = files.extractfile(name)
        assert file
        return json.load(file)
