"""Photograph every page with the code of a commit and with this code, and list the pages whose pictures differ.

    python -m tests.performance.page_pictures --before REF --out FOLDER
    python -m tests.performance.page_pictures --before REF --out FOLDER --quick --match '^/scorers/'

Sites of an old version are built (tests/performance/old_sites); each code migrates a copy and serves it, under one
clock. Each reader opens each page in both languages; a load gives a picture for each look (width, theme, print). Clock
times and random ids are masked. FOLDER/index.html lays both pictures of each differing page side by side. Exit code 1:
some differ. ``--quick`` takes one page of each route, as the first reader who may open it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from tqdm import tqdm

from tests.chromium import launch
from tests.performance.old_sites.__main__ import ROOT, SCRIPTS, SITES, Databases, Site, copy_site, old_code

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

LISTER = Path(__file__).with_name("pictured_site.py")
LANGUAGES = ("en", "zh-hans")
SIDES = ("before", "after")
PORTS = {"before": 8971, "after": 8972}
MAX_HEIGHT = 9000  # pixels of a page
MAX_SECONDS = 60  # until a server answers, or a page has loaded

# Everything loads at once, and what differs from one visit to another is masked.
SETTLE = r"""async () => {
  document.querySelectorAll("img[loading=lazy]").forEach((image) => { image.loading = "eager"; });
  const masks = [
    [/\b\d{1,2}:\d{2}(:\d{2})?\b/g, "00:00"],
    [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}/g, "00000000"],
    [/\b[0-9a-f]{64}\b/g, "0".repeat(64)],
    [/127\.0\.0\.1:\d+/g, "127.0.0.1"],
  ];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const masked = masks.reduce((text, [what, mask]) => text.replace(what, mask), walker.currentNode.data);
    if (masked !== walker.currentNode.data) walker.currentNode.data = masked;
  }
  const loaded = [...document.images].map((image) => image.decode().catch(() => null));
  const idle = async () => {
    for (let turn = 0; turn < 40 && document.querySelector(".htmx-request"); turn += 1) {
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  await Promise.all([...loaded, idle(), document.fonts.ready]);
}"""
COMPARE = """async ([before, after]) => {
  const load = async (data) => createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const [first, second] = await Promise.all([load(before), load(after)]);
  const width = Math.max(first.width, second.width), height = Math.max(first.height, second.height);
  const pixels = (image) => {
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    return new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  };
  const [a, b] = [pixels(first), pixels(second)];
  return a.reduce((count, pixel, at) => count + (pixel !== b[at]), 0);
}"""


@dataclass(frozen=True)
class Look:
    """How a loaded page is looked at."""

    name: str
    width: int = 1280
    theme: str = "light"
    media: str = "screen"


LOOKS = (
    Look("light"),
    Look("dark", theme="dark"),
    Look("phone", width=390),
    Look("print", width=1000, media="print"),
)


@dataclass(frozen=True)
class Visit:
    """A page of a site that a reader opens in a language."""

    site: str
    reader: str
    language: str
    path: str

    @property
    def label(self) -> str:
        return f"{self.site}, {self.reader}, {self.language}: {self.path}"


@dataclass(frozen=True)
class Difference:
    """A look at a page that gives another picture; ``pixels`` is the number that differ, None of a page that broke."""

    visit: Visit
    look: str
    pixels: int | None
    note: str = ""


def build_site(name: str, folder: Path) -> Site:
    """A site that the old code filled; the one that an earlier run left in the folder, if there is one."""
    built = folder / f"{name}-built"
    site = Site(built, f"sqlite:///{built / 'assay.sqlite3'}", folder)
    if not (built / "facts.json").exists():
        print(f"{name}: building", flush=True)
        built.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix="assay-old-") as place, old_code(Path(place)) as code:
            old_site = replace(site, code=code)
            old_site.manage("migrate", "--verbosity", "0")
            old_site.run(SCRIPTS / "build.py", name, built / "facts.json")
    return site


def make_copy(site: Site, side: str, code: Path) -> Site:
    """A copy of the site, migrated by the code."""
    name = f"{site.folder.name}-{side}"
    shutil.rmtree(site.folder.parent / name, ignore_errors=True)
    copy = copy_site(site, name, Databases(""), code=code)
    copy.manage("migrate", "--verbosity", "0")
    return copy


@contextmanager
def serving(site: Site, pages: Path, port: int) -> Iterator[dict[str, str]]:
    """The sessions of the readers on the site that is served at ``port``."""
    command = [sys.executable, str(LISTER), "serve", str(pages), str(port)]
    server = subprocess.Popen(command, cwd=site.code, env=site.environment(), stderr=subprocess.DEVNULL)
    try:
        wait_until_served(port)
        yield json.loads(pages.with_name("sessions.json").read_text())
    finally:
        server.terminate()
        server.wait(timeout=30)


def wait_until_served(port: int) -> None:
    end = time.monotonic() + MAX_SECONDS
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/sign-in/", timeout=5).close()
        except URLError:
            time.sleep(0.3)
        else:
            return
    sys.exit(f"nothing answers at port {port}")


def list_visits(site: str, readers: dict[str, dict[str, str]], *, match: str) -> list[Visit]:
    return [
        Visit(site, reader, language, path)
        for reader, pages in readers.items()
        for language in LANGUAGES
        for path in pages
        if re.search(match, path)
    ]


class Photographer:
    """Takes pictures of one side, signed in as each reader."""

    def __init__(self, browser: Browser, side: str, sessions: dict[str, str]) -> None:
        self.browser, self.sessions = browser, sessions
        self.url = f"http://127.0.0.1:{PORTS[side]}"
        self.reader: tuple[str, str] | None = None
        self.context: BrowserContext | None = None
        self.page: Page | None = None

    def sign_in(self, reader: str, language: str) -> Page:
        if self.page is not None and self.reader == (reader, language):
            return self.page
        if self.context is not None:
            self.context.close()
        self.reader = (reader, language)
        self.context = self.browser.new_context(reduced_motion="reduce")
        cookies = {"django_language": language}
        cookies |= {"sessionid": self.sessions[reader]} if reader in self.sessions else {}
        self.context.add_cookies(
            [{"name": name, "value": value, "url": self.url} for name, value in cookies.items()]
        )
        self.context.set_default_timeout(1000 * MAX_SECONDS)
        self.page = self.context.new_page()
        return self.page

    def photograph(self, visit: Visit, looks: tuple[Look, ...]) -> tuple[int, dict[str, bytes]]:
        """Status of the page, and its picture in each look."""
        page = self.sign_in(visit.reader, visit.language)
        page.set_viewport_size({"width": looks[0].width, "height": 800})
        page.emulate_media(media="screen", color_scheme="light")
        response = page.goto(self.url + visit.path, wait_until="load")
        page.evaluate(SETTLE)
        pictures = {look.name: photograph_look(page, look) for look in looks}
        return response.status if response else 0, pictures


def photograph_look(page: Page, look: Look) -> bytes:
    page.set_viewport_size({"width": look.width, "height": 800})
    page.emulate_media(media=look.media, color_scheme=look.theme)  # type: ignore[arg-type]
    page.evaluate("Promise.all([...document.images].map((image) => image.decode().catch(() => null)))")
    height = min(MAX_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
    area: Any = {"x": 0, "y": 0, "width": look.width, "height": max(800, height)}
    return page.screenshot(full_page=True, clip=area, animations="disabled")


def compare_visit(
    visit: Visit, sides: dict[str, Photographer], looks: tuple[Look, ...], judge: Page, out: Path
) -> list[Difference]:
    """Both sides' pictures of a page; those that differ are kept in ``out``."""
    pictures_by_side = {}
    for side, photographer in sides.items():
        try:
            pictures_by_side[side] = photographer.photograph(visit, looks)
        except Exception as error:
            return [Difference(visit, "load", None, f"{side}: {str(error)[:300]}")]
    (old_status, old), (new_status, new) = (pictures_by_side[side] for side in SIDES)
    differences = []
    if old_status != new_status:
        differences.append(Difference(visit, "status", None, f"{old_status} -> {new_status}"))
    for look in looks:
        if old[look.name] == new[look.name]:
            continue
        both = [b64encode(pictures[look.name]).decode() for pictures in (old, new)]
        pixels = judge.evaluate(COMPARE, both)
        if pixels:
            difference = Difference(visit, look.name, pixels)
            for side, pictures in zip(SIDES, (old, new), strict=True):
                (out / picture_name(difference, side)).write_bytes(pictures[look.name])
            differences.append(difference)
    return differences


def picture_name(difference: Difference, side: str) -> str:
    key = hashlib.sha256(difference.visit.label.encode()).hexdigest()[:16]
    return f"{key}-{difference.look}-{side}.png"


def write_report(
    out: Path, differences: list[Difference], counts: dict[str, int], unopened: list[str]
) -> None:
    rows = []
    for difference in sorted(differences, key=lambda result: -(result.pixels or 10**9)):
        size = difference.note or f"{difference.pixels:,} pixels"
        title = f"<h2>{escape(difference.visit.label)} <small>{difference.look}, {escape(size)}</small></h2>"
        names = [] if difference.pixels is None else [picture_name(difference, side) for side in SIDES]
        pictures = "".join(f'<a href="{name}"><img loading="lazy" src="{name}" alt=""></a>' for name in names)
        rows.append(f"<section>{title}<div>{pictures}</div></section>")
    summary = ", ".join(f"{name}: {count}" for name, count in counts.items())
    style = "div{display:flex;gap:1rem}img{width:100%;border:1px solid #999}a{flex:1}h2{font:bold 1rem sans-serif}"
    (out / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>Page pictures</title><style>{style}</style>'
        f"<p>{summary}</p><p>Before on the left, after on the right.</p>{''.join(rows)}"
        f"<p>Routes without a page for anybody: {escape(', '.join(unopened))}</p>"
    )
    lines = [
        f"{difference.visit.label} ({difference.look}): {difference.note or difference.pixels}"
        for difference in differences
    ]
    (out / "differences.txt").write_text("\n".join(lines) + "\n" if lines else "")


def compare_site(
    name: str, folder: Path, before: Path, browser: Browser, options: argparse.Namespace
) -> tuple[int, list[Difference], list[str]]:
    """Number of pictures, those that differ, and the routes without a page."""
    built = build_site(name, folder)
    print(f"{name}: listing the pages", flush=True)
    listed = make_copy(built, "listed", before)
    pages = listed.folder / "pages.json"
    listed.run(LISTER, "list", pages, "quick" if options.quick else str(options.of_a_kind))
    listing = json.loads(pages.read_text())
    with ExitStack() as stack:
        sides = {}
        for side, code in zip(SIDES, (before, ROOT), strict=True):
            copy = make_copy(built, side, code)
            own = shutil.copy(pages, copy.folder)
            sessions = stack.enter_context(serving(copy, Path(own), PORTS[side]))
            sides[side] = Photographer(browser, side, sessions)
        visits = list_visits(name, listing["readers"], match=options.match)
        looks = tuple(look for look in LOOKS if look.name in options.looks)
        judge = browser.new_page()
        differences = []
        for visit in tqdm(visits, desc=name, unit="page", mininterval=5):
            differences += compare_visit(visit, sides, looks, judge, options.out)
        return len(visits) * len(looks), differences, listing["unopened"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", required=True, metavar="REF", help="the commit to compare with")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="where the report goes")
    parser.add_argument("--quick", action="store_true", help="one page of each route")
    parser.add_argument("--match", default="", metavar="REGEX", help="only addresses in which this occurs")
    parser.add_argument("--sites", nargs="+", choices=SITES, default=SITES)
    parser.add_argument("--looks", nargs="+", choices=[look.name for look in LOOKS])
    parser.add_argument(
        "--of-a-kind", type=int, default=2, metavar="N", help="pages of a kind for each reader"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where built sites stay for the next run")
    options = parser.parse_args()
    options.looks = options.looks or [look.name for look in LOOKS]
    options.out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-pictures-")))
        before = stack.enter_context(old_code(folder, options.before))
        browser = stack.enter_context(launch())
        counts: dict[str, int] = {}
        differences: list[Difference] = []
        unopened: list[set[str]] = []
        for name in options.sites:
            count, differing, without_page = compare_site(
                name, options.keep or folder, before, browser, options
            )
            counts[f"pictures of {name}"] = count
            differences += differing
            unopened.append(set(without_page))
    counts["differing"] = len(differences)
    write_report(options.out, differences, counts, sorted(set.intersection(*unopened)))
    print(f"{counts}: {options.out / 'index.html'}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
