"use strict";
// The item on the screen and what follows it. An annotation goes by the outbox, and the item ahead is there at
// once; other forms go by htmx. Without scripts the forms still work.

(() => {
  const RECOUNT = 30 * 1000; // how long the page counts along before it asks again
  const SKIPPED = "assay-skipped"; // tells the person's other tabs

  let form = null;
  let sending = false;
  let counted = Date.now();
  let extended = performance.now();
  const gone = new Set(); // items that another tab submitted, which the server may not know yet

  const article = () => document.querySelector("article.work");
  const isWork = () => Boolean(form?.dataset.ahead);

  // ---- what is on the screen

  function setUp() {
    document.body.toggleAttribute("data-workspace", Boolean(document.querySelector(".work, .adjudicate")));
    outbox.show();
    const shown = document.querySelector("form[data-item]");
    if (shown === form) return;
    if (form && shown) keys.followed();
    form = shown;
    sending = false;
    extended = performance.now();
    drafts.show(form);
    if (!form) return;
    form.noValidate = true; // keys.js says what is missing, and moves to it
    wellbeing.veil();
    keys.arrive();
    document.dispatchEvent(new CustomEvent("assay:item"));
    ahead.drop(form.dataset.item);
    if (outbox.items().includes(form.dataset.item)) wait();
    else lookAhead();
    outbox.show();
  }

  // Sent already: the next item comes with an answer.
  function wait() {
    sending = true;
    drafts.show(null);
    form.setAttribute("aria-busy", "true");
  }

  // The item on the screen was submitted, and no other is there yet. ``why``: ``offline``, ``signedOut`` or ``slow``.
  function showWaiting(number, why) {
    const note = form?.querySelector("[data-waits]");
    if (!note) return;
    const text = sending && number ? note.dataset[why].replace("{n}", number) : "";
    if (note.textContent !== text) note.textContent = text;
    article()?.toggleAttribute("data-waiting", Boolean(text));
  }

  // Whether an answer that brings a page may take the place of what is on the screen.
  const wantsPage = () => (form ? isWork() && sending : Boolean(document.querySelector("[data-nothing]")));
  const atHand = () => [...(isWork() && !sending ? [form.dataset.item] : []), ...ahead.items(), ...gone];
  const isNew = (item) => ![form?.dataset.item, ...outbox.items(), ...gone].includes(item);

  async function lookAhead() {
    if (!isWork() || !outbox.isEmpty()) return;
    const asked = form;
    await ahead.fetchOne(form.dataset.ahead, atHand(), isNew);
    if (form !== asked) lookAhead();
  }

  // All of the page but its head changes from item to item.
  function partsOf(page) {
    const parts = document.createDocumentFragment();
    parts.append(...[...page.children].filter((part) => !part.matches(".work__head")));
    return parts;
  }

  // Of an item its forms and dialogs ask the server; htmx would look at each element of a long text.
  function arrive(changed) {
    for (const part of changed.querySelectorAll("form, dialog")) htmx.process(part);
    window.scrollTo(0, 0);
    setUp();
  }

  function showNext() {
    const parts = ahead.take();
    if (!parts) return;
    partsOf(article());
    article().append(parts);
    arrive(article());
  }

  function showPage(parts) {
    const main = document.getElementById("main");
    main.replaceChildren(parts);
    arrive(main);
  }

  // ---- sending: once, and never away from what was typed

  function onSubmit(event) {
    const { target } = event;
    // What the server does next depends on what is still on its way to it.
    if (target.id === "skip-form" && !outbox.isEmpty()) {
      stop(event);
      outbox.whenEmpty(() => target.isConnected && target.requestSubmit());
    }
    if (target !== form) return;
    if (sending || keys.isSecondPress()) {
      stop(event);
      return sending && outbox.show(true);
    }
    if (wellbeing.open() || keys.missing() || reading.isUnread()) return stop(event); // nobody decides unseen
    tick();
    form.elements.seconds.value = drafts.seconds();
    drafts.write();
    if (!isWork()) return wait();
    stop(event);
    const { item, draft } = form.dataset;
    const body = new URLSearchParams(new FormData(form)).toString();
    const letter = { item, draft, key: form.elements.key.value, url: form.action, body };
    wait();
    outbox.add(letter);
    showNext();
  }

  function stop(event) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  const isOfThisBatch = ({ batch }) => batch === document.querySelector("[data-outbox]").dataset.batch;

  // What the answer to a letter should bring: a page, one item ahead, or nothing but the receipt.
  function wants(letter) {
    const had = [...atHand(), ...outbox.items().filter((item) => item !== letter.item)];
    if (!isOfThisBatch(letter)) return { next: "none", had };
    const recount = Date.now() - counted > RECOUNT ? { progress: "yes" } : {};
    if (wantsPage()) return { next: had.length ? "ahead" : "page", had, ...recount };
    return { next: isWork() && !ahead.items().length ? "ahead" : "none", had, ...recount };
  }

  function answered(letter, { outcome, next, redirect, text }) {
    if (outcome !== "refused") drafts.drop(letter.draft);
    if (redirect) return leaveFor(redirect);
    const { parts, said, progress } = ahead.read(text);
    document.getElementById("messages").replaceChildren(...(said ? said.childNodes : []));
    if (progress) recount(progress);
    else if (outcome === "taken" && isOfThisBatch(letter)) countOne();
    if (outcome === "refused") return goBackTo(parts);
    if (next === "page") {
      if (wantsPage()) return showPage(parts);
      const page = parts.querySelector("article.work"); // an item came ahead meanwhile
      if (page) keepAhead(partsOf(page));
    } else keepAhead(parts);
    if (isWork() && sending) goOn();
  }

  const progressShown = () => document.querySelector(".work__head [data-progress]");

  function recount(progress) {
    counted = Date.now();
    progressShown()?.replaceWith(progress);
  }

  // As the server counts; others take items, too, so it is asked again now and then.
  function countOne() {
    const here = progressShown();
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
      drafts.show(null);
      ahead.put(partsOf(article()), { first: true });
    }
    keys.surprised();
    showPage(parts);
  }

  // Another tab submitted or skipped the item: this one goes on, too. ``known``: to the server, by now.
  function elsewhere(item, known) {
    if (known) gone.delete(item);
    else gone.add(item);
    ahead.drop(item);
    if (!isWork()) return;
    if (item === form.dataset.item && !sending) {
      wait();
      showNext();
    }
    if (!known) return;
    if (sending && outbox.isEmpty()) goOn();
    else lookAhead();
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

  // What was told is read: the keys go on where they were.
  function dismiss(message) {
    message.remove();
    form?.querySelector(".level__input, input[type=number], .criterion__text")?.focus({ preventScroll: true });
  }

  function onAnswered(event) {
    const { ctx } = event.detail;
    const source = ctx.sourceElement;
    if (ctx.hx?.redirect) ahead.stay();
    // Sent means that another page came: a lost answer, or a sign-in page, leaves the draft.
    const taken = ctx.response?.status < 300 && (ctx.status === "swapped" || ctx.hx?.redirect);
    if (taken && source?.dataset.draft) drafts.drop(source.dataset.draft);
    if (taken && source?.dataset.skips) keep.put(SKIPPED, `${source.dataset.skips} ${Date.now()}`);
    // A page that follows is on its way: what is on the screen is sent, and not sent again.
    if (source && source === form && !ctx.hx?.redirect) {
      sending = false;
      form.removeAttribute("aria-busy");
      if (!taken) drafts.show(form);
    }
  }

  // ---- the time spent, and the lease

  function tick() {
    drafts.spend(wellbeing.tick() / 1000);
  }

  async function extendLeases() {
    const every = Number(form?.dataset.extendEvery) * 1000;
    if (!every || !wellbeing.inUse() || performance.now() - extended < every) return;
    extended = performance.now();
    try {
      if (!sending) await shell.post(form.dataset.extend);
    } catch {
      // the next one may arrive; submitting works after the lease too, while a place is free
    }
    await ahead.extend();
    lookAhead();
  }

  document.addEventListener("submit", onSubmit, true);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-undo]")) onUndo(event);
    if (event.target.closest("[data-back]")) ahead.stay();
    if (event.target.closest("[data-dismiss]")) dismiss(event.target.closest(".message"));
  });
  document.addEventListener("htmx:after:swap", () => {
    if (document.querySelector("form[data-item]") !== form) window.scrollTo(0, 0);
    setUp();
  });
  document.addEventListener("htmx:finally:request", onAnswered);
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key === SKIPPED && newValue) elsewhere(newValue.split(" ")[0], true);
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // an item from the page cache may be over
  });
  setInterval(() => {
    tick();
    extendLeases();
  }, 1000);

  outbox.open({ wants, answered, elsewhere, showWaiting });
  setUp();
  outbox.send();
})();
