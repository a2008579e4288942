"use strict";
// Responses side by side: whether they scroll together or apart, and the words that differ between two of them; and how
// they rank. Which way they scroll is kept for this browser.

(() => {
  const APART = "assay-slate-apart";
  const DIFFERS = "differs";

  let pair = 0; // which two are compared; 0: none
  let latestRequest = 0;

  const slate = () => document.querySelector("[data-slate]");
  const entries = () => [...slate().querySelectorAll("[data-entry]")];
  const button = (name) => slate().querySelector(`[data-slate-${name}]`);

  function setApart() {
    if (!slate()) return;
    const apart = Boolean(keep.text(APART));
    slate().toggleAttribute("data-apart", apart);
    button("apart").ariaPressed = String(apart);
    for (const entry of entries()) entry.tabIndex = apart ? 0 : -1;
    sizes.disconnect();
    if (!apart) return;
    const pane = slate().closest("[data-read]");
    for (const part of [pane, ...pane.querySelectorAll(":scope > .turns")]) sizes.observe(part);
  }

  // Columns that scroll are as high as what the prompt leaves of their pane, or as the pane where that is little.
  function setHeight() {
    if (!slate()) return;
    const pane = slate().closest("[data-read]");
    const { paddingTop, paddingBottom } = getComputedStyle(pane);
    const room = pane.clientHeight - parseFloat(paddingTop) - parseFloat(paddingBottom);
    const above = entries()[0].getBoundingClientRect().top - pane.getBoundingClientRect().top + pane.scrollTop;
    const left = room + parseFloat(paddingTop) - above;
    slate().style.setProperty("--column", `${Math.floor(left < room / 2 ? room : left)}px`);
  }

  const sizes = new ResizeObserver(setHeight);

  function toggleApart() {
    keep.text(APART) ? keep.drop(APART) : keep.put(APART, "yes");
    setApart();
  }

  // ---- the words that differ

  function listPairs() {
    const size = Number(slate().dataset.size);
    const pairs = [];
    for (let first = 1; first < size; first += 1) {
      for (let second = first + 1; second <= size; second += 1) pairs.push([first, second]);
    }
    return pairs;
  }

  // In a run of words from a place to another, as a range of its text; null where the span is elsewhere.
  function rangeIn(run, { start, end }) {
    const begin = Number(run.dataset.at);
    const characters = [...run.textContent];
    const until = Number(run.dataset.to || begin + characters.length);
    if (end <= begin || until <= start) return null;
    const range = document.createRange();
    if (run.dataset.to) {
      range.selectNodeContents(run);
      return range;
    }
    const offset = (place) => characters.slice(0, Math.min(Math.max(place - begin, 0), characters.length)).join("").length;
    const walker = document.createTreeWalker(run, NodeFilter.SHOW_TEXT);
    let passed = 0;
    let set = false;
    while (walker.nextNode()) {
      const { length } = walker.currentNode;
      if (!set && offset(start) <= passed + length) {
        range.setStart(walker.currentNode, offset(start) - passed);
        set = true;
      }
      if (offset(end) <= passed + length) {
        range.setEnd(walker.currentNode, offset(end) - passed);
        return range;
      }
      passed += length;
    }
    return null;
  }

  const paint = (ranges) => globalThis.CSS?.highlights?.set(DIFFERS, new Highlight(...ranges));

  function say(words) {
    const place = slate()?.querySelector("[data-slate-says]");
    if (place) place.textContent = words;
  }

  function clear() {
    pair = 0;
    latestRequest += 1;
    paint([]);
    if (!slate()) return;
    say("");
    button("differences").ariaPressed = "false";
  }

  // The first two, then each other two, then none.
  async function compare() {
    const pairs = listPairs();
    const next = pair + 1;
    clear();
    if (next > pairs.length) return;
    pair = next;
    const [first, second] = pairs[pair - 1];
    const number = latestRequest;
    button("differences").ariaPressed = "true";
    try {
      const response = await fetch(`${slate().dataset.differences}?first=${first}&second=${second}`);
      if (!response.ok) throw new Error(response.statusText);
      const { spans } = await response.json();
      if (number !== latestRequest) return;
      const runs = [...slate().querySelectorAll("[data-turn] [data-at]")];
      paint(spans.flatMap((span) => runs
        .filter((run) => Number(run.closest("[data-turn]").dataset.turn) === span.turn)
        .map((run) => rangeIn(run, span))
        .filter(Boolean)));
      say(button("differences").dataset.between.replace("{first}", first).replace("{second}", second));
    } catch {
      if (number !== latestRequest) return;
      const { failed } = button("differences").dataset;
      clear();
      say(failed);
    }
  }

  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-slate-apart]")) toggleApart();
    if (target.closest("[data-slate-differences]")) compare();
  });
  document.addEventListener("assay:item", () => {
    clear();
    setApart();
  });
  setApart();
})();

// The ranks of a slate's entries, each of which has a row of them.
const ranks = (() => {
  const rowsOf = (question) => [...question.querySelectorAll("[data-rank-of]")];
  const rankOf = (row) => Number(row.querySelector(":checked")?.value || 0);

  // Entries are pressed from the best to the worst; after "=" the next shares the rank of the one before. Pressing one
  // again when it has a rank begins anew.
  function press(question, digit) {
    const rows = rowsOf(question);
    if (digit === "=") {
      question.toggleAttribute("data-tied", "mayTie" in question.dataset);
      return true;
    }
    const row = rows.find(({ dataset }) => dataset.rankOf === digit);
    if (!row) return true;
    if (rankOf(row)) for (const input of question.querySelectorAll(":checked")) input.checked = false;
    const last = Math.max(...rows.map(rankOf));
    const input = row.querySelectorAll("input")[Math.max(0, "tied" in question.dataset ? last - 1 : last)];
    delete question.dataset.tied;
    input.click();
    input.focus();
    if (rows.every(rankOf)) keys.goOn(question);
    return true;
  }

  // Where no rank may be shared, it is taken from the entry that had it.
  document.addEventListener("change", ({ target }) => {
    const question = target.closest?.("[data-ranks]")?.closest("[data-criterion]");
    if (!question || "mayTie" in question.dataset) return;
    for (const other of question.querySelectorAll(":checked")) {
      if (other.value === target.value && other.name !== target.name) other.checked = false;
    }
  }, true);

  return { press };
})();
