"use strict";
// Labelling and adjudicating by keyboard, with drafts, the time spent, and the lease. Without it the forms still work.

(() => {
  const IDLE_AFTER = 2 * 60 * 1000; // without a key or a move of the mouse nobody is working on the item
  const DRAFT = "assay-draft:";
  const DRAFTS_KEPT = 14 * 24 * 60 * 60 * 1000;
  const GUIDE_HIDDEN = "assay-guide-hidden";

  let form = null;
  let seconds = 0;
  let sending = false;
  let used = Date.now();
  let ticked = performance.now();
  let extended = performance.now();

  // ---- storage can be forbidden or full: the page must stand all the same

  function stored(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  }

  function store(key, text) {
    try {
      if (text === null) localStorage.removeItem(key);
      else localStorage.setItem(key, text);
    } catch {
      // what is typed then lives in the page alone
    }
  }

  // ---- drafts: a reload loses nothing

  function fields() {
    return [...form.elements].filter((field) => field.form === form && field.name && field.type !== "hidden");
  }

  function saveDraft() {
    const values = {};
    for (const field of fields()) {
      if (field.type !== "radio" && field.type !== "checkbox") values[field.name] = field.value;
      else if (field.checked) values[field.name] = [...(values[field.name] || []), field.value];
    }
    store(DRAFT + form.dataset.draft, JSON.stringify({ at: Date.now(), seconds, values }));
  }

  function readDraft(key) {
    try {
      return JSON.parse(stored(key));
    } catch {
      return null;
    }
  }

  function restoreDraft() {
    const draft = readDraft(DRAFT + form.dataset.draft);
    if (!draft || !draft.values) return;
    seconds = Number(draft.seconds) || 0;
    for (const field of fields()) {
      const value = draft.values[field.name];
      if (field.type === "radio" || field.type === "checkbox") field.checked = (value || []).includes(field.value);
      else if (typeof value === "string") field.value = value;
    }
  }

  function dropOldDrafts() {
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(DRAFT)) continue;
      const draft = readDraft(key);
      if (!draft || Date.now() - draft.at > DRAFTS_KEPT) store(key, null);
    }
  }

  // ---- the questions, and the guideline of the one at hand

  function questions() {
    return form ? [...form.querySelectorAll("[data-criterion]")] : [];
  }

  function inputs(question) {
    return [...question.querySelectorAll("input")];
  }

  function isAnswered(question) {
    return inputs(question).some((input) => (input.type === "radio" ? input.checked : input.value !== ""));
  }

  function current() {
    return questions().find((question) => "current" in question.dataset) || questions()[0];
  }

  function makeCurrent(question) {
    for (const other of questions()) delete other.dataset.current;
    question.dataset.current = "";
    const guides = document.querySelectorAll("[data-guide]");
    for (const guide of guides) guide.hidden = guide.dataset.guide !== question.dataset.criterion;
  }

  function moveTo(question) {
    makeCurrent(question);
    const [first] = inputs(question);
    (inputs(question).find((input) => input.checked) || first).focus();
  }

  function choose(place) {
    const question = current();
    const input = question && inputs(question)[place];
    if (!input || input.type !== "radio") return;
    input.checked = true;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    const all = questions();
    const later = all.slice(all.indexOf(question) + 1).concat(all).find((other) => !isAnswered(other));
    if (later) moveTo(later);
    else input.focus();
  }

  function sayMissing(shown) {
    const hint = form.querySelector("[data-missing]");
    if (hint) hint.hidden = !shown;
  }

  function missing() {
    const question = questions().find((one) => !isAnswered(one));
    if (!question) return false;
    moveTo(question);
    sayMissing(true);
    return true;
  }

  function setGuide(hidden) {
    const guide = document.getElementById("guide");
    if (!guide) return;
    if (guide instanceof HTMLDetailsElement) {
      guide.open = !hidden;
      if (guide.open) guide.scrollIntoView({ block: "nearest" });
      return;
    }
    guide.hidden = hidden;
    document.querySelector("[data-guide-toggle]")?.setAttribute("aria-expanded", String(!hidden));
  }

  function toggleGuide() {
    const guide = document.getElementById("guide");
    if (!guide) return;
    const hide = guide instanceof HTMLDetailsElement ? guide.open : !guide.hidden;
    setGuide(hide);
    if (!(guide instanceof HTMLDetailsElement)) store(GUIDE_HIDDEN, hide ? "yes" : null);
  }

  function showMenu(selector, wanted) {
    const menu = document.querySelector(selector);
    if (!menu) return;
    menu.open = !menu.open;
    if (menu.open) (menu.querySelector(wanted) || menu.querySelector("summary")).focus();
  }

  function leave() {
    document.activeElement.blur();
    document.querySelector("[data-read]")?.focus({ preventScroll: true, focusVisible: false });
  }

  // ---- the item on screen

  function setUp() {
    const shown = document.querySelector("form[data-item]");
    if (shown === form) return;
    form = shown;
    sending = false;
    seconds = 0;
    ticked = extended = performance.now();
    if (!form) return;
    form.noValidate = true; // this file says what is missing, and moves to it
    restoreDraft();
    if (stored(GUIDE_HIDDEN) && document.querySelector(".work")) setGuide(true);
    const [first] = questions();
    if (first) makeCurrent(questions().find((one) => !isAnswered(one)) || first);
    if (document.querySelector("[data-skip][open]")) document.getElementById("skip-own").focus();
    else leave();
  }

  // ---- keys

  const KEYS = {
    r: () => document.getElementById("rationale")?.focus(),
    s: () => showMenu("[data-skip]", "input"),
    f: () => showMenu("[data-flags]", "input"),
    g: toggleGuide,
    u: () => document.querySelector("[data-undo]")?.click(),
    "?": () => showMenu("[data-keys]", "summary"),
  };

  function takesText(element) {
    if (element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement) return true;
    return element instanceof HTMLInputElement && !["radio", "checkbox"].includes(element.type);
  }

  function takesEnter(element) {
    return Boolean(element.closest("a[href], button, summary, select, .popup__panel"));
  }

  // An input method can swallow the character and leave only the key that was pressed.
  function keyOf(event) {
    if (event.key !== "Process") return event.key.toLowerCase();
    return event.code.replace(/^(Key|Digit|Numpad)/, "").toLowerCase();
  }

  function onText(event) {
    if (event.key === "Escape") leave();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form?.requestSubmit();
    else return;
    event.preventDefault();
  }

  function onEnter(event) {
    if (!form || event.repeat || takesEnter(event.target)) return;
    event.preventDefault();
    form.requestSubmit();
  }

  function pickSkipReason(place) {
    const reason = document.querySelectorAll("[data-skip][open] [name='reason']")[place];
    if (!reason) return;
    reason.checked = true;
    reason.focus();
  }

  function onKey(event) {
    used = Date.now();
    if (event.defaultPrevented || event.isComposing || event.keyCode === 229 && takesText(event.target)) return;
    if (takesText(event.target)) return onText(event);
    if (event.key === "Enter") return onEnter(event);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = keyOf(event);
    if (/^[0-9]$/.test(key)) {
      const place = (Number(key) + 9) % 10;
      if (document.querySelector("[data-skip][open]")) pickSkipReason(place);
      else choose(place);
    } else if (Object.hasOwn(KEYS, key)) {
      KEYS[key]();
    } else return;
    event.preventDefault();
  }

  // ---- sending: once, and never away from what was typed

  function onSubmit(event) {
    if (event.target !== form) return;
    if (sending || missing()) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    sayMissing(false);
    tick();
    form.elements.seconds.value = seconds.toFixed(1);
    sending = true;
    form.setAttribute("aria-busy", "true");
  }

  function onAnswered(event) {
    sending = false;
    form?.removeAttribute("aria-busy");
    const { ctx } = event.detail;
    const taken = ctx.sourceElement?.dataset?.draft && ctx.response && ctx.response.status < 300;
    // Sent means that another page came: a lost answer, or a sign-in page, leaves the draft.
    const arrived = ctx.status === "swapped" || ctx.hx?.redirect;
    if (taken && arrived) store(DRAFT + ctx.sourceElement.dataset.draft, null);
  }

  // ---- the time spent, and the lease

  function inUse() {
    return document.visibilityState === "visible" && Date.now() - used < IDLE_AFTER;
  }

  function tick() {
    const now = performance.now();
    if (inUse()) seconds += (now - ticked) / 1000;
    ticked = now;
  }

  async function extendLease() {
    const every = Number(form?.dataset.extendEvery) * 1000;
    if (!every || !inUse() || performance.now() - extended < every) return;
    extended = performance.now();
    const body = new URLSearchParams({ csrfmiddlewaretoken: form.elements.csrfmiddlewaretoken.value });
    try {
      await fetch(form.dataset.extend, { method: "POST", body });
    } catch {
      // the next one may arrive; submitting works after the lease too, while a place is free
    }
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("submit", onSubmit, true);
  for (const kind of ["pointermove", "pointerdown", "wheel", "scroll"]) {
    document.addEventListener(kind, () => (used = Date.now()), { passive: true, capture: true });
  }
  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, (event) => {
      if (!form || event.target.form !== form) return;
      sayMissing(false);
      saveDraft();
    });
  }
  document.addEventListener("focusin", (event) => {
    const question = event.target.closest?.("[data-criterion]");
    if (question && questions().includes(question)) makeCurrent(question);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-guide-toggle]")) toggleGuide();
  });
  document.addEventListener("htmx:after:swap", () => {
    if (document.querySelector("form[data-item]") !== form) window.scrollTo(0, 0);
    setUp();
  });
  document.addEventListener("htmx:finally:request", onAnswered);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // an item from the page cache may be over
  });
  window.addEventListener("pagehide", () => {
    tick();
    if (form && stored(DRAFT + form.dataset.draft)) saveDraft();
  });
  setInterval(() => {
    tick();
    extendLease();
  }, 1000);

  setUp();
  try {
    dropOldDrafts();
  } catch {
    // no storage, no drafts
  }
})();
