from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.template.loader import get_template

from config.static import LAYERS, STYLES, STYLESHEET, join_styles

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
TOKENS = (STYLES / "tokens.css").read_text(encoding="utf-8")
CSS = join_styles()
ERROR_PAGES = ("400.html", "403.html", "403_csrf.html", "404.html", "500.html", "503.html")
TAG = re.compile(r"\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}", re.DOTALL)


class Inline(HTMLParser):
    """Collects what the Content-Security-Policy refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _value in attrs]
        if tag == "style" or (tag == "script" and "src" not in names):
            self.refused.append(f"<{tag}>")
        for name, value in attrs:
            if (
                name == "style"
                or name.startswith(("on", "hx-on"))
                or (value or "").startswith(("js:", "javascript:"))
            ):
                self.refused.append(f"{name}={value}")
            if name.startswith("hx-trigger") and "[" in (value or ""):
                self.refused.append(f"{name}={value}")


def inline_in(source: str) -> list[str]:
    parser = Inline()
    parser.feed(TAG.sub(" ", source))
    return parser.refused


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_no_template_has_inline_style_or_script(path: Path) -> None:
    assert inline_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        '<p style="color: red">',
        "<p {% if x %}style='a'{% endif %}>",
        "<script>1</script>",
        "<style>p {}</style>",
        '<p onclick="x()">',
        '<p hx-on:click="x()">',
        '<a href="javascript:x()">',
        '<p hx-vals="js:{a: 1}">',
        '<p hx-trigger="click[ctrlKey]">',
    ],
)
def test_the_check_itself_finds_what_is_inline(source: str) -> None:
    assert inline_in(source)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_every_template_compiles(path: Path) -> None:
    get_template(str(path.relative_to(ROOT / "templates")))


@pytest.mark.parametrize("name", ERROR_PAGES)
def test_an_error_page_stands_without_any_context(name: str) -> None:
    page = get_template(name).render({})
    assert "<h1>" in page
    assert "</html>" in page


def test_every_colour_is_there_for_both_themes() -> None:
    colours = re.findall(r"(--[\w-]+):\s*([^;]*(?:#|rgb)[^;]*);", TOKENS.split("}", 1)[0])
    assert len(colours) > 20
    assert [name for name, value in colours if "light-dark(" not in value] == []


def test_the_stylesheet_has_each_layer_once_and_in_order() -> None:
    assert CSS.startswith("@layer tokens, base, components, pages, print;")
    assert re.findall(r"^@layer (\w+) \{", CSS, re.MULTILINE) == list(LAYERS)
    assert {path.stem for path in STYLES.iterdir()} == set(LAYERS)


def test_the_stylesheet_is_found_joined() -> None:
    stylesheet = finders.find(STYLESHEET)
    assert stylesheet
    assert Path(stylesheet).read_text(encoding="utf-8") == CSS
    assert STYLESHEET in [path for finder in finders.get_finders() for path, _storage in finder.list([])]


def test_no_selector_looks_into_the_whole_of_a_work_page() -> None:
    """Each key would restyle every div, kbd and th of the page, those of a long text among them."""
    assert not re.findall(r"(?:\bbody|\.work|\.adjudicate)(?![\w-])[^\s,{>+~]*:has\([^{]*", CSS)


def test_the_stylesheet_uses_no_token_that_it_does_not_set() -> None:
    used = set(re.findall(r"var\((--[\w-]+)", CSS))
    assert used - set(re.findall(r"(--[\w-]+):", CSS)) == set()
