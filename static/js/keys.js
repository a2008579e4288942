"use strict";
// A key presses the control that carries it in data-key: what the keyboard does, mouse and thumb do too. A digit
// chooses the level that carries it, or counts the choices of an open menu; arrows move between several questions.

const keys = (() => {
  const SECOND_PRESS = 300; // milliseconds in which nobody has read an item: such an Enter, or click, was for the one before
  const SURPRISE = 700; // in which keys are still meant for the item that another one took the place of
  const ARROWS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };
  const GUIDE_HIDDEN = "assay-guide-hidden";
  const beside = matchMedia("(min-width: 64rem) and (min-height: 50rem), (min-width: 80rem)"); // as the stylesheet has it

  let deafUntil = 0;
  let submitFrom = 0;
  let held = false; // a button or a finger is down
  let pressed = 0; // when the last key or click happened, not when the busy page came to it

  // ---- the questions, and the guideline of the one at hand

  const FORM = "form[data-item]";
  const questions = () => [...document.querySelectorAll(`${FORM} fieldset[data-criterion]:not([hidden])`)];
  const inputs = (question) => [...question.querySelectorAll(":is(input, textarea):enabled")];
  const isSet = (question) => "several" in question.dataset; // any of its options may be chosen
  const isAnswered = (question) => isSet(question)
    ? "optional" in question.dataset || inputs(question).some((input) => input.checked)
    : inputs(question).every((input) => input.validity.valid);
  const current = () => questions().find((question) => "current" in question.dataset) || questions()[0];

  function makeCurrent(question) {
    for (const one of questions()) one.toggleAttribute("data-current", one === question);
    for (const guide of document.querySelectorAll("[data-guide]")) {
      guide.hidden = !guide.dataset.guide.split(" ").includes(question.dataset.guidedBy);
    }
    for (const text of document.querySelectorAll("[data-turn]")) {
      const turn = text.closest(".turn");
      const isAbout = text.dataset.turn === question.dataset.aboutTurn;
      if (isAbout && !("current" in turn.dataset)) turn.scrollIntoView({ block: "nearest" });
      turn.toggleAttribute("data-current", isAbout);
    }
  }

  function follow(target) {
    const question = target.closest?.("fieldset[data-criterion]");
    if (!question || "current" in question.dataset) return;
    makeCurrent(question);
    if (question.contains(document.activeElement)) document.activeElement.scrollIntoView({ block: "nearest" });
  }

  function moveTo(question) {
    if (!question) return;
    makeCurrent(question);
    const all = inputs(question);
    (all.find((input) => input.checked) || all[0]).focus();
  }

  // What is answered with a number; not applicable is none, and neither is what is not asked.
  function numberOf(question) {
    if (question.hidden) return NaN;
    const value = question.querySelector(":checked:enabled, [type=number]:enabled")?.value;
    return value ? Number(value) : NaN;
  }

  const HOLDS = { is: (number, bound) => number === bound, at_most: (number, bound) => number <= bound,
    at_least: (number, bound) => number >= bound };

  const questionOf = (name) => name && document.querySelector(`${FORM} fieldset[data-criterion="${name}"]`);

  // Some questions are asked beside some answers only, in the guideline's order: what they hang on stands before them.
  function ask() {
    for (const question of document.querySelectorAll(`${FORM} fieldset[data-criterion]`)) {
      const box = question.querySelector("[type=number]");
      if (box) box.disabled = Boolean(question.querySelector("[type=checkbox]:checked"));
      for (const text of question.querySelectorAll("textarea")) count(text);
      for (const input of question.querySelectorAll("[type=radio], [type=number], textarea")) {
        input.required = !("optional" in question.dataset); // a form without scripts cannot tell when it is asked
      }
      const { askedIf, comparison, bound, orIf, orComparison, orBound } = question.dataset;
      const first = questionOf(askedIf);
      if (!first) continue;
      const isAsked = HOLDS[comparison](numberOf(first), Number(bound)) ||
        Boolean(orIf) && HOLDS[orComparison](numberOf(questionOf(orIf)), Number(orBound));
      if (!isAsked && question.contains(document.activeElement)) moveTo(first);
      question.hidden = question.disabled = !isAsked;
    }
  }

  function count({ value, dataset, nextElementSibling }) {
    nextElementSibling.hidden = !value;
    nextElementSibling.textContent = dataset.count.replace("{n}", [...value].length);
  }

  // "Not applicable" stands alone; the option chosen last is the one that words are marked for.
  function onChoice({ target }) {
    const question = target.closest?.("[data-several]");
    if (!question || !target.checked) return;
    question.dataset.last = target.value;
    for (const other of inputs(question)) {
      if (other !== target && [other.value, target.value].includes("na")) other.checked = false;
    }
  }

  // Whether the press is used up: a digit of a number is still to be typed, into the box that has the focus now.
  function choose(digit) {
    const question = current();
    if (question?.querySelector("[data-ranks]")) return ranks.press(question, digit);
    const box = question?.querySelector("[type=number]:enabled");
    if (box && /\d/.test(digit)) {
      box.focus();
      box.select();
      return false;
    }
    const input = question && inputs(question).find(({ dataset }) => dataset.digit === digit);
    if (!input) return true;
    input.click();
    input.focus();
    if (!isSet(question) && isAnswered(question)) goOn(question); // else more may be chosen, or it is typed now
    return true;
  }

  // To the next question that has no answer.
  function goOn(question) {
    const all = questions();
    moveTo(all.slice(all.indexOf(question) + 1).concat(all).find((other) => !isAnswered(other)));
  }

  // What a criterion lacks is given there: a level that needs evidence is the one that it is marked for.
  function mend(question, lacks) {
    moveTo(question);
    if (lacks === "rationale") document.getElementById("rationale").focus();
  }

  function sayMissing(question) {
    const hint = document.querySelector("[data-missing]");
    if (!hint) return;
    hint.hidden = !question;
    if (question) hint.textContent = hint.dataset[question.querySelector(".levels, [type=number]") ? "level" : "answer"];
  }

  // Whether a question has no answer yet: it is said, and moved to.
  function missing() {
    const question = questions().find((one) => !isAnswered(one));
    sayMissing(question);
    moveTo(question);
    return Boolean(question);
  }

  // Beside the text it stays as the person wants it; on a small screen it is a sheet that covers the rest.
  function setGuide(hidden) {
    const guide = document.querySelector("aside#guide");
    if (!guide) return;
    guide.hidden = hidden;
    guide.closest(".work")?.toggleAttribute("data-guide-hidden", hidden);
    for (const toggle of document.querySelectorAll("[data-guide-toggle]")) toggle.ariaExpanded = String(!hidden);
  }

  const guideAsWished = () => setGuide(beside.matches ? Boolean(keep.text(GUIDE_HIDDEN)) : true);

  function toggleGuide() {
    const guide = document.getElementById("guide");
    setGuide(!guide.hidden);
    if (beside.matches) guide.hidden ? keep.put(GUIDE_HIDDEN, "yes") : keep.drop(GUIDE_HIDDEN);
    else if (!guide.hidden) guide.focus();
  }

  function leave() {
    document.activeElement.blur();
    document.querySelector("[data-read]")?.focus({ preventScroll: true, focusVisible: false });
  }

  // An item has come on the screen.
  function arrive() {
    guideAsWished();
    ask();
    const [first] = questions();
    if (first) makeCurrent(questions().find((one) => !isAnswered(one)) || first);
    const refused = questions().find((question) => "refused" in question.dataset);
    if (document.querySelector("[data-skip][open]")) document.getElementById("skip-own").focus();
    else if (refused) mend(refused, refused.dataset.refused);
    else leave();
  }

  // ---- what a key does

  const takesText = (element) => element.matches?.("textarea, select, input:not([type=radio], [type=checkbox])");

  // An input method or Alt can swallow the character and leave only the key that was pressed.
  function keyOf(event) {
    if (event.key !== "Process" && !event.altKey) return event.key.toLowerCase();
    return event.code.replace(/^(Key|Digit|Numpad)/, "").replace("Slash", event.shiftKey ? "?" : "/")
      .replace("Equal", "=").replace("Minus", "-").replace("Period", ".").toLowerCase();
  }

  function press(control) {
    if (takesText(control)) {
      control.focus();
      control.selectionStart = control.value.length;
      return;
    }
    control.click();
    const menu = control.matches("summary") && control.parentElement;
    if (menu?.open) (menu.querySelector("input") || control).focus();
  }

  function pick(digit) {
    const menu = document.querySelector("[data-menu][open]");
    if (!menu) return choose(digit);
    const choice = menu.querySelectorAll("[type=radio], [type=checkbox]")[(Number(digit) + 9) % 10]; // none for a sign
    choice?.click();
    choice?.focus();
    return true;
  }

  function submit() {
    document.querySelector("form[data-item], form[data-enter]")?.requestSubmit();
  }

  function onText(event) {
    if (event.key === "Escape") leave();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
    else if (event.key === "-" && event.target.min >= 0 && current()?.querySelector("[data-digit='-']")) choose("-");
    else return false;
    return true;
  }

  function onEnter(event) {
    if (event.repeat) return true;
    if (event.target.closest("a[href], button, summary, .popup__panel")) return false;
    submit();
    return true;
  }

  function onOther(event) {
    if (event.ctrlKey || event.metaKey) return false;
    const step = !event.altKey && !event.shiftKey && ARROWS[event.key]; // else the browser's: back, or select
    const all = questions();
    if (step && all.length > 1 && !event.target.closest("#guide, [data-menu]")) {
      moveTo(all[all.indexOf(current()) + step]);
      return true;
    }
    if (event.key === "Escape") {
      if (event.target.closest(".popup")) leave(); // the menu is closed by shell.js
      if (!beside.matches) setGuide(true);
    }
    const single = document.querySelector("[data-single-keys]")?.dataset.singleKeys !== "no";
    if (event.altKey === single) return false; // who turned single keys off presses Alt with each
    const key = keyOf(event);
    if (/^[\d.=-]$/.test(key)) return pick(key);
    const control = key.length === 1 && document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (control) press(control);
    return Boolean(control);
  }

  function onKey(event) {
    if (performance.now() < deafUntil) return event.preventDefault();
    const text = takesText(event.target);
    if (event.defaultPrevented || event.isComposing || (event.keyCode === 229 && text)) return;
    if (document.querySelector("dialog[open]")) return;
    const act = text ? onText : event.key === "Enter" ? onEnter : onOther;
    if (act(event)) event.preventDefault();
  }

  // Another item is on the screen: from now on it can be read.
  function followed() {
    submitFrom = Infinity;
    requestAnimationFrame(() => setTimeout(() => (submitFrom = performance.now() + SECOND_PRESS)));
  }

  for (const kind of ["keydown", "click"]) {
    document.addEventListener(kind, (event) => (pressed = event.timeStamp), true);
  }
  document.addEventListener("keydown", onKey);
  document.addEventListener("change", onChoice, true);
  document.addEventListener("input", () => sayMissing(null));
  for (const kind of ["input", "change", "assay:item"]) document.addEventListener(kind, ask, true);
  // What is pressed stays where it is until it is let go: the current question may be higher than the others.
  document.addEventListener("pointerdown", () => (held = true), true);
  document.addEventListener("keydown", () => (held = false), true); // a press may end without a click
  for (const kind of ["click", "pointercancel"]) {
    document.addEventListener(kind, ({ target }) => {
      held = false;
      follow(target);
    });
  }
  document.addEventListener("focusin", ({ target }) => {
    if (!held) follow(target);
  });
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-guide-toggle]")) toggleGuide();
  });
  beside.addEventListener("change", guideAsWished);

  return {
    arrive,
    isAnswered,
    goOn,
    guide: () => current() && makeCurrent(current()),
    mend,
    missing,
    followed,
    isSecondPress: () => !drafts.isTouched() && pressed < submitFrom,
    surprised: () => (deafUntil = performance.now() + SURPRISE),
  };
})();
