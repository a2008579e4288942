"use strict";
// Evidence: words of the response tied to a level. The form's textarea holds the spans as the server takes them,
// counted in code points; the marks in the text and the chips are drawn from it.

(() => {
  let box = null; // the form's part on evidence; null where none can be given
  let spans = [];
  let aiming = false; // the arrows choose words
  let held = []; // what was selected when the button was pressed: a tap can undo a selection

  const { turns, selected } = texts;
  const read = () => document.querySelector("[data-read]");
  const field = () => box.querySelector("textarea");

  function say(what, level) {
    const hint = document.querySelector("[data-hint]");
    hint.textContent = (box.dataset[what] || "").replace("{level}", level);
    if (what) hint.scrollIntoView({ block: "nearest" });
  }

  function inWords({ criterion, level }) {
    const { form } = field();
    const question = form.querySelector(`[data-criterion="${criterion}"]`);
    if (level === null || question?.querySelector("[data-ranks]")) return question?.dataset.label || "";
    const input = form.querySelector(`[name="label.${criterion}"][value="${level}"]`);
    return input?.dataset.words || String(level);
  }

  const isSame = (span, other) => Object.keys(other).every((name) => span[name] === other[name]);

  function put(all) {
    field().value = JSON.stringify(all);
    field().dispatchEvent(new Event("change", { bubbles: true }));
    draw();
  }

  // ---- from the selection to spans

  // ``byTouch``: a finger pressed the button, so no keys are at hand to choose words.
  function mark(found = selected(), byTouch = false) {
    if (!box || wellbeing.open()) return; // nobody marks what was not seen
    if (!found.length) return byTouch && turns().length ? say("touch") : aim();
    const question = document.querySelector("[data-criterion][data-current]");
    const level = levelOf(question);
    if (Number.isNaN(level)) return say("noLevel");
    const of = { criterion: question.dataset.criterion, level };
    getSelection().removeAllRanges();
    const marked = found.map((span) => ({ ...span, ...of }));
    put([...spans.filter((span) => !marked.some((one) => isSame(span, one))), ...marked]);
    say("marked", inWords(of));
  }

  // What words are marked for: a text has no level; "not applicable" is none, and neither is no answer. A ranking is that
  // which is submitted.
  function levelOf(question) {
    if (question?.querySelector("textarea")) return null;
    if (question?.querySelector("[data-ranks]")) return keys.isAnswered(question) ? undefined : NaN;
    const chosen = question?.querySelector(`:checked[value="${question.dataset.last}"]`);
    return parseFloat((chosen || question?.querySelector(":checked, [type=number]"))?.value);
  }

  // ---- choosing words by keys

  function aim() {
    if (!turns().length) return say("noText");
    const selection = getSelection();
    read().focus({ preventScroll: true, focusVisible: false });
    const turn = firstTurn();
    selection.collapse(turn.querySelector("[data-view]:not([hidden])") || turn, 0);
    selection.modify("extend", "forward", "word");
    reveal();
    aiming = true;
    say("keys");
  }

  // Where the words are chosen first: in the turn that is asked about, or in the response of a slate that was chosen.
  function firstTurn() {
    const question = document.querySelector("[data-criterion][data-current]");
    const digit = question?.querySelector(":checked")?.dataset.digit;
    const about = turns().find(({ dataset }) => dataset.turn === question?.dataset.aboutTurn);
    return about || document.querySelector(`[data-entry="${digit}"] [data-turn]`) || turns()[0];
  }

  function onKey(event) {
    // What was opened meanwhile, a dialog, a menu or a text box, has its own arrows and its own Enter.
    if (!aiming || !event.target.closest("[data-read], .level__input")) return;
    if (event.key.startsWith("Arrow")) step(event.key.slice(5), event);
    else if (event.key === "Enter") mark();
    else if (event.key === "Escape") getSelection().removeAllRanges();
    else return;
    event.preventDefault();
  }

  function step(key, { shiftKey, ctrlKey }) {
    const selection = getSelection();
    const before = selection.getRangeAt(0).cloneRange();
    const lines = { Up: "backward", Down: "forward" }[key];
    const unit = ctrlKey ? "character" : "word";
    if (!shiftKey) selection.collapseToStart();
    selection.modify(shiftKey ? "extend" : "move", lines || key, lines ? "line" : unit);
    // A line is entered anywhere: back to where the word begins.
    if (lines && !shiftKey) for (const way of ["forward", "backward"]) selection.modify("move", way, "word");
    if (!shiftKey) selection.modify("extend", "forward", unit);
    if (selection.isCollapsed || !read().contains(selection.focusNode)) {
      selection.removeAllRanges();
      selection.addRange(before);
    }
    reveal();
  }

  // The text scrolls in its pane; a very short window scrolls the page as well.
  function reveal() {
    read().scrollIntoView({ block: "nearest" });
    const { top, bottom } = getSelection().getRangeAt(0).getBoundingClientRect();
    const column = getSelection().getRangeAt(0).startContainer.parentElement.closest("[data-apart] [data-entry]");
    const scrolled = column && column.scrollHeight > column.clientHeight ? column : read();
    const pane = scrolled.getBoundingClientRect();
    if (top < pane.top || bottom > pane.bottom) scrolled.scrollBy(0, top - pane.top - pane.height / 3);
  }

  // ---- what is shown of the spans

  function draw() {
    box = document.querySelector("[data-evidence-box]");
    aiming = false;
    if (!box) return;
    spans = JSON.parse(field().value || "[]");
    for (const turn of turns()) {
      texts.draw(turn, spans.filter((span) => span.turn === Number(turn.dataset.turn)), piece);
    }
    box.querySelector("ul").replaceChildren(...spans.map(chip));
    say("");
    document.dispatchEvent(new CustomEvent("assay:marks"));
  }

  function piece(over) {
    const title = [...new Set(over.map(inWords))].join(", ");
    const made = Object.assign(document.createElement("mark"), { title, over });
    Object.assign(made.dataset, { owner: "mine", depth: over.length, says: title });
    return made;
  }

  // The marks of a span in the text as it is shown; none where it covers nothing but signs of Markdown.
  function piecesOf(span) {
    const marks = [...document.querySelectorAll("mark")].filter(({ over }) => over?.includes(span));
    return marks.filter((mark) => !mark.closest("[data-view][hidden]"));
  }

  function chip(span) {
    const item = box.querySelector("template").content.firstElementChild.cloneNode(true);
    const [show, remove] = item.querySelectorAll("button");
    const words = texts.slice(span).slice(0, 200);
    show.querySelector("q").textContent = words;
    show.querySelector("span").textContent = inWords(span);
    show.onclick = () => {
      const pieces = piecesOf(span);
      if (!pieces.length) return;
      const last = pieces.at(-1);
      getSelection().setBaseAndExtent(pieces[0], 0, last, last.childNodes.length);
      reveal();
    };
    remove.ariaLabel = remove.ariaLabel.replace("{words}", words);
    remove.onclick = () => {
      put(spans.filter((one) => one !== span));
      document.querySelector("[data-mark]").focus();
    };
    return item;
  }

  // ---- what a chosen level requires

  function onSubmit(event) {
    const form = event.target;
    if (!box || form !== field().form) return;
    for (const level of form.querySelectorAll("[data-requires]:checked:enabled")) {
      const { name, value, dataset } = level;
      const marked = !turns().length || spans.some((span) => `label.${span.criterion}` === name && span.level === Number(value));
      const given = { evidence: marked, rationale: form.elements.rationale.value.trim() };
      const lacking = dataset.requires.split(" ").find((what) => !given[what]);
      if (!lacking) continue;
      event.preventDefault();
      event.stopImmediatePropagation();
      keys.mend(level.closest("[data-criterion]"), lacking);
      return say(`${lacking}Missing`, dataset.words);
    }
  }

  document.addEventListener("keydown", onKey, true);
  document.addEventListener("submit", onSubmit, true);
  document.addEventListener("selectionchange", () => {
    if (aiming && getSelection().isCollapsed) draw();
  });
  document.addEventListener("pointerdown", (event) => {
    if (event.target.closest("[data-mark]")) held = selected();
  });
  document.addEventListener("click", (event) => {
    // A key clicks, too, without a button that was pressed: what was held then is long over.
    if (!event.target.closest("[data-mark]")) return;
    mark(event.detail && held.length ? held : undefined, event.pointerType === "touch");
  });
  document.addEventListener("assay:item", draw);
})();
