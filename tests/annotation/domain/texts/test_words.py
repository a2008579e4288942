"""The words of a text in Markdown, as lists show its beginning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.domain.texts import read_words
from annotation.models import Response
from annotation.templatetags.texts import excerpt


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("## Steps\n\n1. **Wash** it\n2. `dry` it", "Steps Wash it dry it"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b 1 2"),
        ("see [the page](https://example.org) ~~now~~", "see the page now"),
        ("![a cat](https://example.org/cat.png) and $x^2$", "a cat and x^2"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_the_markup_is_gone_and_blocks_are_apart(source: str, words: str) -> None:
    assert read_words(source) == words


@given(st.text(alphabet="ab *_`#|-\n[](!)$", max_size=60))
def test_no_source_stops_an_excerpt(source: str) -> None:
    assert isinstance(excerpt(Response(text=f"**x** {source}")), str)


def test_an_excerpt_shows_words_and_plain_text_as_it_is() -> None:
    assert excerpt(Response(text="## Yes\n\n- **do** it\n- then rest")) == "Yes do it then rest"
    assert excerpt(Response(text="2 * 3 * 4 = 24, see #1")) == "2 * 3 * 4 = 24, see #1"
    assert (
        excerpt(Response(turns=[{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "**Oh**"}]))
        == "Hi Oh"
    )
    assert len(excerpt(Response(text="**a** " + "word " * 1000))) <= 160
