"""The pages under docs: every link resolves, every page and decision is reached, every picture is shown."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
MAX_WIDTH = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXTERNAL = ("http://", "https://", "mailto:")
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(
    r"(?<![\w./-])(?:annotation|scoring|benchmark|config|fixtures|locale|static|styles|templates|tests)/[\w/.-]*\w"
)
# A table's row, a picture and an address cannot be broken.
UNBREAKABLE = ("|", "![", "http", "<http")


def read_prose(page: Path) -> str:
    return FENCED.sub("", page.read_text("utf-8"))


def list_links(page: Path) -> list[str]:
    return [link for link in LINK.findall(read_prose(page)) if not link.startswith(EXTERNAL)]


def list_targets(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to, each with the name of the heading, which may be empty."""
    for link in list_links(page):
        path, _, heading = link.partition("#")
        yield (page.parent / path).resolve() if path else page, heading


@cache
def list_headings(page: Path) -> frozenset[str]:
    """The names of a page's headings as they stand in addresses."""
    titles = re.findall(r"^#+ (.+)$", read_prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def list_reached() -> set[Path]:
    """Every page that links lead to from README.md."""
    reached, waiting = {README}, [README]
    while waiting:
        targets = {target for target, _ in list_targets(waiting.pop()) if target.suffix == ".md"}
        waiting += targets - reached
        reached |= targets
    return reached


def name_page(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_link_resolves(page: Path) -> None:
    broken = [
        f"{target}#{heading}"
        for target, heading in list_targets(page)
        if not target.exists() or (heading and heading not in list_headings(target))
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_line_of_prose_is_wrapped(page: Path) -> None:
    lines = read_prose(page).splitlines()
    assert [
        line for line in lines if len(line) > MAX_WIDTH and not line.lstrip().startswith(UNBREAKABLE)
    ] == []


def test_every_page_is_reached_from_the_readme() -> None:
    assert set(PAGES) - list_reached() == set()


def test_every_decision_is_linked_from_the_page_that_it_is_about() -> None:
    linked = {target for page in DOCS.glob("*.md") for target, _ in list_targets(page)}
    assert set((DOCS / "decisions").glob("*.md")) - linked == set()


def test_every_picture_is_shown() -> None:
    pictures = {target for page in PAGES for target, _ in list_targets(page)}
    assert set((DOCS / "images").iterdir()) - pictures == set()


def test_every_page_that_the_code_names_is_there() -> None:
    command = ["git", "grep", "-hoE", r"docs/[a-z/-]+\.md", "--", ":!CHANGELOG.md"]
    named = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert [name for name in sorted(set(named)) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    named = set(PATH.findall(page.read_text("utf-8")))
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
