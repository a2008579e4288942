"use strict";
// Texts as their Markdown says, or as their source, and where in the source what is selected stands. A run of words
// carries its place, counted in code points; one that also carries its end is a formula, an image or an entity, and
// is marked whole.

const texts = (() => {
  const SOURCE = "assay-source"; // kept where the person reads the source

  const turns = () => [...document.querySelectorAll("[data-turn]")];
  const runs = (turn) => [...turn.querySelectorAll("[data-at]")];
  const shownRuns = (turn) => runs(turn).filter((run) => !run.closest("[data-view][hidden]"));
  const length = (words) => [...words].length;
  const start = (run) => Number(run.dataset.at);
  const end = (run) => Number(run.dataset.to || start(run) + length(run.textContent));

  // ---- from the selection to places

  function upTo(run, node, offset) {
    const range = document.createRange();
    range.selectNodeContents(run);
    range.setEnd(node, offset);
    return String(range);
  }

  // What of a run is selected, without the blanks at its ends; null where that is nothing.
  function clip(run, range) {
    if (!range.intersectsNode(run)) return null;
    const { startContainer, startOffset, endContainer, endOffset } = range;
    const before = run.contains(startContainer) ? upTo(run, startContainer, startOffset) : "";
    const until = run.contains(endContainer) ? upTo(run, endContainer, endOffset) : run.textContent;
    const words = until.slice(before.length);
    if (!words.trim()) return null;
    if (run.dataset.to) return { start: start(run), end: end(run) };
    const blank = words.match(/^\s*/)[0];
    return { start: start(run) + length(before + blank), end: start(run) + length(until.trimEnd()) };
  }

  function locate(turn, range) {
    const parts = shownRuns(turn).map((run) => clip(run, range)).filter(Boolean);
    return parts.length ? { turn: Number(turn.dataset.turn), start: parts[0].start, end: parts.at(-1).end } : null;
  }

  function selected() {
    const selection = getSelection();
    if (selection.isCollapsed) return [];
    const range = selection.getRangeAt(0);
    return turns().map((turn) => range.intersectsNode(turn) && locate(turn, range)).filter(Boolean);
  }

  // ---- from places to marks

  // ``piece`` makes a mark of the spans over it.
  function drawRun(run, spans, piece) {
    const [from, until] = [start(run), end(run)];
    const over = spans.filter((span) => span.start < until && from < span.end);
    for (const mark of run.querySelectorAll("mark")) mark.replaceWith(...mark.childNodes);
    run.normalize();
    if (!over.length) return;
    if (run.dataset.to) {
      const mark = piece(over);
      mark.append(...run.childNodes);
      run.append(mark);
      return;
    }
    const characters = [...run.textContent];
    const within = (place) => Math.min(Math.max(place - from, 0), characters.length);
    const cuts = new Set([0, characters.length, ...over.flatMap((span) => [within(span.start), within(span.end)])]);
    const places = [...cuts].sort((one, other) => one - other);
    run.replaceChildren(...places.slice(1).map((place, i) => {
      const words = characters.slice(places[i], place).join("");
      const here = over.filter((span) => span.start <= from + places[i] && from + place <= span.end);
      if (!here.length) return words;
      const mark = piece(here);
      mark.append(words);
      return mark;
    }));
  }

  function draw(turn, spans, piece) {
    if (!spans.length && !turn.querySelector("mark")) return;
    for (const run of runs(turn)) drawRun(run, spans, piece);
  }

  // The source of a turn from one place to another.
  function slice({ turn, start: from, end: until }) {
    const [text] = turns().filter(({ dataset }) => Number(dataset.turn) === turn);
    const source = text?.querySelector("[data-view=source]") || text;
    return source ? [...source.textContent].slice(from, until).join("") : "";
  }

  // ---- the source

  function show() {
    const source = Boolean(keep.text(SOURCE));
    for (const view of document.querySelectorAll("[data-view]")) view.hidden = (view.dataset.view === "source") !== source;
    for (const toggle of document.querySelectorAll("[data-source-toggle]")) toggle.ariaPressed = String(source);
  }

  function toggle() {
    keep.text(SOURCE) ? keep.drop(SOURCE) : keep.put(SOURCE, "yes");
    getSelection().removeAllRanges();
    show();
    document.dispatchEvent(new CustomEvent("assay:marks"));
  }

  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-source-toggle]")) toggle();
  });
  document.addEventListener("assay:item", show);
  show();

  return { turns, selected, draw, slice };
})();
