"""Markdown on the work page: what is marked is exact in the source, and hostile text stays text."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from playwright.sync_api import Page, expect

from annotation.domain.texts import Formula, Image, TextRun, read_markdown, write_html
from annotation.models import Annotation, Guideline, Person
from tests.annotation.domain.texts.documents import DOCUMENTS, load_specification
from tests.browser.conftest import SignIn
from tests.browser.test_annotating import press, sent
from tests.browser.test_evidence import batch_of, chips, marked
from tests.support import examples

pytestmark = [pytest.mark.browser]

ANSWER = """# How to *refuse*

Say **no, politely**; see [the rules](https://example.org/rules) &amp; `refuse()`.

| Step | What |
|------|------|
| 1 | say \\| do |

```python
def refuse():
	return "no"
```

> Of all, $a_1 + \\frac{1}{2}$ is ![a chart](https://example.org/chart.png) the **last
> word** on it.
"""
HOSTILE = """**Read:** <script>document.title = 'broken'</script><img src=x onerror="document.title='broken'">
[x](javascript:alert(1)) ![x](https://example.org/x.png "t") <https://example.org/> [y](data:text/html,<script>)

<style>body { display: none }</style> $\\href{javascript:alert(1)}{x}$ $\\style{background:url(//example.org)}{x}$

[//]: # (<b>)
"""

# Select from a character of one run of the text to one of another, and say which words that are.
SELECT = """([first, from, last, until]) => {
  const runs = [...document.querySelectorAll("[data-turn] [data-view=rendered] [data-at]")];
  const at = (run, share) => {
    const walker = document.createTreeWalker(run, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    const characters = nodes.flatMap((node) => [...node.data].map((_, i, all) =>
      [node, all.slice(0, i).join("").length]));
    return characters[Math.min(Math.floor(share * characters.length), characters.length - 1)] || [run, 0];
  };
  getSelection().setBaseAndExtent(...at(runs[first % runs.length], from), ...at(runs[last % runs.length], until));
  const range = getSelection().getRangeAt(0);
  return [String(range), texts.selected()];
}"""


def read_words(source: str, start: int, end: int) -> str:
    """The words of the source between two places, less its markup; formulas, images and the like whole."""
    words = []
    for node in read_markdown(source):
        if not isinstance(node, TextRun | Formula | Image) or node.end <= start or end <= node.start:
            continue
        if isinstance(node, TextRun) and not node.indivisible:
            words.append(node.text[max(start - node.start, 0) : end - node.start])
        else:
            assert start <= node.start < node.end <= end, "marked whole"
            words.append(node.text if isinstance(node, TextRun) else OBJECT)
    return "".join("".join(words).split())


OBJECT = "\ufffc"


def check_marks(page: Page, source: str, draw: random.Random, times: int) -> None:
    nodes = [node for node in read_markdown(source) if isinstance(node, TextRun | Formula | Image)]
    for _ in range(times if nodes else 0):
        first, last = sorted(draw.choices(range(len(nodes)), k=2))
        share = [draw.random(), draw.random()]
        words, spans = page.evaluate(SELECT, [first, share[0], last, share[1]])
        if not words.strip():
            continue
        # What a whole part shows stands in the words of the selection in parts: it is compared by its place.
        indivisible = any(not isinstance(n, TextRun) or n.indivisible for n in nodes[first : last + 1])
        if not spans:
            assert not "".join(words.split())
            continue
        (span,) = spans
        marked_words = read_words(source, span["start"], span["end"])
        if not indivisible:
            assert marked_words == "".join(words.split()), (source, span, words)


def test_words_are_marked_exactly_and_the_source_is_a_key_away(
    sign_in: SignIn, lin: Person, guideline: Guideline, violations: Callable[[Page], list[str]]
) -> None:
    batch_of([ANSWER, HOSTILE], [lin], guideline)
    page = sign_in(lin)
    page.goto("/work/")
    expect(page.get_by_role("heading", name="How to refuse")).to_be_visible()
    expect(page.get_by_role("cell", name="say | do")).to_be_visible()
    press(page, "1")
    start, end = ANSWER.index("Say"), ANSWER.index("politely") + len("polite")
    page.evaluate(
        """() => {
          const runs = [...document.querySelectorAll("[data-view=rendered] [data-at]")];
          const named = (words) => runs.find((run) => run.textContent.startsWith(words)).firstChild;
          getSelection().setBaseAndExtent(named("Say"), 0, named("no, politely"), "no, polite".length);
        }"""
    )
    press(page, "e")
    expect(chips(page)).to_have_count(1)
    assert "".join(marked(page)[:2]) == "Say no, polite"
    press(page, "m")
    source = page.locator("[data-view=source]")
    expect(source).to_be_visible()
    assert source.text_content() == ANSWER
    assert source.locator("mark").all_text_contents() == [ANSWER[start:end]]
    expect(page.get_by_role("heading", name="How to refuse")).to_be_hidden()
    assert violations(page) == []
    press(page, "m")
    assert violations(page) == []
    page.evaluate("document.documentElement.lang = document.querySelector('[data-turn]').lang = 'zh-hans'")
    code = page.locator("[data-view=rendered] pre code").first
    assert "monospace" in code.evaluate("(code) => getComputedStyle(code).fontFamily"), "in Chinese, too"
    chips(page).get_by_role("button").first.click()
    assert page.evaluate("String(getSelection())") == "Say no, polite"
    page.evaluate(
        """() => {
          const [formula] = document.querySelectorAll(".md-formula");
          getSelection().selectAllChildren(formula.querySelector("mi"));
        }"""
    )
    press(page, "e")
    press(page, "Enter")
    sent(page)
    given_label = Annotation.objects.get()
    spans = [ANSWER[span["start"] : span["end"]] for span in given_label.evidence]
    assert spans == [ANSWER[start:end], "$a_1 + \\frac{1}{2}$"]
    page.goto(f"/history/{given_label.assignment_id}/")
    assert "".join(page.locator("[data-view=rendered] mark").all_text_contents()[:2]) == "Say no, polite"


def test_hostile_text_stays_text(sign_in: SignIn, lin: Person, guideline: Guideline) -> None:
    batch_of([HOSTILE], [lin], guideline)
    page = sign_in(lin)
    page.goto("/work/")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    text = page.locator("[data-view=rendered]")
    expect(text).to_contain_text("<script>document.title = 'broken'</script>")
    assert text.locator("a, img, script, style, iframe, [style], [href], [src], [onerror]").count() == 0
    page.wait_for_timeout(200)
    assert not [url for url in requests if "example.org" in url]
    assert "broken" not in page.title()


def render(page: Page, sources: Sequence[str]) -> None:
    html = [write_html(read_markdown(source), image="Image:") for source in sources]
    page.evaluate("([html]) => (document.querySelector('[data-view=rendered]').innerHTML = html)", html)


def test_marks_in_the_examples_of_the_specification(
    sign_in: SignIn, lin: Person, guideline: Guideline
) -> None:
    batch_of([ANSWER], [lin], guideline)
    page = sign_in(lin)
    page.goto("/work/")
    draw = random.Random(1)
    for example in load_specification():
        render(page, [example["markdown"]])
        check_marks(page, example["markdown"], draw, 3)


def test_any_document_is_inert_and_marked_exactly(sign_in: SignIn, lin: Person, guideline: Guideline) -> None:
    batch_of([ANSWER], [lin], guideline)
    page = sign_in(lin)
    page.goto("/work/")
    page.wait_for_load_state("networkidle")  # what the page itself asks for has come
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))

    @settings(
        max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(DOCUMENTS)
    def check(source: str) -> None:
        render(page, [source])
        assert page.locator("[data-view=rendered] :is(a, img, script, style, [href], [src])").count() == 0
        check_marks(page, source, random.Random(source), 3)

    check()
    assert requests == []
