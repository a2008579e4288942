"""How much of a window shows the text that is judged, and whether everything else can be reached in it."""

from __future__ import annotations

import time

from playwright.sync_api import Page

# CSS pixels: phones both ways, 1280x1024 at 400%, 1440x900 at 200%, laptops with a tall browser, desktops.
VIEWPORTS = (
    *((320, 256), (320, 568), (360, 300), (360, 640), (390, 844), (480, 256), (568, 320), (600, 960)),
    *((667, 375), (720, 450), (768, 1024), (800, 600), (844, 390), (960, 600), (1024, 544), (1024, 1366)),
    *((1100, 700), (1280, 256), (1280, 720), (1280, 800), (1440, 900), (1920, 540), (1920, 1080)),
)

# So long a page may take to become what it is at a new size; what is wrong then stays wrong.
SETTLING_SECONDS = 3

# Two frames: what a script does about the new size is done.
SETTLED = """() => new Promise((done) => {
  scrollTo(0, 0);
  requestAnimationFrame(() => requestAnimationFrame(done));
})"""

# The share of the window's rows in which a point is, unobstructed, of the text. Every second row is looked at.
_SHOWN = """() => {
  const pane = document.querySelector("[data-read]");
  const turns = [...pane.querySelectorAll(":scope > .turns, .slate-frame")]; // responses side by side follow the prompt
  const { left, right } = turns.at(-1).getBoundingClientRect();
  const columns = [0.1, 0.5, 0.9].map((share) => left + (right - left) * share);
  const share = (parts) => {
    let shown = 0;
    let all = 0;
    for (let y = 0.5; y < innerHeight; y += 2, all++) {
      const points = columns.map((x) => document.elementFromPoint(x, y));
      if (points.every((point) => parts.some((part) => part.contains(point)))) shown++;
    }
    return shown / all;
  };
  return { pane: share([pane]), text: share(turns) };
}"""

# What cannot be pressed once it is scrolled to, by a key's focus or by a thumb: covered, cut off, or out of the window.
_UNREACHABLE = """() => {
  const name = (one) => (one.ariaLabel || one.innerText || one.name || one.outerHTML).trim().slice(0, 60);
  const isHit = (one) => {
    const { x, y, width, height } = one.getBoundingClientRect();
    const inWindow = x >= -1 && x + width <= innerWidth + 1;
    const hit = document.elementFromPoint(x + width / 2, y + Math.min(height, innerHeight) / 2);
    return inWindow && hit && (one.contains(hit) || hit.closest("label")?.contains(one));
  };
  const faults = [];
  const controls = document.querySelectorAll("a[href], button, summary, textarea, input, select");
  for (const one of controls) {
    if (one.type === "hidden" || one.closest(".skip, [inert]")) continue;
    if (!one.checkVisibility({ visibilityProperty: true })) continue;
    one.focus();
    if (!isHit(one)) faults.push(`by key: ${name(one)}`);
    scrollTo(0, 0);
    one.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (!isHit(one)) faults.push(`by thumb: ${name(one)}`);
  }
  document.activeElement.blur();
  for (const one of document.querySelectorAll("*")) if (one.scrollTop || one.scrollLeft) one.scrollTo(0, 0);
  scrollTo(0, 0);
  return faults;
}"""

# What scrolls sideways and must not.
_SIDEWAYS = """() => [document.scrollingElement, ...document.querySelectorAll("main, main *")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 40)
  .filter((one) => one === document.scrollingElement || ["auto", "scroll"].includes(getComputedStyle(one).overflowX))
  .filter((one) => !one.matches("textarea"))
  .map((one) => one.className || one.tagName)"""


def measure_viewport(page: Page) -> dict[str, float]:
    """The shares of the window's height that show the pane of the text, and the text itself."""
    share: dict[str, float] = page.evaluate(_SHOWN)
    return share


def faults(page: Page) -> list[str]:
    unreachable: list[str] = page.evaluate(_UNREACHABLE)
    sideways: list[str] = page.evaluate(_SIDEWAYS)
    return [*unreachable, *(f"sideways: {element}" for element in sideways)]


def table_of(page: Page, *, reach: bool = True) -> dict[tuple[int, int], list[str]]:
    """What is wrong in each of ``VIEWPORTS``: one page, resized. Half of the height is the text's."""
    wrong = {}
    for width, height in VIEWPORTS:
        page.set_viewport_size({"width": width, "height": height})
        ends = time.monotonic() + SETTLING_SECONDS
        while (wrong_here := _measure_faults(page, reach=reach)) and time.monotonic() < ends:
            page.wait_for_timeout(100)
        if wrong_here:
            wrong[width, height] = wrong_here
    return wrong


def _measure_faults(page: Page, *, reach: bool) -> list[str]:
    page.evaluate(SETTLED)
    share = measure_viewport(page)
    thin = [f"{name} {part:.0%}" for name, part in share.items() if part < 0.5]
    return [*thin, *(faults(page) if reach else [])]
