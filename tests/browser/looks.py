"""What can be seen of a page without eyes: that it fits, that it keeps still, and that focus shows."""

from __future__ import annotations

from playwright.sync_api import Page, ViewportSize

PHONE: ViewportSize = {"width": 360, "height": 740}

_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  return [...document.body.querySelectorAll("*")]
    .filter((e) => e.getBoundingClientRect().right > room + 1 && !scrolls(e.parentElement))
    .map((e) => e.outerHTML.slice(0, 120)).concat("the page scrolls sideways").slice(0, 3);
}"""

_MOVES = """() => [...document.querySelectorAll("body, body *")].filter((e) => {
  const style = getComputedStyle(e);
  const longest = (name) => Math.max(...style[name].split(",").map(parseFloat));
  const turns = style.animationName !== "none" && longest("animationDuration") > 0.01;
  return turns || longest("transitionDuration") > 0.01 || style.scrollBehavior === "smooth";
}).map((e) => e.outerHTML.slice(0, 120))"""

# An unseen radio button is seen by its label. After a key the browser shows focus that a script sets, too.
_UNSEEN = """() => {
  const look = (e) => [e, e.closest("label")].filter(Boolean).map((one) => {
    const { outlineStyle, outlineWidth, outlineColor, boxShadow } = getComputedStyle(one);
    return outlineStyle === "none" ? boxShadow : [outlineStyle, outlineWidth, outlineColor, boxShadow].join(" ");
  }).join("; ");
  const all = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']");
  const faults = [];
  for (const e of all) {
    if (e.disabled || e.type === "hidden" || !e.checkVisibility({ visibilityProperty: true })) continue;
    document.activeElement.blur();
    const before = look(e);
    e.focus({ preventScroll: true });
    if (document.activeElement === e && look(e) === before) faults.push(e.outerHTML.slice(0, 120));
  }
  document.activeElement.blur();
  return faults;
}"""


def too_wide(page: Page) -> list[str]:
    """What reaches over the edge of a narrow phone; a region that scrolls by itself may."""
    usual = page.viewport_size
    page.set_viewport_size(PHONE)
    wide_elements: list[str] = page.evaluate(_WIDE)
    if usual:
        page.set_viewport_size(usual)
    return [f"too wide: {element}" for element in wide_elements]


def moving(page: Page) -> list[str]:
    """What still moves for whoever wishes for reduced motion; the page's context must have that wish."""
    return [f"moves: {element}" for element in page.evaluate(_MOVES)]


def without_focus(page: Page) -> list[str]:
    """What can be reached by keyboard and does not show it."""
    page.keyboard.press("Tab")
    return [f"no visible focus: {element}" for element in page.evaluate(_UNSEEN)]
