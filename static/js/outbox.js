"use strict";
// What is submitted waits here until its receipt came: sent one by one in the background, again with the same key
// after a lost answer, and also after a reload. The server takes a key once, so sending twice changes nothing.

const outbox = (() => {
  const LETTER = "assay-outbox:";
  const PAUSES = [1, 2, 4, 8, 15, 30]; // seconds before the next try
  const SLOW = 2; // seconds after which a letter on its way is said to wait
  const PATIENCE = 30; // seconds

  // A letter: item, key, batch, person, url, body (as a form sends it), draft (its key in the browser), at (when).
  let letters = [];
  let sending = false;
  let failures = 0;
  let timer = null;
  let receipt = "";
  let page = null; // what the page wants with the answer, and what it does with it: set by work.js
  const waiters = [];

  function note() {
    return document.querySelector("[data-outbox]");
  }

  // ---- in and out

  function open(handlers) {
    page = handlers;
    const person = note()?.dataset.person;
    const kept = keep.keys(LETTER).map(keep.json);
    letters = kept.filter((letter) => letter && letter.person === person).sort((one, other) => one.at - other.at);
  }

  const place = (letter) => `${LETTER}${letter.item}:${letter.key}`;

  function add(letter) {
    letters.push(letter);
    keep.put(place(letter), JSON.stringify(letter));
    setTimeout(show, SLOW * 1000);
    pump();
  }

  function remove(letter) {
    letters = letters.filter((one) => one !== letter);
    keep.drop(place(letter));
  }

  const holds = (item) => letters.some((letter) => letter.item === item);
  const items = () => letters.map((letter) => letter.item);
  const isEmpty = () => letters.length === 0;

  // Runs what must not overtake what was sent: at once, or when all of it has arrived.
  function whenEmpty(act) {
    if (isEmpty()) act();
    else waiters.push(act);
  }

  // ---- on the way

  function token() {
    return document.cookie.match(/(?:^|; )csrftoken=([^;]+)/)?.[1] || "";
  }

  // A POST of the page's own; a token renewed by signing in elsewhere stands in the cookie.
  function post(url, body = new URLSearchParams(), more = {}) {
    if (token()) body.set("csrfmiddlewaretoken", token());
    const headers = { "HX-Request": "true", "X-CSRFToken": token() };
    return fetch(url, { method: "POST", body, headers, ...more });
  }

  // Why there is no outcome: the name of the notice that says so.
  function notTaken(response) {
    const signIn = response.redirected && new URL(response.url).pathname === document.body.dataset.signIn;
    return signIn || response.status === 401 || response.status === 403 ? "notice-refused" : "notice-failed";
  }

  async function deliver(letter) {
    const body = new URLSearchParams(letter.body);
    const { had, ...wanted } = page.wants(letter);
    for (const item of had) body.append("had", item);
    for (const [name, value] of Object.entries(wanted)) body.set(name, value);
    try {
      const response = await post(letter.url, body, { signal: AbortSignal.timeout(PATIENCE * 1000) });
      const outcome = response.headers.get("Assay-Outcome");
      if (!outcome) return { problem: notTaken(response) };
      const redirect = response.headers.get("HX-Redirect");
      return { outcome, next: wanted.next, redirect, receipt: response.headers.get("Assay-Receipt"), text: await response.text() };
    } catch {
      return { problem: "notice-offline" };
    }
  }

  async function pump() {
    if (sending || isEmpty() || !note()) return;
    clearTimeout(timer);
    sending = true;
    const letter = letters[0];
    const answer = await deliver(letter);
    sending = false;
    if (answer.problem) return again(answer.problem);
    failures = 0;
    remove(letter);
    receipt = answer.receipt || "";
    tell(null);
    page.answered(letter, answer);
    show();
    if (isEmpty()) for (const act of waiters.splice(0)) act();
    pump();
  }

  function again(problem) {
    tell(problem);
    if (problem === "notice-failed") letters.push(letters.shift()); // it may be this one alone
    timer = setTimeout(pump, PAUSES[Math.min(failures, PAUSES.length - 1)] * 1000);
    failures += 1;
    show();
  }

  // ---- what the person sees

  function tell(problem) {
    const region = document.getElementById("messages");
    for (const old of region.querySelectorAll("[data-notice]")) old.remove();
    const template = problem && problem !== "notice-offline" && document.getElementById(problem);
    if (!template) return;
    const message = template.content.firstElementChild.cloneNode(true);
    message.dataset.notice = "";
    region.append(message);
  }

  function waiting() {
    if (failures) return letters.length;
    return letters.filter((letter) => Date.now() - letter.at >= SLOW * 1000).length;
  }

  function words(here) {
    if (waiting()) return here.dataset.waiting.replace("{n}", waiting());
    return receipt ? here.dataset.saved.replace("{receipt}", receipt.slice(0, 8)) : "";
  }

  function show() {
    const here = note();
    if (!here) return;
    const said = words(here);
    here.classList.toggle("outbox--waiting", waiting() > 0);
    here.title = waiting() ? "" : receipt;
    if (here.textContent !== said) here.textContent = said;
  }

  window.addEventListener("online", pump);
  window.addEventListener("beforeunload", (event) => {
    if (!isEmpty()) event.preventDefault();
  });

  return { open, add, holds, items, isEmpty, whenEmpty, post, send: pump, show };
})();
