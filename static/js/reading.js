"use strict";
// Long texts: where in its pane the reader is and where its marks are, words that are looked for in the text or in
// the guideline, and whether a text that must be read to its end was.

const reading = (() => {
  const MOST = 500; // matches that are shown
  const FOUND = "found";
  const CURRENT = "found-current";

  let pane = null;
  let track = null;
  const unread = new Map(); // what must be read to its end: the end that was not in sight yet, and what it is the end of
  let ends = null; // watches them
  let sizes = null;
  let matches = [];
  let place = 0;

  // ---- where the reader is

  function build() {
    track = document.createElement("div");
    track.className = "position";
    track.ariaHidden = "true"; // the pane says its position by itself, and the chips lead to the marks
    track.append(document.createElement("div"));
    pane.prepend(track);
  }

  function setPart(part, top, height) {
    part.style.insetBlockStart = `${top}px`;
    part.style.blockSize = `${height}px`;
  }

  // The track is as high as the pane; its first part is what of the text is in sight, the others are its marks.
  function draw() {
    if (!pane?.isConnected) return;
    const { clientHeight, scrollHeight, scrollTop } = pane;
    const scale = clientHeight / scrollHeight;
    track.hidden = scrollHeight < clientHeight * 1.5; // then all of it is nearly in sight
    if (track.hidden) return;
    const { top: paneTop } = pane.getBoundingClientRect();
    const above = track.getBoundingClientRect().top - paneTop; // the pane's padding: it begins above the track
    setPart(track.firstChild, scrollTop * scale - above, clientHeight * scale);
    const top = paneTop - scrollTop;
    const marks = [...pane.querySelectorAll(".turns mark")]
      .filter((mark) => mark.getClientRects().length && !mark.closest("[data-apart] [data-entry]"));
    track.replaceChildren(track.firstChild, ...marks.map((mark) => {
      const tick = document.createElement("div");
      const { top: start, height } = mark.getBoundingClientRect();
      tick.className = "position__mark";
      tick.onclick = () => mark.scrollIntoView({ block: "center" });
      setPart(tick, (start - top) * scale - above, Math.max(3, height * scale));
      return tick;
    }));
  }

  let due = false;
  function drawSoon() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => setTimeout(() => { // after the frame that shows the text
      due = false;
      if (!pane) return;
      pane.dataset.whole = ""; // places are exact once all of it is laid out
      for (const last of unread.keys()) ends.observe(last);
      draw();
    }));
  }

  // ---- read to the end

  const mustRead = () => "readToEnd" in (document.querySelector("article.work")?.dataset || {});

  // Of a slate the end of each response.
  function watchEnd() {
    ends?.disconnect();
    unread.clear();
    if (!mustRead()) return;
    ends = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting) unread.delete(target);
    });
    const entries = pane.querySelectorAll("[data-entry]");
    for (const part of entries.length ? entries : [pane]) {
      const last = document.createElement("div");
      part.append(last);
      unread.set(last, part);
    }
  }

  // Whether the end of the text has not been in sight; it is said, and the text has the keys.
  function isUnread() {
    const [part] = unread.values();
    if (!part) return false;
    const { readToEnd, readEntry } = document.querySelector("article.work").dataset;
    const { entry } = part.dataset;
    document.querySelector("[data-hint]").textContent = entry ? readEntry.replace("{n}", entry) : readToEnd;
    (part.closest("[data-apart] [data-entry]") || pane).focus({ preventScroll: true });
    return true;
  }

  // ---- from turn to turn of a dialogue

  // To the next turn that begins below the upper edge of what is in sight, or to the last one that begins above it.
  function moveTurn(step) {
    const edge = Math.max(0, ...[pane, pane.parentElement].map((part) => part.getBoundingClientRect().top));
    const begin = (turn) => turn.getBoundingClientRect().top - edge - parseFloat(getComputedStyle(turn).scrollMarginTop);
    const turns = [...pane.querySelectorAll(".turn")];
    const turn = step > 0 ? turns.find((each) => begin(each) > 2) : turns.findLast((each) => begin(each) < -2);
    turn?.scrollIntoView({ block: "start" });
  }

  // ---- looking for words

  const box = () => document.querySelector("[data-find]");
  const field = () => box().querySelector("input");
  const guide = () => document.querySelector("aside#guide");
  const scope = () => (box().querySelector("select").value === "guide" ? guide() : pane);

  function isHidden(node) {
    return node.parentElement.closest("[data-view][hidden], template, .veil");
  }

  function findIn(root, words) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const nodes = [];
    let text = "";
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (isHidden(node)) continue;
      nodes.push([text.length, node]);
      text += node.data;
    }
    const lower = text.toLowerCase();
    const same = lower.length === text.length; // some letters are longer in the other case
    const [haystack, needle] = same ? [lower, words.toLowerCase()] : [text, words];
    const at = (offset) => {
      const [start, node] = nodes.findLast(([begin]) => begin <= offset);
      return [node, offset - start];
    };
    const ranges = [];
    for (let i = haystack.indexOf(needle); i >= 0 && ranges.length < MOST; i = haystack.indexOf(needle, i + needle.length)) {
      const range = document.createRange();
      range.setStart(...at(i));
      const [node, offset] = at(i + needle.length - 1);
      range.setEnd(node, offset + 1);
      ranges.push(range);
    }
    return ranges;
  }

  const paint = (name, ranges) => globalThis.CSS?.highlights?.set(name, new Highlight(...ranges));

  function look() {
    const words = field().value;
    if (!box().hidden && scope() === guide()) for (const part of guide().querySelectorAll("[data-guide]")) part.hidden = false;
    else keys.guide();
    matches = words.trim() && !box().hidden ? findIn(scope(), words) : [];
    place = 0;
    go(0);
  }

  function go(step) {
    place = matches.length ? (place + step + matches.length) % matches.length : 0;
    const current = matches[place];
    paint(FOUND, matches);
    paint(CURRENT, current ? [current] : []);
    const { dataset } = box();
    const count = dataset.count.replace("{n}", place + 1).replace("{all}", matches.length);
    box().querySelector("output").textContent = current ? count : field().value.trim() ? dataset.none : "";
    if (!current) return;
    const element = current.startContainer.parentElement;
    for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    element.scrollIntoView({ block: "nearest" });
    const rect = current.getBoundingClientRect();
    const within = scope().getBoundingClientRect();
    if (rect.top < within.top || rect.bottom > within.bottom) scope().scrollBy(0, rect.top - within.top - within.height / 3);
  }

  function open() {
    if (guide()?.contains(document.activeElement)) box().querySelector("select").value = "guide";
    box().hidden = false;
    field().focus();
    field().select();
    look();
  }

  function close() {
    box().hidden = true;
    look();
    pane.focus({ preventScroll: true });
  }

  function onKey(event) {
    if (event.isComposing || !box()?.contains(event.target) || event.target !== field()) return;
    if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function onClick({ target }) {
    const step = target.closest("[data-turn-step]")?.dataset.turnStep;
    if (step) moveTurn(Number(step));
    const act = target.closest("[data-find-act]")?.dataset.findAct;
    if (act === "open") open();
    else if (act === "close") close();
    else if (act) go(act === "next" ? 1 : -1);
  }

  // ---- another text has come

  function setUp() {
    const here = document.querySelector("[data-read]");
    if (!here) return;
    if (here !== pane) {
      pane = here;
      build();
      pane.addEventListener("scroll", drawSoon, { passive: true });
      sizes?.disconnect();
      sizes = new ResizeObserver(drawSoon);
      sizes.observe(pane);
      sizes.observe(pane.querySelector(".turns"));
      watchEnd();
      if (box() && !box().hidden) look();
    }
    drawSoon();
  }

  document.addEventListener("assay:item", setUp);
  document.addEventListener("assay:marks", drawSoon);
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("click", onClick);
  document.addEventListener("input", ({ target }) => {
    if (target.closest("[data-find]")) look();
  });

  setUp();

  return { isUnread };
})();
