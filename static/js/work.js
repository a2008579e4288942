"use strict";
// Labelling and adjudicating by keyboard, with drafts, the time spent, and the lease. Without it the forms still work.
// An annotation goes by the outbox, and the item ahead is on the screen at once; the other forms go by htmx.

(() => {
  const IDLE_AFTER = 2 * 60 * 1000; // without a key or a move of the mouse nobody is working on the item
  const DRAFT = "assay-draft:";
  const DRAFTS_KEPT = 14 * 24 * 60 * 60 * 1000;
  const GUIDE_HIDDEN = "assay-guide-hidden";
  const RECOUNT = 30 * 1000; // how long the page counts along before it asks again
  const SECOND_PRESS = 300; // milliseconds in which nobody has read an item: such an Enter was for the one before
  const SURPRISE = 700; // milliseconds in which keys are still meant for the item that another one took the place of

  let form = null;
  let seconds = 0;
  let sending = false;
  let touched = false;
  let followedAt = -SECOND_PRESS; // when an item took the place of one that was submitted
  let deafUntil = 0;
  let counted = Date.now();
  const spent = new WeakMap(); // the seconds of a form that had to make room
  let used = Date.now();
  let ticked = performance.now();
  let extended = performance.now();

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
    keep.put(DRAFT + form.dataset.draft, JSON.stringify({ at: Date.now(), seconds, values }));
  }

  function restoreDraft() {
    const draft = keep.json(DRAFT + form.dataset.draft);
    if (!draft || !draft.values) return;
    seconds = Number(draft.seconds) || 0;
    for (const field of fields()) {
      const value = draft.values[field.name];
      if (field.type === "radio" || field.type === "checkbox") field.checked = (value || []).includes(field.value);
      else if (typeof value === "string") field.value = value;
    }
  }

  function dropOldDrafts() {
    for (const key of keep.keys(DRAFT)) {
      const draft = keep.json(key);
      if (!draft || Date.now() - draft.at > DRAFTS_KEPT) keep.drop(key);
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
    if (!(guide instanceof HTMLDetailsElement)) hide ? keep.put(GUIDE_HIDDEN, "yes") : keep.drop(GUIDE_HIDDEN);
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
    outbox.show();
    const shown = document.querySelector("form[data-item]");
    if (shown === form) return;
    form = shown;
    sending = touched = false;
    seconds = 0;
    ticked = extended = performance.now();
    if (!form) return;
    form.noValidate = true; // this file says what is missing, and moves to it
    if (spent.has(form)) seconds = spent.get(form);
    else restoreDraft();
    if (keep.text(GUIDE_HIDDEN) && document.querySelector(".work")) setGuide(true);
    const [first] = questions();
    if (first) makeCurrent(questions().find((one) => !isAnswered(one)) || first);
    if (document.querySelector("[data-skip][open]")) document.getElementById("skip-own").focus();
    else leave();
    ahead.drop(form.dataset.item);
    if (outbox.holds(form.dataset.item)) wait();
    else lookAhead();
  }

  function isWork() {
    return Boolean(form?.dataset.ahead);
  }

  // Sent already: the next item comes with an answer.
  function wait() {
    sending = true;
    form.setAttribute("aria-busy", "true");
  }

  // Whether an answer that brings a page may take the place of what is on the screen.
  function wantsPage() {
    return form ? isWork() && sending : Boolean(document.querySelector("[data-nothing]"));
  }

  function atHand() {
    const shown = isWork() && !sending ? [form.dataset.item] : [];
    return [...shown, ...ahead.items()];
  }

  function isNew(item) {
    return item !== form?.dataset.item && !outbox.holds(item);
  }

  async function lookAhead() {
    if (!isWork() || !outbox.isEmpty()) return;
    const asked = form;
    await ahead.fetchOne(form.dataset.ahead, atHand(), isNew);
    if (form !== asked) lookAhead();
  }

  // All of the page but its head changes from item to item.
  function partsOf(article) {
    const parts = document.createDocumentFragment();
    parts.append(...[...article.children].filter((part) => !part.matches(".work__head")));
    return parts;
  }

  function showParts(parts) {
    const article = document.querySelector("article.work");
    partsOf(article);
    article.append(parts);
    arrive(article);
  }

  function showPage(parts) {
    const main = document.getElementById("main");
    main.replaceChildren(parts);
    arrive(main);
  }

  function arrive(changed) {
    htmx.process(changed);
    window.scrollTo(0, 0);
    setUp();
  }

  function showNext() {
    const parts = ahead.take();
    if (!parts) return;
    showParts(parts);
    followedAt = performance.now();
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
    if (touched || performance.now() - followedAt > SECOND_PRESS) form.requestSubmit();
  }

  function pickSkipReason(place) {
    const reason = document.querySelectorAll("[data-skip][open] [name='reason']")[place];
    if (!reason) return;
    reason.checked = true;
    reason.focus();
  }

  function onKey(event) {
    used = Date.now();
    if (performance.now() < deafUntil) return event.preventDefault();
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
    // What the server does next depends on what is still on its way to it.
    if (event.target.id === "skip-form" && !outbox.isEmpty()) {
      stop(event);
      outbox.whenEmpty(() => event.target.isConnected && event.target.requestSubmit());
    }
    if (event.target !== form) return;
    if (sending || missing()) return stop(event);
    sayMissing(false);
    tick();
    form.elements.seconds.value = seconds.toFixed(1);
    if (isWork()) {
      stop(event);
      post();
    } else wait();
  }

  function stop(event) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  function post() {
    saveDraft();
    const letter = {
      item: form.dataset.item,
      key: form.elements.key.value,
      batch: form.dataset.batch,
      person: document.querySelector("[data-outbox]").dataset.person,
      url: form.action,
      body: new URLSearchParams(new FormData(form)).toString(),
      draft: form.dataset.draft,
      at: Date.now(),
    };
    wait();
    outbox.add(letter);
    showNext();
  }

  // What the answer to a letter should bring: a page, one item ahead, or nothing but the receipt.
  function wants(letter) {
    const recount = isOfThisBatch(letter) && Date.now() - counted > RECOUNT;
    return { ...bringing(letter), ...(recount ? { progress: "yes" } : {}) };
  }

  function bringing(letter) {
    const had = [...atHand(), ...outbox.items().filter((item) => item !== letter.item)];
    if (!isOfThisBatch(letter)) return { next: "none", had };
    if (wantsPage()) return { next: had.length ? "ahead" : "page", had };
    return { next: isWork() && !ahead.items().length ? "ahead" : "none", had };
  }

  function answered(letter, answer) {
    if (answer.outcome !== "refused") keep.drop(DRAFT + letter.draft);
    if (answer.redirect) return leaveFor(answer.redirect);
    const { parts, said, progress } = ahead.read(answer.text);
    document.getElementById("messages").replaceChildren(...(said ? said.childNodes : []));
    if (progress) recount(progress);
    else if (answer.outcome === "taken" && isOfThisBatch(letter)) countOne();
    if (answer.outcome === "refused") return goBackTo(parts);
    if (answer.next === "page") {
      if (wantsPage()) return showPage(parts);
      const article = parts.querySelector("article.work"); // an item came ahead meanwhile
      if (article) keepAhead(partsOf(article));
    } else keepAhead(parts);
    if (isWork() && sending) goOn();
  }

  function isOfThisBatch(letter) {
    return letter.batch === document.querySelector("[data-outbox]").dataset.batch;
  }

  function recount(progress) {
    counted = Date.now();
    document.querySelector(".work__head [data-progress]")?.replaceWith(progress);
  }

  // As the server counts; others take items, too, so it is asked again now and then.
  function countOne() {
    const here = document.querySelector(".work__head [data-progress]");
    const bar = here?.querySelector("progress");
    if (!bar) return;
    const done = Number(here.dataset.done) + 1;
    const left = Math.max(1, Number(here.dataset.left) - 1);
    const words = here.dataset.words.replace("{done}", done).replace("{left}", left);
    Object.assign(here.dataset, { done, left });
    Object.assign(bar, { value: done, max: done + left, ariaLabel: words });
    here.querySelector(".progress__text span").textContent = words;
  }

  function goOn() {
    if (ahead.items().length) showNext();
    else if (outbox.isEmpty()) leaveFor(location.href); // the item ahead was lost: ask for the page
  }

  function keepAhead(parts) {
    const item = parts.querySelector("form[data-item]")?.dataset.item;
    if (item && isNew(item)) ahead.put(parts);
  }

  // A refused item comes back to be mended; the one on the screen makes room for it and is the next again.
  function goBackTo(parts) {
    if (isWork() && !sending) {
      tick();
      spent.set(form, seconds);
      ahead.put(partsOf(document.querySelector("article.work")), { first: true });
    }
    deafUntil = performance.now() + SURPRISE;
    showPage(parts);
  }

  function leaveFor(address) {
    ahead.stay();
    location.assign(address);
  }

  // Undo goes back to the last one that the server has: it waits for what is on its way.
  function onUndo(event) {
    if (outbox.isEmpty()) return ahead.stay();
    event.preventDefault();
    outbox.whenEmpty(() => document.querySelector("[data-undo]")?.click());
  }

  function onAnswered(event) {
    const { ctx } = event.detail;
    const source = ctx.sourceElement;
    if (ctx.hx?.redirect) ahead.stay();
    if (source && source === form) {
      sending = false;
      form.removeAttribute("aria-busy");
    }
    const taken = source?.dataset?.draft && ctx.response && ctx.response.status < 300;
    // Sent means that another page came: a lost answer, or a sign-in page, leaves the draft.
    const arrived = ctx.status === "swapped" || ctx.hx?.redirect;
    if (taken && arrived) keep.drop(DRAFT + source.dataset.draft);
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

  async function extendLeases() {
    const every = Number(form?.dataset.extendEvery) * 1000;
    if (!every || !inUse() || performance.now() - extended < every) return;
    extended = performance.now();
    try {
      if (!sending) await outbox.post(form.dataset.extend);
    } catch {
      // the next one may arrive; submitting works after the lease too, while a place is free
    }
    await ahead.extend();
    lookAhead();
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("submit", onSubmit, true);
  for (const kind of ["pointermove", "pointerdown", "wheel", "scroll"]) {
    document.addEventListener(kind, () => (used = Date.now()), { passive: true, capture: true });
  }
  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, (event) => {
      if (!form || event.target.form !== form) return;
      touched = true;
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
    if (event.target.closest("[data-undo]")) onUndo(event);
    if (event.target.closest("[data-back]")) ahead.stay();
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
    if (form && keep.text(DRAFT + form.dataset.draft)) saveDraft();
  });
  setInterval(() => {
    tick();
    extendLeases();
  }, 1000);

  outbox.open({ wants, answered });
  setUp();
  outbox.send();
  dropOldDrafts();
})();
