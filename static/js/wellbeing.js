"use strict";
// Annotator wellbeing: text that is blurred until it is opened, a break after long work, help one key away; and
// whether anybody is there at all.

const wellbeing = (() => {
  const IDLE_AFTER = 2 * 60 * 1000; // without a key or a move of the mouse nobody is working
  const REST = 5 * 60 * 1000; // so long without a sign of life is a break
  const LATER = 10 * 60 * 1000;
  const QUIET = 2000; // nobody is interrupted in the middle of a word
  const ACTIVE = "assay-active:";

  const opened = new Set(); // items
  let used = Date.now();
  let ticked = performance.now();
  let worked = { active: 0, at: 0 }; // milliseconds since the last break; when the last sign of life was

  // ---- the time of use

  const inUse = () => document.visibilityState === "visible" && Date.now() - used < IDLE_AFTER;

  // The milliseconds of use since it was asked last.
  function tick() {
    const now = performance.now();
    const passed = inUse() ? now - ticked : 0;
    ticked = now;
    countTo(passed);
    return passed;
  }

  function countTo(passed) {
    const dialog = document.getElementById("break");
    if (!dialog || !document.hasFocus()) return;
    worked = keep.json(ACTIVE + dialog.dataset.person) || worked;
    const active = (Date.now() - worked.at < REST ? worked.active : 0) + passed;
    if (passed) setWorked(active, used);
    const busy = Date.now() - used < QUIET || document.querySelector("dialog[open], [data-menu][open]");
    if (active >= limit() && !busy) dialog.showModal();
  }

  const limit = () => Number(document.querySelector("[data-break-minutes]").dataset.breakMinutes) * 60 * 1000;

  function setWorked(active, at) {
    worked = { active, at };
    keep.put(ACTIVE + document.getElementById("break").dataset.person, JSON.stringify(worked));
  }

  function closed({ target }) {
    if (target.id !== "break") return;
    setWorked(target.returnValue === "continue" ? 0 : limit() - LATER, Date.now());
    target.returnValue = "";
  }

  // ---- blurred text: inert, so that it is not read aloud either

  const blurred = () => document.querySelector("[data-blur]");
  const item = () => document.querySelector("form[data-item]")?.dataset.item;

  function veil() {
    if (!blurred()) return;
    if (opened.has(item())) open();
    else blurred().querySelector(".turns").inert = true;
  }

  // Whether there was anything to open.
  function open() {
    const here = blurred();
    if (!here) return false;
    here.removeAttribute("data-blur");
    here.querySelector(".turns").inert = false;
    opened.add(item());
    here.focus({ preventScroll: true, focusVisible: false });
    return true;
  }

  for (const kind of ["keydown", "pointermove", "pointerdown", "wheel", "scroll"]) {
    document.addEventListener(kind, () => (used = Date.now()), { passive: true, capture: true });
  }
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-show]")) open();
  });
  document.addEventListener("close", closed, true); // it does not bubble

  return { inUse, tick, veil, open };
})();
